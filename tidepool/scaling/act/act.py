"""Carries decisions out: Slurm's part at once, the stack's part by one `up` at a time. Each is looked at once more before.

What an intent comes to is told to whoever has the journal; here nothing is decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from types import UnionType
from typing import Final

from tidepool.clients.slurm import Refused, SlurmError
from tidepool.cluster.failures import InfrastructureError
from tidepool.cluster.hostlist import HostSet, fold
from tidepool.infrastructures import Infrastructure
from tidepool.scaling.act.validity import (
    wrong_delete_orphan,
    wrong_drain,
    wrong_release_slot,
    wrong_remove,
    wrong_repair,
    wrong_undrain,
)
from tidepool.scaling.decide.node_status import OURS
from tidepool.scaling.decision import (
    Convert,
    DeleteOrphan,
    Drain,
    Launch,
    PowerFailed,
    ReleaseSlot,
    Remove,
    Repair,
    Suspend,
    Undrain,
)
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.observe import Observer
from tidepool.scaling.ports import Intent, Result, Stack


def adopted(
    desired: Mapping[str, HostSet],
    fleets: Mapping[str, HostSet],
    recorded: Collection[str],
    launching: Collection[str],
    removing: Collection[str],
) -> dict[str, HostSet]:
    """Return what is desired, by fleet, after a look at the stack: brought up to what a person did to it.

    Nodes in the outputs' ``fleets`` that nobody asked for are a person's, who raised `min_nodes` say: they are
    desired from now on, but for those that are being removed. Nodes that neither the outputs nor the state know, and
    that are not being launched, are gone by a person's hand, by a `down` say: they are not desired any more.
    """
    joined: dict[str, HostSet] = {}
    for fleet in sorted({*desired, *fleets}):
        hosts, there = desired.get(fleet, HostSet()), fleets.get(fleet, HostSet())
        new = [name for name in there - hosts if name not in removing]
        gone = [name for name in hosts - there if name not in recorded and name not in launching]
        joined[fleet] = (hosts | HostSet.from_names(new)) - HostSet.from_names(gone)
    return joined


def applied(
    fleets: Mapping[str, HostSet], desired: Mapping[str, HostSet], nodes: Mapping[str, str]
) -> dict[str, HostSet]:
    """Return what the stack should have after an `up` of ``nodes`` (by name, their fleets), and of no others.

    Others are as the outputs' ``fleets`` have them: what is desired besides is for another `up`.
    """
    after = dict(fleets)
    for name, fleet in nodes.items():
        one = HostSet.from_names([name])
        there = after.get(fleet, HostSet())
        after[fleet] = there | one if name in desired.get(fleet, HostSet()) else there - one
    return after


def still_suspended(
    suspended: Mapping[str, HostSet], nodes: Mapping[str, str], new: Collection[str]
) -> dict[str, HostSet]:
    """Return, by fleet, the machines that are suspended after an `up` of ``nodes`` (by name, their fleets), ``new`` among them.

    ``suspended`` are those of the outputs: of the others of ``nodes`` none is any more.
    """
    after = dict(suspended)
    for name, fleet in nodes.items():
        one = HostSet.from_names([name])
        there = after.get(fleet, HostSet())
        if name in new or name in there:
            after[fleet] = there | one if name in new else there - one
    return after


_DEAD: Final = f"{OURS} its machine does not run"
#: What an `up` does.
StackAction = Launch | Remove | Suspend | Repair | Convert
#: What takes nodes away.
LEAVING: Final = Remove | Suspend


@dataclass(frozen=True, slots=True)
class Batch:
    """The nodes of one `up`: by name, with their fleets; and those that are not to be touched any more."""

    intents: tuple[Intent, ...]
    nodes: Mapping[str, str]
    refresh: frozenset[str]
    #: By node, why it is left out.
    overtaken: Mapping[str, str]
    #: Nodes whose machines do not run, and that have jobs by what Slurm believes.
    dead: frozenset[str] = frozenset()

    @property
    def kept(self) -> frozenset[str]:
        """Nodes that were to go, and stay."""
        return nodes_of(self.intents, LEAVING) & self.overtaken.keys()

    @property
    def suspended(self) -> frozenset[str]:
        """Nodes whose machines are suspended."""
        return nodes_of(self.intents, Suspend) & self.nodes.keys()


class Hands:
    """Carries out decisions. ``may_act`` says, before each effect, whether the lease still holds."""

    def __init__(
        self,
        observer: Observer,
        stack: Stack,
        machines: Infrastructure,
        now: Callable[[], datetime],
        may_act: Callable[[], bool],
    ) -> None:
        self._observer = observer
        self._stack = stack
        self._machines = machines
        self._now = now
        self._may_act = may_act

    def at_once(self, intents: Iterable[Intent], memory: Memory, was_idle: Collection[str]) -> list[Intent]:
        """Carry out what Slurm or the infrastructure does at once; the intents with what they came to.

        ``was_idle`` are the nodes that had no jobs when it was decided. Those that are missing in what is returned are
        an `up`'s, or were not begun because the lease is over.

        Raises:
            Unseen: it cannot be looked at once more; those that were not come to stay open.
        """
        ended: list[Intent] = []
        for intent in intents:
            if is_for_the_stack(intent) or not self._may_act():
                continue
            match intent.action:
                case Drain():
                    ended.append(self._drain(intent, intent.action, memory, was_idle))
                case Undrain(nodes=nodes):
                    recheck, order = self._observer.recheck(nodes), self._observer.slurm.undrain
                    wrong = {name: wrong_undrain(recheck, name) for name in nodes}
                    ended.append(self._ordered(intent, wrong, order))
                case PowerFailed():
                    ended.append(self._power_failed(intent, intent.action))
                case ReleaseSlot(nodes=nodes):
                    recheck = self._observer.recheck(nodes, machines=True)
                    wrong = {name: wrong_release_slot(recheck, name) for name in nodes}
                    ended.append(self._ordered(intent, wrong, self._observer.slurm.to_future))
                case DeleteOrphan():
                    ended.append(self._delete_orphan(intent, intent.action))
        if ended:
            self._observer.expect()
        return ended

    def batch(self, intents: Sequence[Intent], desired: Mapping[str, HostSet]) -> Batch:
        """Return what the next `up` of fleets' nodes is to do of ``intents``.

        Raises:
            Unseen: it cannot be looked at once more.
        """
        repaired = nodes_of(intents, Repair)
        looked_at = nodes_of(intents, LEAVING) | repaired
        recheck = self._observer.recheck(looked_at, machines=True) if looked_at else None
        nodes: dict[str, str] = {}
        overtaken: dict[str, str] = {}
        dead: set[str] = set()
        for intent in intents:
            action = intent.action
            assert isinstance(action, Launch | Remove | Suspend | Repair)
            for name in action.nodes:
                wrong = ""
                if recheck is not None and isinstance(action, LEAVING):
                    wrong = wrong_remove(recheck, name)
                    if recheck.is_dead(name) and recheck.has_jobs(name):
                        dead.add(name)
                elif recheck is not None and isinstance(action, Repair):
                    wrong = wrong_repair(recheck, name, name in desired.get(action.fleet, HostSet()))
                if wrong:
                    overtaken[name] = wrong
                else:
                    nodes[name] = action.fleet
        return Batch(tuple(intents), nodes, repaired & nodes.keys(), overtaken, frozenset(dead))

    def give_back_jobs(self, names: Collection[str]) -> None:
        """Have Slurm put back into the queue what it believes to run on nodes whose machines do not run.

        Of a machine that is reached over the network an `up` cannot know that, and would refuse to take its node away until Slurm gives
        it up by itself, minutes later.
        """
        # Where Slurm does not answer, or refuses, the `up` will say so.
        with suppress(SlurmError):
            _for_each(sorted(names), lambda hosts: self._observer.slurm.down(hosts, _DEAD))

    # One by one

    def _drain(self, intent: Intent, action: Drain, memory: Memory, was_idle: Collection[str]) -> Intent:
        recheck = self._observer.recheck(action.nodes)
        wrong = {name: wrong_drain(recheck, name, was_idle) for name in action.nodes}
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for name in action.nodes:
            if not wrong[name]:
                known = memory.drains.get(name)
                by_reason[known.reason if known else _as_ours(action.reason)].append(name)
        slurm = self._observer.slurm
        failed: dict[str, str] = {}
        for reason, names in by_reason.items():
            failed |= _for_each(names, lambda hosts, why=reason: slurm.drain(hosts, why))  # type: ignore[misc]
        return self._ended(intent, action.nodes, wrong, failed)

    def _power_failed(self, intent: Intent, action: PowerFailed) -> Intent:
        slurm, reason = self._observer.slurm, _as_ours(action.reason)
        # First DOWN, which puts their jobs back into the queue: one that powers up is not powered down before its time.
        failed = _for_each(action.nodes, lambda hosts: slurm.down(hosts, reason))
        failed |= _for_each([name for name in action.nodes if name not in failed], slurm.power_down)
        return self._ended(intent, action.nodes, {}, failed)

    def _delete_orphan(self, intent: Intent, action: DeleteOrphan) -> Intent:
        key = action.machine
        recheck = self._observer.recheck([key.node], machines=True)
        if wrong := wrong_delete_orphan(recheck, key, self._stack.is_busy()):
            return self._ended(intent, (key.node,), {key.node: wrong}, {})
        try:
            self._machines.delete(key)
        except (InfrastructureError, OSError) as error:
            return self._ended(intent, (key.node,), {}, {key.node: str(error)})
        return self._ended(intent, (key.node,), {}, {})

    def _ordered(self, intent: Intent, wrong: Mapping[str, str], order: Callable[[str], object]) -> Intent:
        right = [name for name, why in wrong.items() if not why]
        return self._ended(intent, tuple(wrong), wrong, _for_each(right, order))

    def _ended(
        self, intent: Intent, nodes: Sequence[str], wrong: Mapping[str, str], failed: Mapping[str, str]
    ) -> Intent:
        return ended(intent, nodes, {name: why for name, why in wrong.items() if why}, failed, self._now())


def is_for_the_stack(intent: Intent) -> bool:
    """Return whether an `up` carries it out."""
    return isinstance(intent.action, StackAction)


def nodes_of(
    intents: Iterable[Intent], kind: type[Launch | Remove | Suspend | Repair] | UnionType | None = None
) -> frozenset[str]:
    """The nodes of those intents that are an `up`'s, or are of that kind."""
    return frozenset(
        name
        for intent in intents
        if isinstance(intent.action, StackAction) and isinstance(intent.action, kind or StackAction)
        for name in intent.action.nodes
    )


def ended(
    intent: Intent,
    nodes: Collection[str],
    overtaken: Mapping[str, str],
    failed: Mapping[str, str],
    at: datetime,
) -> Intent:
    """The intent with its result: done where some node of it was; and with what became of the others."""
    failures = {name: why for name, why in failed.items() if name in nodes}
    left = {name: why for name, why in overtaken.items() if name in nodes}
    result: Result = "failed" if failures else "overtaken" if len(left) == len(nodes) else "done"
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in [*failures.items(), *left.items()]:
        texts[why].append(name)
    said = "; ".join(f"{fold(names)}: {why}" for why, names in texts.items())
    return replace(intent, result=result, ended=at, text=said)


def _for_each(names: Sequence[str], order: Callable[[str], object]) -> dict[str, str]:
    """Give an order for all names, or one by one where Slurm refuses some; by name, why it failed."""
    if not names:
        return {}
    try:
        order(fold(names))
    except Refused as refused:
        if len(names) == 1:
            return {names[0]: refused.what}
        failed: dict[str, str] = {}
        for name in names:
            failed |= _for_each([name], order)
        return failed
    except SlurmError as error:
        return dict.fromkeys(names, error.what)
    except OSError as error:
        return dict.fromkeys(names, str(error))
    return {}


def _as_ours(reason: str) -> str:
    return reason if reason.startswith(OURS) else f"{OURS} {reason}"

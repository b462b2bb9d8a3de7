"""Machines of pools that are to move: looked at once more, ordered in the journal of conversions, and then an `up`'s.

Who reads that journal sees who moves a machine, and why; and whoever carries it out goes on with what stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.roles import Role
from tidepool.conversion.ports import ConversionError, NotOrdered
from tidepool.conversion.record import Order
from tidepool.scaling.act.validity import wrong_convert
from tidepool.scaling.cluster_state import RecordedRole
from tidepool.scaling.decision import Convert
from tidepool.scaling.observe.observation import PoolsRecheck
from tidepool.scaling.observe.observe import Observer, PoolsUnseen
from tidepool.scaling.ports import Intent

#: They were idle a moment ago: what came meanwhile is not waited for, so that no `up` waits for it either.
DEADLINE_S: Final = 15.0
#: Whose orders these are.
US: Final = "scaler"


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of one `up` of roles: by machine its pool, and the role that it is to have.

    ``refresh`` are those of which the state may not know what they are, ``overtaken`` those that are left, and why.
    """

    intents: tuple[Intent, ...]
    nodes: Mapping[str, str]
    to: Mapping[str, Role]
    refresh: frozenset[str]
    overtaken: Mapping[str, str]

    def without(self, overtaken: Mapping[str, str]) -> Moves:
        return replace(
            self,
            nodes={name: pool for name, pool in self.nodes.items() if name not in overtaken},
            to={name: role for name, role in self.to.items() if name not in overtaken},
            refresh=self.refresh - overtaken.keys(),
            overtaken={**self.overtaken, **overtaken},
        )


class Conversions:
    """Moves machines of pools. ``may_act`` says, before each effect, whether the lease still holds."""

    def __init__(self, observer: Observer, now: Callable[[], datetime], may_act: Callable[[], bool]) -> None:
        self._observer = observer
        self._now = now
        self._may_act = may_act

    def moves(self, intents: Sequence[Intent], since_s: float) -> tuple[Moves, PoolsRecheck] | None:
        """Return what is still right of ``intents``, which are conversions, and what was seen of it.

        None: Kubernetes was not looked at yet since ``since_s``.

        Raises:
            PoolsUnseen: it cannot be looked at once more.
            Unseen: Slurm cannot be asked.
        """
        actions = [intent.action for intent in intents if isinstance(intent.action, Convert)]
        recheck = self._observer.recheck_pools([name for action in actions for name in action.nodes], since_s)
        if recheck is None:
            return None
        nodes: dict[str, str] = {}
        to: dict[str, Role] = {}
        overtaken: dict[str, str] = {}
        for action in actions:
            for name in action.nodes:
                if wrong := wrong_convert(recheck, name, action.to, repairs=action.repairs):
                    overtaken[name] = wrong
                else:
                    nodes[name], to[name] = action.pool, action.to
        repaired = frozenset(name for action in actions if action.repairs for name in action.nodes)
        return Moves(tuple(intents), nodes, to, repaired & nodes.keys(), overtaken), recheck

    def order(self, moves: Moves, recheck: PoolsRecheck) -> Moves:
        """Write the orders down; without those that somebody else was quicker with.

        Raises:
            PoolsUnseen: the journal of conversions cannot be written. What stands in it is gone on with.
        """
        refused: dict[str, str] = {}
        for intent in moves.intents:
            action = intent.action
            assert isinstance(action, Convert)
            for name in action.nodes:
                if (
                    name not in moves.nodes
                    or not self._may_act()
                    or not self._needs_order(action, name, recheck)
                ):
                    continue
                order = Order(
                    name, action.pool, action.to, self._now(), US, action.reason, deadline_s=DEADLINE_S
                )
                record = recheck.recorded.get(name)
                # What was begun left it with no role.
                leaves = record.role if record is not None and not action.repairs else None
                try:
                    self._observer.conversions.order(order, leaves)
                except NotOrdered as error:
                    refused[name] = str(error)
                except ConversionError as error:
                    raise PoolsUnseen(str(error)) from error
        return moves.without(refused)

    def withdraw(self, names: Collection[str]) -> None:
        """Take back orders of ours that nobody has begun to carry out."""
        try:
            for name in names:
                found = self._observer.conversions.under_way(name)
                if found is not None and found.order.by == US and found.phase == "asked":
                    self._observer.conversions.cancel(name, US)
        except ConversionError:
            return  # Nobody carries it out, and after a while it gives way to another.

    def _needs_order(self, action: Convert, name: str, recheck: PoolsRecheck) -> bool:
        """Not where one stands there already, or where a look at the machine is enough."""
        under_way = recheck.under_way.get(name)
        if under_way is not None:
            return under_way.order.to != action.to
        record = recheck.recorded.get(name)
        return record is None or not (
            action.repairs and record.role != action.to and self._is_done(name, action)
        )

    def _is_done(self, name: str, action: Convert) -> bool:
        last = next(iter(self._observer.conversions.conversions(node=name, limit=1)), None)
        return last is not None and last.phase == "done" and last.order.to == action.to


def serving(recorded: Mapping[str, RecordedRole], moves: Moves) -> dict[str, HostSet]:
    """By pool that is touched, the machines that serve Kubernetes when ``moves`` are done."""
    found: dict[str, HostSet] = {}
    for pool in sorted(set(moves.nodes.values())):
        names = [
            name
            for name, record in recorded.items()
            if name.rpartition("-")[0] == pool and moves.to.get(name, record.role) == "kubernetes"
        ]
        found[pool] = HostSet.from_names(names)
    return found

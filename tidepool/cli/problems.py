"""Problems of a cluster, worked out from what was observed of it, each with its remedy. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tidepool import infrastructures
from tidepool.cli.cluster import Cluster, fleet_of
from tidepool.clients.slurm import Controller, Job, Node, NodeBase, NodeFlag, NodeState
from tidepool.cluster.hostlist import HostSet, fold
from tidepool.cluster.names import (
    ACCOUNTING_HOST,
    BACKUP_CONTROLLER_HOST,
    CONTROL_PLANE_HOST,
    CONTROLLER_HOST,
)
from tidepool.infrastructures.local.kernel import Machine

#: slurmctld does not run there, and is not to.
_DOWN: Final = frozenset({"off", "ended"})
#: Base states and flags that somebody has to look at.
_BAD_BASES: Final = frozenset({NodeBase.DOWN, NodeBase.ERROR, NodeBase.UNKNOWN})
_BAD_FLAGS: Final = frozenset({NodeFlag.FAIL, NodeFlag.INVALID_REG, NodeFlag.NOT_RESPONDING})

#: What `state_word` calls nodes that somebody has to look at.
BAD_WORDS: Final = frozenset({"down", "error", "unknown", "not responding", "failing"})

Severity = Literal["failure", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be, or that a person should know, with the step that mends it."""

    severity: Severity
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RemoteMachines:
    """Machines of other infrastructures than this machine.

    ``silent`` are those that cannot be asked, by name, and why: fleets that are ``unseen`` may have machines there.
    """

    machines: tuple[infrastructures.Machine, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Observations:
    """Observations of a cluster. ``failure`` says why Slurm could not be asked; ``remedy`` mends that."""

    controllers: tuple[Controller, ...] = ()
    version: str = ""
    nodes: tuple[Node, ...] = ()
    jobs: tuple[Job, ...] = ()
    machines: tuple[Machine, ...] = ()
    failure: str = ""
    remedy: str = ""
    remote: RemoteMachines = field(default_factory=RemoteMachines)


@dataclass(frozen=True, slots=True)
class _Problems:
    """Problems by their words, each with the names that it is about, in the order in which they came."""

    names: dict[tuple[Severity, str, str], list[str]] = field(default_factory=dict)

    def failure(self, name: str, what: str, remedy: str) -> None:
        """Add a failure of ``name``. ``what`` and ``remedy`` have ``{}`` where the names stand."""
        self.names.setdefault(("failure", what, remedy), []).append(name)

    def note(self, name: str, what: str, remedy: str) -> None:
        """Add a note about ``name``, as a failure."""
        self.names.setdefault(("note", what, remedy), []).append(name)

    def problems(self) -> Iterator[Problem]:
        for (severity, what, remedy), names in self.names.items():
            listed = fold(names)
            yield Problem(severity, what.replace("{}", listed), remedy.replace("{}", listed))


def state_word(state: NodeState) -> str:
    """A node's state in a word or two: idle, mixed, allocated, draining, drained, down, not responding, ..."""
    if NodeFlag.NOT_RESPONDING in state.flags:
        return "not responding"
    if state.base in _BAD_BASES:
        return state.base.lower()
    if state.is_draining:
        return "drained" if state.is_drained else "draining"
    if NodeFlag.FAIL in state.flags:
        return "failing"
    return "slot" if state.is_slot else state.base.lower()


def own_machines(cluster: Cluster) -> frozenset[str]:
    """The names of the cluster's own machines, which are no nodes."""
    named = (each.get("machine") for each in (cluster.controller, *cluster.logins))
    return frozenset(
        {
            CONTROLLER_HOST,
            BACKUP_CONTROLLER_HOST,
            ACCOUNTING_HOST,
            CONTROL_PLANE_HOST,
            *(str(name) for name in named if name),
        }
    )


def problems(cluster: Cluster, seen: Observations) -> Iterator[Problem]:
    """Yield all problems, failures first."""
    if seen.failure:
        yield Problem("failure", seen.failure, seen.remedy)
    told = _Problems()
    machines = {machine.name: machine for machine in seen.machines}
    for controller in seen.controllers:
        # A pool's machine runs it in one role, and one that was taken over from stays down: that is told below.
        if (
            not controller.is_up
            and not seen.failure
            and _slurmctld(machines.get(controller.host)) not in _DOWN
        ):
            told.failure(
                controller.host,
                "slurmctld on {} does not answer",
                "`tidepool logs {}` says why; `tidepool up`",
            )
    own = own_machines(cluster)
    there = seen.remote
    states = {
        **{each.key.node: each.state for each in there.machines},
        **{each.name: each.state for each in seen.machines},
    }
    _of_nodes(told, seen.nodes, states, there.unseen)
    _of_machines(told, seen.machines)
    _of_remote(told, there)
    if not seen.failure:
        _of_absence(told, cluster, seen.nodes, states.keys(), own, there.unseen)
    yield from sorted(told.problems(), key=lambda problem: problem.severity != "failure")


def _slurmctld(machine: Machine | None) -> str:
    """The state of that service there; empty where there is none."""
    services = machine.services if machine is not None else ()
    return next((service.state for service in services if service.name == "slurmctld"), "")


def _of_nodes(
    told: _Problems, nodes: Iterable[Node], machines: Mapping[str, str], unseen: Collection[str]
) -> None:
    """``machines`` are the states of those that are seen; of fleets that are ``unseen``, there may be others."""
    for node in nodes:
        state = node.state
        if state.is_slot:
            continue
        why = f": {node.reason.text}" if node.reason else ""
        if state.base in _BAD_BASES or state.flags & _BAD_FLAGS:
            if machines.get(node.name, "running" if fleet_of(node.name) in unseen else "") != "running":
                remedy = "`tidepool up` makes it again"
            else:
                remedy = "`tidepool logs {}` says more; `tidepool resume {}` once it is well"
            told.failure(node.name, f"node {{}} is {state}{why}", remedy)
        elif state.is_draining:
            told.note(node.name, f"node {{}} is {state_word(state)}{why}", "`tidepool resume {}`")


def _of_machines(told: _Problems, machines: Iterable[Machine]) -> None:
    for machine in machines:
        if machine.state == "frozen":
            told.failure(machine.name, "machine {} is frozen", "`tidepool up`, or thaw it")
        elif machine.state != "running":
            told.failure(machine.name, f"machine {{}} is {machine.state}", "`tidepool up` boots it again")
        for service in machine.services:
            if service.state == "backing-off":
                told.failure(
                    machine.name, f"{service.name} on machine {{}} does not stay up", "`tidepool logs {}`"
                )
            if service.state == "ended":
                told.note(
                    machine.name,
                    f"{service.name} of {{}} ended without an error, as one does that another took over from, and stays down",
                    f"`tidepool exec {{}} -- sh -c '{_start(service.name)}'` starts it",
                )
        if machine.outdated:
            told.note(
                machine.name,
                "machine {} runs as it booted, before the spec changed",
                "its next boot takes the change",
            )
        if machine.memory_kills:
            told.note(
                machine.name,
                "on machine {} processes were killed, because its memory was full",
                "jobs that ask for less memory than they use, or a larger shape",
            )


def _of_remote(told: _Problems, there: RemoteMachines) -> None:
    for name, why in there.silent.items():
        told.failure(name, f"machines of {{}} cannot be listed: {why}", "`tidepool doctor` looks at {}")
    for machine in there.machines:
        if machine.state == "unknown":
            told.failure(
                machine.key.node,
                f"it is not known how machine {{}} of {machine.key.infrastructure} is: {machine.why}",
                "start it, or see what is in its way",
            )
        elif machine.state == "stopped":
            told.failure(
                machine.key.node,
                f"machine {{}} of {machine.key.infrastructure} is stopped",
                "`tidepool why node {}` says what becomes of it; `tidepool up`",
            )
        if machine.is_ending:
            told.note(
                machine.key.node,
                f"somebody else deletes machine {{}} of {machine.key.infrastructure}, which goes when its jobs have ended",
                "`tidepool scale` drains it, and takes it away then",
            )
    names = Counter(machine.key.node for machine in there.machines)
    for node in sorted(name for name, count in names.items() if count > 1):
        told.failure(node, "node {} has several machines", "`tidepool scale` deletes those of no record")


def _start(service: str) -> str:
    """Return the command by which a machine's first process starts a service that ended on purpose."""
    return f"mkdir -p /run/tidepool/start; touch /run/tidepool/start/{service}; kill -HUP 1"


def _of_absence(
    told: _Problems,
    cluster: Cluster,
    nodes: Iterable[Node],
    machines: Collection[str],
    own: frozenset[str],
    unseen: Collection[str],
) -> None:
    there = {node.name for node in nodes if not node.state.is_slot}
    for name in sorted(name for name in there - set(machines) if fleet_of(name) not in unseen):
        told.failure(name, "node {} has no machine", "`tidepool up` makes it")
    # Those of pools that serve Kubernetes are nothing in Slurm, and others may be on their way there.
    remote = {name for roles in cluster.pools.values() for text in roles.values() for name in HostSet(text)}
    remote |= {name for text in cluster.suspended.values() for name in HostSet(text)}
    for name in sorted(set(machines) - there - own - remote):
        told.failure(name, "machine {} is no node of Slurm's", "`tidepool logs {}` says why; `tidepool up`")
    wanted = {name for text in cluster.fleets.values() for name in HostSet(text)}
    for name in sorted(wanted - there - set(machines)):
        told.failure(name, "node {} should be there, and is not", "`tidepool up` makes it")

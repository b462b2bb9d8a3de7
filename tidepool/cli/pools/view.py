"""Pools as they are seen from all sides, worked out of what was seen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from tidepool.cli.cluster import parse_outputs
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.explain.lines import Cell, Line, deadline, holds, moment, phase_words, phases, work_words
from tidepool.cli.jobs import with_nodes
from tidepool.cli.pools import (
    PoolObservations,
    Pools,
    SlurmObservation,
    observe_both,
    read_conversions,
    require_pools,
)
from tidepool.cli.problems import state_word
from tidepool.cli.show import between
from tidepool.cli.stack import Stack
from tidepool.clients.kubernetes.objects import Node as KubernetesNode
from tidepool.cluster.hostlist import expand
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.next_step import other
from tidepool.conversion.record import Conversion, Phase, Work

#: What a side knows of a machine: it could not be asked; it has no node of that name; it has one; one that takes work.
Known = Literal["unknown", "absent", "present", "ready"]
_FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class ConversionView:
    """A conversion under way: how far, what holds it, until when it waits, and what comes then (None: it does not wait)."""

    id: int
    leaves: Role | None
    to: Role
    phase: Phase
    words: str
    by: str
    reason: str
    is_forced: bool
    cancel_by: str
    since: datetime
    phases: Mapping[str, float]
    holds: tuple[str, ...]
    deadline: datetime | None
    at_deadline: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine as a side has it: what is known of it, and that in words."""

    known: Known
    words: str


_NOT_ASKED: Final = NodeView("unknown", "not known")
_NO_NODE: Final = NodeView("absent", "no node")


@dataclass(frozen=True, slots=True)
class MachineView:
    """A machine of a pool. ``role`` is the graph's; ``slurm`` and ``kubernetes`` are how each side has it, in words.

    ``known`` is what each of the two knows of it. ``since`` is when it took the role; None where it has had it since it
    was made.
    """

    node: str
    role: Role
    since: datetime | None
    slurm: str
    kubernetes: str
    work: tuple[Work, ...]
    conversion: ConversionView | None
    known: Mapping[Role, Known]
    last: str = ""
    #: Its last conversion failed, and no other is under way.
    has_failed: bool = False

    @property
    def is_ready(self) -> bool:
        """Kubernetes has it as a node that takes pods."""
        return self.known["kubernetes"] == "ready"


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool: its machines, and by role how many have it, at least and at most may."""

    pool: str
    machines: tuple[MachineView, ...]
    count: Mapping[Role, int]
    least: Mapping[Role, int]
    most: Mapping[Role, int]


@dataclass(frozen=True, slots=True)
class PoolsView:
    """Views of pools, and what is wrong with Slurm or Kubernetes."""

    stack: str
    now: datetime
    pools: tuple[PoolView, ...]
    trouble: tuple[str, ...]


def observe_pools(stack: Stack, pool: str | None = None) -> PoolsView:
    """Observe all pools, or one.

    Raises:
        Failure: the cluster is not up, or has no pool of that name.
    """
    outputs = stack.outputs()
    pools = require_pools(stack, outputs)
    sides = observe_both(stack, parse_outputs(stack.name, outputs or {}).controller, pools)
    journal = read_conversions(stack)
    conversions: tuple[Conversion, ...] = ()
    if journal is not None:
        with closing(journal):
            conversions = tuple(journal.conversions())
    return pools_view(_only(pools, pool), sides, conversions, datetime.now(UTC).astimezone())


def _only(pools: Pools, name: str | None) -> Pools:
    if name is None:
        return pools
    if name not in pools.pools:
        raise Failure(
            f"there is no pool {name}", remedy=f"the pools are {', '.join(pools.pools)}", code=NOT_THERE
        )
    return replace(pools, pools={name: pools.pools[name]})


def pools_view(
    pools: Pools, sides: PoolObservations, conversions: Sequence[Conversion], now: datetime
) -> PoolsView:
    """Work out the view of each pool. ``conversions`` are the newest first."""
    work = work_by_node(sides, now)
    trouble = [f"Slurm cannot be asked: {sides.slurm.failure}"] if sides.slurm.failure else []
    if sides.kubernetes.failure:
        trouble.append(f"Kubernetes cannot be asked, so no machine moves: {sides.kubernetes.failure}")
    return PoolsView(
        pools.stack,
        now,
        tuple(
            PoolView(
                pool.name,
                tuple(_machine(slot.node_name, pools, sides, conversions, work) for slot in pool.slots()),
                {role: pools.count(pool.name, role) for role in ROLES},
                {role: max(pool.least(role), pool.machines - pool.most(other(role))) for role in ROLES},
                {role: min(pool.most(role), pool.machines - pool.least(other(role))) for role in ROLES},
            )
            for pool in pools.pools.values()
        ),
        tuple(trouble),
    )


def conversion_view(conversion: Conversion) -> ConversionView:
    """Return the view of a conversion that is under way."""
    order = conversion.order
    return ConversionView(
        id=conversion.id,
        leaves=conversion.leaves,
        to=order.to,
        phase=conversion.phase,
        words=phase_words(conversion),
        by=order.by,
        reason=order.reason,
        is_forced=order.is_forced,
        cancel_by=conversion.cancel_by,
        since=order.at,
        phases=phases(conversion),
        holds=tuple(holds(conversion)),
        deadline=deadline(conversion),
        at_deadline=order.at_deadline,
    )


def work_by_node(sides: PoolObservations, now: datetime) -> dict[str, tuple[Work, ...]]:
    """Return by node the jobs and pods that are there."""
    found: dict[str, list[Work]] = {}
    for job in with_nodes(sides.slurm.jobs):
        end = f"until {moment(job.end_time, now)} at most" if job.end_time else ""
        for node in expand(job.nodelist):
            found.setdefault(node, []).append(Work("job", str(job.job_id), job.user, "runs", end))
    for pod in sides.kubernetes.pods:
        if pod.node and not pod.has_ended and not pod.is_static:
            fate = "" if pod.owner else "nobody would make it again"
            found.setdefault(pod.node, []).append(Work("pod", pod.key, pod.owner, "runs", fate))
    return {node: tuple(work) for node, work in found.items()}


def slurm_node(node: str, seen: SlurmObservation) -> NodeView:
    """Return how Slurm has it: ``idle``, ``draining: a conversion``, ``no node``."""
    if seen.nodes is None:
        return _NOT_ASKED
    found = seen.nodes.get(node)
    if found is None or found.state.is_slot:
        return _NO_NODE
    words = state_word(found.state) + (f": {found.reason.text}" if found.reason else "")
    return NodeView("present", words)


def kubernetes_node(node: KubernetesNode | None) -> NodeView:
    """Return how Kubernetes has it: ``ready``, ``ready, cordoned``, ``not ready: ...``, ``no node``."""
    if node is None:
        return _NO_NODE
    words = "ready" if node.ready else f"not ready: {node.message}".rstrip(": ")
    if node.unschedulable:
        return NodeView("present", f"{words}, cordoned")
    return NodeView("ready" if node.ready else "present", words)


def _machine(
    name: str,
    pools: Pools,
    sides: PoolObservations,
    conversions: Sequence[Conversion],
    work: Mapping[str, tuple[Work, ...]],
) -> MachineView:
    its = [each for each in conversions if each.order.node == name]
    going = next((each for each in its if each.is_under_way), None)
    role = pools.role(name)
    taken = next((each.ended for each in its if each.phase == "done"), None)
    last = None if going else next((each for each in its if not each.is_under_way), None)
    nodes = {node.name: node for node in sides.kubernetes.nodes}
    slurm = slurm_node(name, sides.slurm)
    kubernetes = _NOT_ASKED if sides.kubernetes.failure else kubernetes_node(nodes.get(name))
    return MachineView(
        node=name,
        role=role,
        since=taken,
        slurm=slurm.words,
        kubernetes=kubernetes.words,
        work=work.get(name, ()),
        conversion=conversion_view(going) if going else None,
        known={"slurm": slurm.known, "kubernetes": kubernetes.known},
        last=f"{last.phase}: {last.text}" if last and last.phase in (_FAILED, "stopped") else "",
        has_failed=last is not None and last.phase == _FAILED,
    )


def both_roles(view: PoolsView) -> Iterator[str]:
    """Machines that both sides have as nodes of theirs, with nothing under way: a fault."""
    for pool in view.pools:
        for machine in pool.machines:
            if {"unknown", "absent"}.isdisjoint(machine.known.values()) and machine.conversion is None:
                yield machine.node


def forgotten(view: PoolsView) -> Iterator[MachineView]:
    """Machines that serve a side which has no such node, with nothing under way, and nothing that failed."""
    for pool in view.pools:
        for machine in pool.machines:
            is_absent = machine.known[machine.role] == "absent"
            if is_absent and machine.conversion is None and not machine.has_failed:
                yield machine


_AT_DEADLINE = {"stop": "then it is given up", "force": "then jobs are requeued and pods killed"}
_ROLE_STYLES = {"slurm": "cyan", "kubernetes": "magenta"}


def pools_lines(view: PoolsView) -> Iterator[Line]:
    """Yield all pools for a person."""
    for trouble in view.trouble:
        yield (Cell(trouble, "bold red"),)
    for node in both_roles(view):
        yield (
            Cell(f"{node} is a node of Slurm's and of Kubernetes', with no conversion under way", "bold red"),
        )
    for pool in view.pools:
        yield from pool_lines(pool, view.now)


def pool_lines(pool: PoolView, now: datetime) -> Iterator[Line]:
    """Yield a pool, with a line for each of its machines, and more for those that are on their way."""
    yield Cell(f"pool {pool.pool}", "bold"), Cell(": " + ", ".join(_counts(pool)))
    width = max(len(machine.node) for machine in pool.machines)
    for machine in pool.machines:
        yield _head(machine, width, now)
        for work in machine.work:
            yield (Cell(f"      {work_words(work)}", "dim"),)
        if machine.conversion is not None:
            yield from conversion_lines(machine.conversion, now, "      ")


def conversion_lines(going: ConversionView, now: datetime, indent: str = "  ") -> Iterator[Line]:
    """Tell how far a conversion is, what holds it, until when, and what comes then."""
    kind = "forced" if going.is_forced else "graceful"
    yield (
        Cell(f"{indent}-> {going.to}", "bold yellow"),
        Cell(f" {going.words}, for {between(going.since, now)} in all ({kind}, {going.by}: {going.reason})"),
    )
    for held in going.holds:
        yield (Cell(f"{indent}   {held}", "yellow"),)
    if going.deadline is not None:
        yield (
            Cell(f"{indent}   until {moment(going.deadline, now)}; {_AT_DEADLINE[going.at_deadline]}", "dim"),
        )


def _counts(pool: PoolView) -> Iterator[str]:
    for role, count in pool.count.items():
        yield f"{count} {'serves' if count == 1 else 'serve'} {role} ({pool.least[role]} to {pool.most[role]})"


def _head(machine: MachineView, width: int, now: datetime) -> Line:
    since = f" since {moment(machine.since, now)}" if machine.since else ""
    cells = [
        Cell(f"  {machine.node:<{width}}  ", "bold"),
        Cell(f"{machine.role}{since}", _ROLE_STYLES[machine.role]),
        Cell(f"  Slurm: {machine.slurm}, Kubernetes: {machine.kubernetes}"),
    ]
    if machine.last:
        cells.append(Cell(f"  last conversion {machine.last}", "yellow"))
    return tuple(cells)

"""The overview of a cluster that `status` shows: its parts side by side, as values and as tables. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from tidepool.cli import show
from tidepool.cli.cluster import Cluster, fleet_of
from tidepool.cli.jobs import with_nodes
from tidepool.cli.problems import (
    BAD_WORDS,
    Observations,
    Problem,
    RemoteMachines,
    own_machines,
    problems,
    state_word,
)
from tidepool.cli.show import clock, number
from tidepool.clients.slurm import Controller, Job, JobState
from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures.local.kernel import Machine, started_at
from tidepool.scaling.decision import NO_NODE, Phase

if TYPE_CHECKING:
    from tidepool.cli.explain.budgets import BudgetView
    from tidepool.cli.explain.record import Health, Record
    from tidepool.cli.pools.view import PoolsView


@dataclass(frozen=True, slots=True)
class Summary:
    """``wish`` and ``there`` count nodes of all fleets; None where nobody has decided yet."""

    state: Literal["runs", "paused", "late", "stopped", "never"]
    words: str
    wish: int | None
    there: int | None
    is_well: bool
    budgets: tuple[BudgetView, ...] = ()


#: Where there is no journal.
NOBODY: Final = Summary(
    "never", "no daemon has run for this stack yet; `tidepool scale` starts it", None, None, is_well=False
)


def summary(record: Record) -> Summary:
    """Sum ``record`` up in a line."""
    from tidepool.cli.explain.budgets import budget_views
    from tidepool.cli.explain.record import health

    well, decision = health(record), record.decision
    wish = sum(map(len, decision.desired.values())) if decision else None
    there = (
        sum(view.phase not in (*NO_NODE, Phase.LAUNCHING) for view in decision.nodes.values())
        if decision
        else None
    )
    return Summary(
        "paused" if well.paused and well.state == "runs" else well.state,
        _words(well, wish, there),
        wish,
        there,
        well.is_well,
        budget_views(decision),
    )


def _words(well: Health, wish: int | None, there: int | None) -> str:
    parts = [well.words, *well.trouble]
    if well.paused:
        parts.append(well.paused)
    if wish is not None and there is not None:
        parts.append(f"{number(wish, 'node')} wished, {there:,} there")
    if well.remedy:
        parts.append(well.remedy)
    return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A fleet: its nodes by their states, how many there may be, how many jobs run there, its offerings, if it names any, and its ``suspended`` machines."""

    name: str
    nodes: Mapping[str, int]
    max_nodes: int
    jobs: int
    offerings: tuple[str, ...] = ()
    suspended: int = 0

    @property
    def present(self) -> int:
        return sum(self.nodes.values())

    @property
    def up(self) -> int:
        """The number of them that are up: they run jobs or could, or are draining."""
        return sum(count for word, count in self.nodes.items() if word not in BAD_WORDS)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """Jobs that are in one state for one reason; ``cpus`` are those that they have or ask for."""

    state: str
    reason: str
    jobs: int
    cpus: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A cluster as `status` shows it. ``slurm_failure`` says why Slurm could not be asked; nodes and jobs are then unknown."""

    stack: str
    cluster: str
    controllers: tuple[Controller, ...]
    version: str
    fleets: tuple[FleetRow, ...]
    queue: tuple[QueueRow, ...]
    machines: tuple[Machine, ...]
    problems: tuple[Problem, ...]
    #: The names of the cluster's own machines, which are no nodes.
    own: frozenset[str]
    slurm_failure: str = ""
    remote: RemoteMachines = field(default_factory=RemoteMachines)

    @property
    def is_reached(self) -> bool:
        return not self.slurm_failure


def overview(cluster: Cluster, seen: Observations) -> Overview:
    """Work out the overview of ``cluster`` from what was observed."""
    return Overview(
        stack=cluster.stack,
        cluster=cluster.name,
        controllers=seen.controllers,
        version=seen.version,
        fleets=tuple(_fleet_rows(cluster, seen)),
        queue=tuple(_queue_rows(seen.jobs)),
        machines=seen.machines,
        problems=tuple(problems(cluster, seen)),
        own=own_machines(cluster),
        slurm_failure=seen.failure,
        remote=seen.remote,
    )


def _fleet_rows(cluster: Cluster, seen: Observations) -> Iterator[FleetRow]:
    states: dict[str, Counter[str]] = {}
    slots: Counter[str] = Counter()
    by_node = {node.name: fleet_of(node.name) for node in seen.nodes}
    for node in seen.nodes:
        fleet = by_node[node.name]
        slots[fleet] += 1
        if not node.state.is_slot:
            states.setdefault(fleet, Counter())[state_word(node.state)] += 1
    running: dict[str, set[int]] = {}
    for job in with_nodes(seen.jobs):
        for node_name in HostSet(job.nodelist):
            running.setdefault(by_node.get(node_name, ""), set()).add(job.job_id)
    for name in sorted({*cluster.fleets, *slots}):
        offerings = cluster.offerings.get(name, ())
        suspended = len(HostSet(cluster.suspended.get(name, "")))
        jobs = len(running.get(name, ()))
        yield FleetRow(name, dict(states.get(name, {})), slots[name], jobs, offerings, suspended)


def _queue_rows(jobs: Iterable[Job]) -> Iterator[QueueRow]:
    counts: Counter[tuple[str, str]] = Counter()
    cpus: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        # A running job's reason is None, in words.
        key = (str(job.state), job.reason if job.state is JobState.PENDING else "")
        counts[key] += job.size
        cpus[key] += job.size * job.cpus
    for (state, reason), count in sorted(counts.items(), key=lambda each: (each[0][0] != "RUNNING", each[0])):
        yield QueueRow(state, reason, count, cpus[state, reason])


def tables(seen: Overview, scaler: Summary, pools: PoolsView | None, all_machines: bool) -> list[Any]:
    """Return the tables of `status`, in order."""
    told = [*seen.problems, *problems_of_pools(pools)]
    found = [_problems(told)] if told else []
    if seen.is_reached:
        found += [_controllers(seen), _fleets(seen), _queue(seen)]
    if pools is not None:
        found.append(_pools(pools))
    budgets = [_budgets(scaler.budgets)] if scaler.budgets else []
    return [*found, _scaler(scaler), *budgets, _machines(seen, all_machines)]


def problems_of_pools(pools: PoolsView | None) -> Iterator[Problem]:
    """Yield the problems of pools that somebody has to look at."""
    if pools is None:
        return
    from tidepool.cli.pools.view import both_roles, forgotten
    from tidepool.conversion.next_step import SAID

    for text in pools.trouble:
        yield Problem("failure", text, "`tidepool up` mends the cluster")
    for node in both_roles(pools):
        told = f"machine {node} has two roles, and no conversion is under way"
        yield Problem("failure", told, f"`tidepool why node {node}`")
    for machine in forgotten(pools):
        told = f"machine {machine.node} serves {SAID[machine.role]}, which has no such node"
        remedy = "the scaler has it join again within a minute; without one, `tidepool up` does"
        yield Problem("failure", told, remedy)
    for machine in (each for pool in pools.pools for each in pool.machines):
        node, going = machine.node, machine.conversion
        if going is not None and going.holds:
            told = f"{node} waits to serve {going.to}: {'; '.join(going.holds)}"
            remedy = f"`tidepool why node {node}`; `tidepool convert {node} --cancel` has it go back"
            yield Problem("note", told, remedy)
        elif machine.has_failed:
            told = f"the last conversion of {node} {machine.last}"
            yield Problem("failure", told, f"`tidepool convert {node} --to {machine.role}` mends it")


def _pools(pools: PoolsView) -> Any:
    rows = []
    for pool in pools.pools:
        moving = sum(machine.conversion is not None for machine in pool.machines)
        ready = sum(machine.is_ready for machine in pool.machines)
        work = Counter(work.kind for machine in pool.machines for work in machine.work)
        roles = len(pool.machines), pool.count["slurm"], pool.count["kubernetes"]
        rows.append((pool.pool, *roles, moving, ready, work["job"], work["pod"]))
    columns = ["machines", "Slurm", "Kubernetes", "on their way", "ready in Kubernetes", "jobs", "pods"]
    return show.table("pools", ["pool", *(f"#{column}" for column in columns)], rows)


def _scaler(scaler: Summary) -> Any:
    return show.table("scaler", ["is"], [((scaler.words, "" if scaler.is_well else "yellow"),)])


def _budgets(budgets: tuple[BudgetView, ...]) -> Any:
    now = datetime.now(UTC).astimezone()
    return show.table(
        "budgets", ["account", "used"], [(each.account, (each.describe(now), each.style)) for each in budgets]
    )


def _controllers(seen: Overview) -> Any:
    rows = [
        (c.host, c.role, ("up", "green") if c.is_up else ("DOWN", "bold red"), seen.version)
        for c in seen.controllers
    ]
    return show.table(
        f"{seen.cluster} (stack {seen.stack})", ["controller", "role", "slurmctld", "version"], rows
    )


def _fleets(seen: Overview) -> Any:
    has_offerings = any(fleet.offerings for fleet in seen.fleets)
    has_suspended = any(fleet.suspended for fleet in seen.fleets)
    states = sorted({s for fleet in seen.fleets for s in fleet.nodes}, key=lambda s: (s in BAD_WORDS, s))
    rows = [
        (
            fleet.name,
            *(
                (n, "red" if s in BAD_WORDS else "") if (n := fleet.nodes.get(s, 0)) else ("-", "dim")
                for s in states
            ),
            fleet.present,
            *([fleet.suspended] if has_suspended else []),
            fleet.max_nodes,
            fleet.jobs,
            *([", ".join(fleet.offerings)] if has_offerings else []),
        )
        for fleet in seen.fleets
    ]
    kept = ["#suspended"] if has_suspended else []
    columns = ["fleet", *(f"#{s}" for s in states), "#nodes", *kept, "#max", "#jobs"]
    return show.table("fleets", [*columns, *(["offering"] if has_offerings else [])], rows)


def _queue(seen: Overview) -> Any:
    rows = [(q.state, q.reason, q.jobs, q.cpus) for q in seen.queue] or [("empty", "", 0, 0)]
    return show.table("queue", ["jobs", "reason", "#number", "#cpus"], rows)


def _machines(seen: Overview, all_of_them: bool) -> Any:
    now = datetime.now(UTC).astimezone()
    shown = [m for m in seen.machines if all_of_them or m.name in seen.own or not _is_well(m)]
    there = seen.remote.machines
    shown_there = [m for m in there if all_of_them or m.key.node in seen.own or m.state != "running"]
    rows: list[tuple[object, ...]] = [
        (
            m.name,
            "local",
            _state(m.state),
            _since(started_at(m.pid) if m.pid is not None else None, now),
            m.address,
            f"{m.cpus:g}",
            m.memory_mib,
            (m.memory_kills, "red" if m.memory_kills else ""),
            ", ".join(f"{s.name} {s.state}" for s in m.services if not s.is_ready),
        )
        for m in shown
    ]
    rows += [
        (m.key.node, m.key.infrastructure, _state(m.state), _since(m.since, now), str(m.address), *([""] * 4))
        for m in shown_there
    ]
    rest = Counter(m.key.infrastructure for m in there)
    rest.subtract(m.key.infrastructure for m in shown_there)
    for name, count in ("local", len(seen.machines) - len(shown)), *sorted(rest.items()):
        if count:
            rows.append((f"and {count} more", name, _state("running"), *([""] * 6)))
    columns = [
        "machine",
        "infrastructure",
        "state",
        "since",
        "address",
        "#cpus",
        "#MiB",
        "#memory kills",
        "not up",
    ]
    return show.table("machines", columns, rows)


def _state(word: str) -> tuple[str, str]:
    return word, "green" if word == "running" else "bold red"


def _since(moment: datetime | None, now: datetime) -> str:
    return clock(moment, now) if moment is not None else ""


def _is_well(machine: Machine) -> bool:
    return (
        machine.state == "running"
        and not machine.memory_kills
        and all(service.is_ready for service in machine.services)
    )


def _problems(told: Iterable[Problem]) -> Any:
    styles = {"failure": "red", "note": "yellow"}
    rows = [((p.what, styles[p.severity]), p.remedy) for p in told]
    return show.table("to look at", ["what", "remedy"], rows)

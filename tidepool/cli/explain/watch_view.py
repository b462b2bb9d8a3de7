"""The view that `watch` shows, worked out of a `Record`. Pure; `watch` lays it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from tidepool.cli.cluster import fleet_of
from tidepool.cli.explain.budgets import BudgetView, budget_views
from tidepool.cli.explain.facts import ActionView, action_view, fleet_backoffs, nodes_of
from tidepool.cli.explain.lines import deadline, holds, phase_words, what_comes
from tidepool.cli.explain.record import Health, Record, health
from tidepool.cli.jobs import ids_text
from tidepool.cli.show import first, hosts, number
from tidepool.clients.slurm import Job, JobState
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.roles import Role
from tidepool.conversion.record import Conversion
from tidepool.scaling.decide.node_status import OURS
from tidepool.scaling.decision import (
    NO_NODE,
    Decision,
    Drain,
    Launch,
    MachineStanding,
    Phase,
    Standing,
    Undrain,
    Waiting,
)


@dataclass(frozen=True, slots=True)
class MovingView:
    """A conversion under way: of which machine, to what, since when, how far, what holds it, until when and what then."""

    node: str
    to: Role
    since: datetime
    words: str
    by: str
    reason: str
    holds: tuple[str, ...]
    deadline: datetime | None
    what_comes: str


@dataclass(frozen=True, slots=True)
class PoolWatch:
    """A pool: how many of its machines have which role (None: on their way, or not known), and how they stand.

    ``trouble`` tells of machines that are set back; empty without.
    """

    name: str
    machines: int
    roles: Mapping[Role | None, int]
    standings: Mapping[MachineStanding, int]
    moving: tuple[MovingView, ...]
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class WaitingPodsView:
    """Pods that wait for one reason, by their names."""

    standing: Standing
    reason: str
    pods: tuple[str, ...]

    @property
    def named(self) -> str:
        """``default/web-0, default/web-1, default/web-2 and 3 more``."""
        return first(self.pods, _SHOWN_IDS)


def pool_watches(record: Record, decision: Decision) -> Iterator[PoolWatch]:
    """A view of each pool of the spec."""
    conversions = record.state.pools.conversions if record.state else None
    going = [each for each in conversions or () if each.is_under_way]
    for pool in record.spec.pools if record.spec else ():
        views = {node: view for node, view in decision.machines.items() if view.pool == pool.name}
        moving = {each.order.node for each in going if each.order.pool == pool.name}
        roles = Counter(None if node in moving else view.role for node, view in views.items())
        back = {node: decision.memory.pools.backoffs.get(node) for node in sorted(views)}
        late = [f"{node}: {each.text}" for node, each in back.items() if each and each.until > record.now]
        yield PoolWatch(
            name=pool.name,
            machines=pool.machines,
            roles=roles,
            standings=Counter(view.standing for view in views.values()),
            moving=tuple(_moving(each, record.now) for each in going if each.order.pool == pool.name),
            trouble="; ".join(late),
        )


def waiting_pods(decision: Decision) -> tuple[WaitingPodsView, ...]:
    """The pods that wait, by what they wait for."""
    groups: dict[tuple[Standing, str], list[str]] = {}
    for each in decision.waiting_pods.values():
        groups.setdefault((each.standing, each.reason), []).append(each.pod)
    return tuple(WaitingPodsView(standing, why, tuple(pods)) for (standing, why), pods in groups.items())


def _moving(conversion: Conversion, now: datetime) -> MovingView:
    order = conversion.order
    return MovingView(
        node=order.node,
        to=order.to,
        since=order.at,
        words=phase_words(conversion),
        by=order.by,
        reason=order.reason,
        holds=tuple(holds(conversion)),
        deadline=deadline(conversion),
        what_comes=what_comes(conversion, now),
    )


#: The first to be looked at first.
STANDINGS: Final[tuple[Standing, ...]] = ("coming", "room", "setback", "limit", "held", "never")
_SHOWN_IDS: Final = 3
#: What runs jobs now, or ends them.
_RUNNING: Final = frozenset({JobState.RUNNING, JobState.COMPLETING, JobState.CONFIGURING})


@dataclass(frozen=True, slots=True)
class QueueView:
    """Tasks of jobs that wait, by standing, and those that run; None: not known."""

    waiting: Mapping[Standing, int]
    running: int | None

    @property
    def waits(self) -> int:
        return sum(self.waiting.values())


@dataclass(frozen=True, slots=True)
class WaitingView:
    """Jobs that wait for one reason; ``jobs`` are their ids, the most pressing first; ``tasks`` counts of arrays each."""

    standing: Standing
    reason: str
    jobs: tuple[int, ...]
    tasks: int

    @property
    def ids(self) -> str:
        """``42, 41, 43 and 3 more``."""
        return first(self.jobs, _SHOWN_IDS)

    @property
    def named(self) -> str:
        """``job 41``, ``jobs 42, 41 (16 tasks)``."""
        tasks = f" ({number(self.tasks, 'task')})" if self.tasks > len(self.jobs) else ""
        return ("job " if len(self.jobs) == 1 else "jobs ") + self.ids + tasks


@dataclass(frozen=True, slots=True)
class FleetView:
    """A fleet: its nodes by phase, how many are wished and may be at most, what they cost an hour (None: no price).

    ``trouble`` is its set-back in words, or that of nodes of it; empty without.
    """

    name: str
    phases: Mapping[Phase, int]
    wish: int
    max_nodes: int
    usd_per_hour: float | None
    trouble: str = ""

    @property
    def there(self) -> int:
        """The number of nodes that are more than slots."""
        return sum(self.phases.values())


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Something that has begun: what, of which nodes, since when, and until when it has to be done (None: no limit)."""

    what: str
    nodes: str
    number: int
    since: datetime
    deadline: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class CostView:
    """The cost of the cluster; ``budget_usd`` and ``cap_usd_per_hour`` are limits of the spec, or None.

    ``unpriced`` are the fleets whose price is not set, so that nothing is counted for them.
    """

    usd_per_hour: float
    month_usd: float
    projected_usd: float
    budget_usd: float | None
    cap_usd_per_hour: float | None
    unpriced: tuple[str, ...]
    is_priced: bool


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A decision of the past, with all that it did."""

    at: datetime
    actions: tuple[ActionView, ...]


@dataclass(frozen=True, slots=True)
class WatchView:
    """A frame of `watch`. What needs a look is empty or None where nobody has looked yet."""

    stack: str
    cluster: str
    now: datetime
    health: Health
    is_afresh: bool
    queue: QueueView | None
    fleets: tuple[FleetView, ...]
    cost: CostView | None
    #: Jobs that can never run, each limit once; and the others that wait.
    never: tuple[WaitingView, ...]
    waiting: tuple[WaitingView, ...]
    under_way: tuple[UnderWay, ...]
    decisions: tuple[DecisionView, ...]
    pools: tuple[PoolWatch, ...] = ()
    waiting_pods: tuple[WaitingPodsView, ...] = ()
    budgets: tuple[BudgetView, ...] = ()


def watching(record: Record) -> WatchView:
    """Work out the view of ``record``."""
    decision = record.decision
    groups = [*waiting_views(record)]
    return WatchView(
        stack=record.stack,
        cluster=record.spec.name if record.spec else record.stack,
        now=record.now,
        health=health(record),
        is_afresh=record.is_afresh,
        queue=_queue(record, decision) if decision else None,
        fleets=tuple(_fleets(record, decision)) if decision else (),
        cost=_cost(record, decision) if decision else None,
        never=tuple(each for each in groups if each.standing == "never"),
        waiting=tuple(each for each in groups if each.standing != "never"),
        under_way=tuple(_under_way(record, decision)) if decision else (),
        decisions=tuple(_decisions(record)),
        pools=tuple(pool_watches(record, decision)) if decision else (),
        waiting_pods=waiting_pods(decision) if decision else (),
        budgets=budget_views(decision),
    )


def waiting_views(record: Record) -> Iterator[WaitingView]:
    """Yield the jobs that wait, by what they wait for; first the group of the most pressing job."""
    if record.decision is None:
        return
    tasks, seen = sizes(record), {job.job_id: job for job in record.state.jobs} if record.state else {}
    groups: dict[tuple[Standing, str], list[int]] = {}
    for each in sorted(record.decision.waiting.values(), key=lambda each: _pressing(each, seen)):
        groups.setdefault((each.standing, each.reason), []).append(each.job_id)
    for (standing, reason), ids in groups.items():
        yield WaitingView(standing, reason, tuple(ids), sum(tasks.get(job_id, 1) for job_id in ids))


def _fleet(record: Record, decision: Decision, name: str, nodes: Iterable[str]) -> FleetView:
    spec = record.fleet(name)
    there = [node for node in nodes if decision.nodes[node].phase is not Phase.ABSENT]
    phases = Counter(decision.nodes[node].phase for node in there)
    costing = [node for node in there if decision.nodes[node].phase not in NO_NODE]
    return FleetView(
        name,
        phases,
        len(decision.desired.get(name, ())),
        spec.max_nodes if spec else 0,
        usd_per_hour(spec, costing, record.memory.locations)
        if spec is not None and is_priced(spec)
        else None,
        _trouble(record, decision, name),
    )


def jobs_text(ids: Collection[int]) -> str:
    """``job 41``, ``jobs 41, 42 and 3 more``."""
    return f"{'job' if len(ids) == 1 else 'jobs'} {ids_text(ids, _SHOWN_IDS)}"


def is_priced(fleet: Fleet) -> bool:
    """Return whether nodes of a fleet cost anything, on any of its infrastructures."""
    return any(entry.price_usd_per_hour for entry in fleet.infrastructures)


def usd_per_hour(fleet: Fleet, nodes: Iterable[str], locations: Mapping[str, str]) -> float:
    """Return what nodes of a fleet cost an hour, in US dollars, each where it is; of one that is nowhere known, the first."""
    prices = {entry.key: entry.price_usd_per_hour for entry in fleet.infrastructures}
    first = fleet.infrastructures[0].key
    return sum(prices.get(locations.get(node, first), prices[first]) for node in nodes)


def sizes(record: Record) -> Mapping[int, int]:
    """Return the number of tasks that each observed job stands for."""
    return {job.job_id: job.size for job in record.state.jobs} if record.state else {}


def _queue(record: Record, decision: Decision) -> QueueView:
    tasks = sizes(record)
    waiting: Counter[Standing] = Counter()
    for each in decision.waiting.values():
        waiting[each.standing] += tasks.get(each.job_id, 1)
    if record.state:
        running: int | None = sum(job.size for job in record.state.jobs if job.state in _RUNNING)
    else:
        running = record.sample.jobs_running if record.sample else None
    return QueueView({name: waiting[name] for name in STANDINGS if waiting[name]}, running)


def _pressing(each: Waiting, seen: Mapping[int, Job]) -> tuple[bool, int, int]:
    """Slurm's own order: the highest priority first, then the oldest. Those that are held back come after."""
    job = seen.get(each.job_id)
    return each.standing in ("held", "never"), -(job.priority if job else 0), each.job_id


def _fleets(record: Record, decision: Decision) -> Iterator[FleetView]:
    nodes: dict[str, list[str]] = {}
    for node in decision.nodes:
        nodes.setdefault(fleet_of(node), []).append(node)
    described = [fleet.name for fleet in record.spec.fleets] if record.spec else []
    for name in [*described, *sorted({*nodes, *decision.desired} - {*described})]:
        yield _fleet(record, decision, name, nodes.get(name, ()))


def _trouble(record: Record, decision: Decision, name: str) -> str:
    memory, now = decision.memory, record.now
    fleet = record.fleet(name)
    closed = [
        f"{place} backs off ({setback.cause}): {setback.text}".lstrip()
        for place, setback in (fleet_backoffs(fleet, memory) if fleet else ())
        if setback.until > now
    ]
    if closed:
        return "; ".join(closed)
    ill = [node for node, back in memory.node_backoffs.items() if fleet_of(node) == name and back.until > now]
    return f"quarantined: {hosts(ill)}" if ill else ""


def _cost(record: Record, decision: Decision) -> CostView:
    fleets = record.spec.fleets if record.spec else ()
    limits = record.spec.limits if record.spec else None
    return CostView(
        decision.cost.usd_per_hour,
        decision.cost.month_usd,
        decision.cost.month_projected_usd,
        limits.budget_usd_per_month if limits else None,
        limits.price_usd_per_hour if limits else None,
        tuple(fleet.name for fleet in fleets if not is_priced(fleet)),
        any(map(is_priced, fleets)),
    )


def _decisions(record: Record) -> Iterator[DecisionView]:
    for (_, at), intents in groupby(record.intents, key=lambda intent: (intent.decision, intent.at)):
        # As they were decided: the newest decision first, and in it the first action.
        done = (action_view(each.action, each.result, each.text) for each in reversed([*intents]))
        yield DecisionView(at, tuple(done))


def _under_way(record: Record, decision: Decision) -> Iterator[UnderWay]:
    memory = decision.memory
    together: dict[tuple[str, datetime, datetime | None, str], list[str]] = {}
    for node, launch in memory.launches.items():
        why = f"for {jobs_text(launch.jobs)}" if launch.jobs else ""
        together.setdefault(("launch", launch.since, launch.deadline, why), []).append(node)
    for node, drain in memory.drains.items():
        view = decision.nodes.get(node)
        if view is not None and view.phase in (Phase.DRAINING, Phase.DRAINED):
            why = drain.reason.removeprefix(OURS).strip()
            together.setdefault((view.phase.value, drain.since, None, why), []).append(node)
    # A launch and a drain are remembered until they are over; the others are known by their open intents.
    for intent in record.open_intents:
        if not isinstance(intent.action, Launch | Drain | Undrain):
            key = (action_view(intent.action).what, intent.at, None, intent.action.reason)
            together.setdefault(key, []).extend(nodes_of(intent.action))
    for (what, since, until, why), nodes in sorted(together.items(), key=lambda each: each[0][1]):
        yield UnderWay(what, hosts(nodes), len(nodes), since, until, why)

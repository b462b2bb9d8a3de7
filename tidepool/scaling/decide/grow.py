"""Growing: all that waits, onto what is there, what can be undrained, what is coming, and then onto new nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.capacity import closing_backoff, quarantined, unreachable, vacancies
from tidepool.scaling.decide.demand.fit import Ask
from tidepool.scaling.decide.demand.layout import Layout, Layouts, Queues, Refusal
from tidepool.scaling.decide.demand.pending import Pending, Wanted, pending
from tidepool.scaling.decide.packing.bins import DRAINED, UP, Bins, there
from tidepool.scaling.decide.packing.launch_limits import (
    Allowance,
    Closed,
    Group,
    LaunchLimits,
    Purpose,
    Spare,
)
from tidepool.scaling.decide.packing.pack import FOLLOWS, Request, Served, pack
from tidepool.scaling.decide.packing.placement import Packer
from tidepool.scaling.decide.packing.time_packing import Timed, busy_until, pack_by_time, served
from tidepool.scaling.decide.suspended import NONE_SUSPENDED, Suspended
from tidepool.scaling.decision import Launch, Phase, Standing, Undrain, Waiting
from tidepool.scaling.memory import Memory

#: For so long Slurm may leave a job waiting for which there seems to be room; then it is given nodes of its own.
OWN_NODES_AFTER: Final = timedelta(seconds=10)
#: After so long, and twice the time that a node may take to come, none is kept for it any more: whatever it waits
#: for, it is not nodes. Later it is tried again.
GIVEN_UP_AFTER: Final = timedelta(minutes=5)
TRIED_AGAIN_AFTER: Final = timedelta(hours=1)

_FEW: Final = 8
_DRAINED: Final = frozenset({Phase.DRAINED, Phase.DRAINING})


@dataclass(frozen=True, slots=True)
class Growth:
    """Nodes for the jobs that wait."""

    #: One for each fleet, and for each pool whose machines should come to Slurm; names are in order.
    launches: tuple[Launch, ...]
    undrains: tuple[Undrain, ...]
    #: Every job that is pending, by its id; of an array, the record's.
    waiting: Mapping[int, Waiting]
    #: Nodes that are there or coming (not those of ``launches``) and that jobs that wait will run on: not to be
    #: drained. Of several that would do it is as few as possible.
    needed: frozenset[str]
    #: For `Memory.has_room_since`.
    has_room_since: Mapping[int, datetime]
    #: By node of ``launches``, the first few of the jobs that it is for.
    jobs_of: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def grow(
    state: ClusterState,
    memory: Memory,
    phases: Mapping[str, Phase],
    allowance: Allowance,
    *,
    horizon_s: int | None = None,
    spare: Mapping[str, Spare] | None = None,
    spent: Mapping[str, str] | None = None,
    suspended: Suspended = NONE_SUSPENDED,
) -> Growth:
    """Nodes for all jobs that wait, in one step, by priority; a job of several nodes gets all of them or none.

    Args:
        state: what was observed.
        memory: of it, backoffs of fleets and of nodes, what is being made, and since when there has been room for
            jobs.
        phases: of every node that is more than a slot, in the words of the reconcile table; others are absent.
        allowance: what limits and budget allow to launch.
        horizon_s: None gives every job nodes at once (`queue`). A number of seconds lets jobs follow one another on
            a node as long as their time limits end within it (`backlog`).
        spare: by converged pool, the machines that could come to Slurm.
        spent: by account that nothing is made for, why not.
        suspended: machines that go on before others are made.
    """
    has_budget = state.spec.limits.budget_usd_per_month is not None
    by_time = has_budget or horizon_s is not None
    queue = pending(state, allowance.capped_accounts, by_time=by_time, spent=spent or {})
    if not queue.wanted:
        return Growth((), (), queue.waiting, frozenset(), {})
    demand = _Demand(state, memory, queue)
    offers = demand.queues.offers
    nodes = there(state, memory, phases, offers)
    free = {
        fleet.name: tuple(suspended.first(vacancies(fleet, phases, memory, state.at)))
        for fleet in state.spec.fleets
    }
    silent = Counter(
        fleet_and_number(name)[0] for name in unreachable(state) if phases.get(name) is Phase.UNKNOWN
    )
    closed = {
        fleet.name: Closed(
            fleet.max_nodes,
            quarantined(fleet, phases, memory, state.at),
            silent[fleet.name],
            closing_backoff(fleet, memory, state.at),
        )
        for fleet in state.spec.fleets
    }

    for name, each in (spare or {}).items():
        free[name] = each.names
        closed[name] = Closed(state.spec.pool(name).machines, spare=each)

    def start() -> Packer:
        return Packer(Bins(offers, nodes, free), LaunchLimits(allowance, closed, state.at))

    if horizon_s is None:
        outcomes = pack(demand.groups, demand.requests, start, first=demand.awaited(memory))
    else:
        timed = demand.timed()
        found = pack_by_time(demand.groups, timed, horizon_s, _later(state, phases, horizon_s), offers)
        awaited = demand.awaited(memory)
        first = [
            number
            for number, members in enumerate(found.members)
            if any(place in awaited for place, _ in members)
        ]
        of_sequences = pack(demand.groups, found.requests, start, first=frozenset(first))
        outcomes = served(timed, found, of_sequences)
    return _growth(state, memory, demand, outcomes, phases)


def _later(
    state: ClusterState, phases: Mapping[str, Phase], horizon_s: int
) -> Mapping[str, Mapping[str, float]]:
    """By fleet, the nodes that are busy and will be free: for how many seconds of the horizon."""
    found: dict[str, dict[str, float]] = {name: {} for name in _kinds(state)}
    for name, lasting_s in busy_until(state.jobs, state.at, horizon_s).items():
        if phases.get(name) is Phase.BUSY and (fleet := name.rpartition("-")[0]) in found:
            found[fleet][name] = lasting_s
    return found


class _Demand:
    """The queue, grouped by what is asked for; what no layout is found for is waiting for that."""

    def __init__(self, state: ClusterState, memory: Memory, queue: Pending) -> None:
        self.queues = Queues.of(state)
        self.waiting = queue.waiting
        self.groups: list[Group] = []
        self.requests: list[Request] = []
        #: What each request was made of.
        self.wanted: list[Wanted] = []
        self.given_up: set[int] = set()
        self._layouts = Layouts(self.queues)
        self._has_budget = state.spec.limits.budget_usd_per_month is not None
        self._numbers: dict[Group, int] = {}
        known: dict[tuple[int, bool], int | Refusal] = {}
        self._since = since = memory.has_room_since
        self._at = state.at
        # What a node of its own takes to come is no sign of anything.
        given_up_after = GIVEN_UP_AFTER + 2 * timedelta(seconds=state.spec.scaling.boot_timeout_s)
        for wanted in queue.wanted:
            fresh = False
            if wanted.job_id in since and wanted.same.rules.blames_nodes:
                long = state.at - since[wanted.job_id]
                fresh = OWN_NODES_AFTER <= long < TRIED_AGAIN_AFTER
                if fresh and long >= given_up_after:
                    self._give_up(wanted, since[wanted.job_id])
                    continue
            # `queue` keeps them, so that no two have the same number.
            key = (id(wanted.same), fresh)
            group = known.get(key)
            if group is None:
                group = known[key] = self._group(wanted.same.asks, fresh=fresh)
            if isinstance(group, int):
                self.requests.append((group, wanted.copies))
                self.wanted.append(wanted)
            else:
                for job in wanted.jobs or (wanted.job_id,):
                    self.waiting[job] = Waiting(job, group.standing, group.reason)

    def _group(self, asks: tuple[Ask, ...], *, fresh: bool) -> int | Refusal:
        components: list[tuple[Layout, ...]] = []
        for ask in asks:
            found = self._layouts.of(ask)
            if isinstance(found, Refusal):
                return found
            components.append(found)
        # Only of a budget's does it matter how long they run.
        time_limit_s = asks[0].time_limit_s if self._has_budget else None
        group = Group(
            tuple(components), Purpose(time_limit_s, asks[0].account), self._size(components), fresh
        )
        number = self._numbers.setdefault(group, len(self.groups))
        if number == len(self.groups):
            self.groups.append(group)
        return number

    def _size(self, components: Iterable[tuple[Layout, ...]]) -> tuple[float, int]:
        """The largest share of a node that any component takes, and how many nodes all of them.

        Those that need certain nodes are larger than any, for others can do without those.
        """
        share, nodes = 0.0, 0
        for found in components:
            if found[0].in_a_row or found[0].parts[0].names:
                share = max(share, 2.0)
            for part in found[0].parts:
                fleet, need = part.needs[0]
                offer = self.queues.offers[fleet]
                share = max(share, need.cpus / offer.cpus, need.memory_mib / offer.memory_mib)
                for places, count in need.gres:
                    share = max(share, count / sum(offer.gres[place] for place in places))
                nodes += part.nodes
        return share, nodes

    def timed(self) -> list[Timed]:
        """The requests, with the jobs' time limits."""
        return [
            Timed(request, wanted.same.asks[0].time_limit_s)
            for request, wanted in zip(self.requests, self.wanted, strict=True)
        ]

    def awaited(self, memory: Memory) -> frozenset[int]:
        """The places of those requests for which nodes are being made."""
        jobs = {job for launch in memory.launches.values() for job in launch.jobs}
        if not jobs:
            return frozenset()
        return frozenset(
            place
            for place, wanted in enumerate(self.wanted)
            if wanted.job_id in jobs or not jobs.isdisjoint(wanted.jobs)
        )

    def fits_since(self, wanted: Wanted) -> datetime | None:
        """Since when there has been room for it, where that goes on to count."""
        since = self._since.get(wanted.job_id)
        return since if since is not None and self._at - since < TRIED_AGAIN_AFTER else None

    def _give_up(self, wanted: Wanted, since: datetime) -> None:
        self.given_up.add(wanted.job_id)
        for job in wanted.jobs or (wanted.job_id,):
            self.waiting[job] = Waiting(
                job,
                "held",
                f"there has been room for it since {since:%H:%M:%S} UTC, and Slurm does not start it; "
                "slurmctld's log may say why",
            )


def _growth(
    state: ClusterState,
    memory: Memory,
    demand: _Demand,
    outcomes: Sequence[Served],
    phases: Mapping[str, Phase],
) -> Growth:
    waiting = demand.waiting
    has_room = {job: since for job, since in memory.has_room_since.items() if job in demand.given_up}
    # By node, in the order in which they are wanted: the first few of the jobs that it is for.
    used: dict[str, list[int]] = {}
    pools = {pool.name for pool in state.spec.pools}
    for wanted, outcome in zip(demand.wanted, outcomes, strict=True):
        standing, reason = _standing(wanted, outcome, pools)
        jobs = wanted.jobs or (wanted.job_id,)
        for job in jobs:
            waiting[job] = Waiting(job, standing, reason, outcome.nodes)
        if not outcome.copies:
            continue
        for name in outcome.nodes:
            those = used.setdefault(name, [])
            if len(those) < _FEW:
                those += jobs
        since = demand.fits_since(wanted)
        if (
            wanted.same.rules.blames_nodes
            and outcome.copies == wanted.copies
            and (since or outcome.rank == UP)
        ):
            has_room[wanted.job_id] = since or state.at
    new = [name for name in used if phases.get(name, Phase.ABSENT) is Phase.ABSENT]
    drained = [name for name in used if phases.get(name) in _DRAINED]
    return Growth(
        launches=tuple(
            Launch(fleet, names, _for_jobs(jobs), jobs[:_FEW])
            for fleet, names, jobs in _by_fleet(state, new, used)
        ),
        undrains=tuple(
            Undrain(fleet, names, _for_jobs(jobs)) for fleet, names, jobs in _by_fleet(state, drained, used)
        ),
        waiting=waiting,
        needed=frozenset(used).difference(new),
        has_room_since=has_room,
        jobs_of={name: tuple(used[name][:_FEW]) for name in new},
    )


def _standing(wanted: Wanted, outcome: Served, pools: Collection[str]) -> tuple[Standing, str]:
    refusal = outcome.refusal
    if not outcome.copies and refusal is not None:
        return refusal.standing, refusal.reason or "no more nodes may be launched"
    standing: Standing = "coming"
    if outcome.rank == FOLLOWS:
        reason = "it follows other jobs on nodes that are there or are being made"
    elif outcome.rank == UP:
        standing, reason = "room", "there is room on nodes that are up, and Slurm starts it"
    elif outcome.rank == DRAINED:
        reason = "its nodes are put back into service"
    elif pools and (of_pools := [name for name in outcome.nodes if name.rpartition("-")[0] in pools]):
        made = "" if len(of_pools) == len(outcome.nodes) else ", others are being made"
        reason = f"machines of pools come to Slurm for it{made}"
    else:
        reason = "its nodes are being made"
    if refusal is not None:
        return standing, f"{reason}, for {outcome.copies} of {wanted.copies} tasks; {refusal.reason}"
    return standing, reason


def _by_fleet(
    state: ClusterState, names: Collection[str], used: Mapping[str, list[int]]
) -> Iterator[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """Return for each fleet, in the spec's order: its nodes by number, and the jobs that they are for by their place."""
    of_fleet: dict[str, list[str]] = {}
    for name in names:
        of_fleet.setdefault(name.rpartition("-")[0], []).append(name)
    for fleet in _kinds(state):
        if those := of_fleet.get(fleet):
            jobs = tuple(dict.fromkeys(job for name in those for job in used[name]))
            yield fleet, tuple(sorted(those, key=lambda name: int(name.rpartition("-")[2]))), jobs


def _kinds(state: ClusterState) -> list[str]:
    """The fleets, and the pools, which are fleets to Slurm; in the spec's order."""
    spec = state.spec
    return [*(fleet.name for fleet in spec.fleets), *(pool.name for pool in spec.pools)]


def _for_jobs(jobs: tuple[int, ...]) -> str:
    if len(jobs) == 1:
        return f"job {jobs[0]} needs it"
    return f"jobs {', '.join(map(str, jobs[:3]))}{' and more' if len(jobs) > 3 else ''} need it"

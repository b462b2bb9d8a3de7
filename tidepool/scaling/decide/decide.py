"""Deciding: from what is seen and what is remembered to actions, each with its reason. Pure, and total.

The order is: what each node comes to (ledger); the nodes that are there anyhow (floors); nodes for jobs (growth), as
far as limits allow; spare nodes; what nobody needs (shrinking). In mode `power_save` Slurm itself says what comes and
goes. Machines of converged pools are none of the ledger's: they take part in growth, and `pools` says which of them move.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from tidepool.clients.slurm import Job, JobState
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide import floors
from tidepool.scaling.decide.budget import books
from tidepool.scaling.decide.clock import set_right
from tidepool.scaling.decide.draft import Draft
from tidepool.scaling.decide.excess import surplus
from tidepool.scaling.decide.floors import Standing
from tidepool.scaling.decide.grow import Growth, grow
from tidepool.scaling.decide.limits import Limits, limits
from tidepool.scaling.decide.policies import Wants, wants
from tidepool.scaling.decide.pools.converge import Convergence, Wanted
from tidepool.scaling.decide.pools.machine_status import apart
from tidepool.scaling.decide.power_save import asked_up, follow
from tidepool.scaling.decide.reconcile import Ledger, hosts_by_fleet, ledger
from tidepool.scaling.decide.reconcile_words import Order, Todo
from tidepool.scaling.decide.shrink import shrink
from tidepool.scaling.decide.upkeep import act_on_ledger, remember_nodes
from tidepool.scaling.decide.views import views
from tidepool.scaling.decision import Cost, Decision, Launch, Waiting
from tidepool.scaling.memory import Memory

#: A node that is being taken away, or that failed, is made when it is gone, or left alone no more.
_NOT_FREE: Final = frozenset({Order.UNDER_WAY, Order.UP, Order.FAILED})
_NO_POLICY = "no policy makes nodes for jobs: scaling.policies has neither queue nor backlog"
_SLURM_ASKS = "Slurm's power saving asks for nodes by itself"


def decide(state: ClusterState, memory: Memory) -> Decision:
    """What should be done now. The same input gives the same, in whatever order it is listed.

    On the world that it was just made of, with its wish and its memory, there is nothing more to do.
    """
    memory = set_right(memory, state)
    whole, state = state, apart(state)
    pools = Convergence(whole, memory)
    state, book = _put_right(state, memory)
    cost = books(state, memory, book)
    asked = wants(state.spec, state.at)
    draft = Draft(state, memory)
    asked_for = asked_up(state)
    remember_nodes(draft, state, memory, book, asked_for)
    too_many = surplus(state, draft.idle_since, book, cost)
    act_on_ledger(draft, state, book, too_many, asked_for)
    known = replace(memory, fleet_backoffs=draft.fleet_backoffs, node_backoffs=draft.node_backoffs)
    standing = Standing(state, known, book, too_many, draft)
    left = limits(state.spec, state.at, known, book, cost, asked.caps)
    draft.rooms = left.rooms
    draft.locate_made()

    idle: Mapping[str, str] = {}
    if state.spec.scaling.mode == "power_save":
        growth = _grown(standing, whole, known, left, pools)
        waiting = _as_slurm_asks(growth, pools)
        follow(draft, state, known, book, left)
    else:
        left = floors.serve(standing, asked, left, (), spare=False)
        known = replace(known, launches=draft.launches)
        growth = _grown(standing, whole, known, _for_jobs(left, asked), pools, asked.horizon_s)
        draft.step += 1
        waiting = growth.waiting
        left = _launch_for_jobs(standing, growth, left, pools)
        needed = growth.needed.union(*(launch.nodes for launch in growth.launches))
        draft.step += 1
        floors.serve(standing, asked, left, needed, spare=True)
        idle = shrink(standing, asked, needed)
    draft.has_room_since = growth.has_room_since
    settled = pools.settle(tuple(_of_pools(growth.launches, pools)), growth.needed)
    for convert in settled.converts:
        draft.convert(convert)

    return Decision(
        at=state.at,
        actions=draft.actions(),
        waiting=waiting,
        desired=draft.desired_hosts(),
        nodes=FrozenDict(views(standing, idle)),
        memory=replace(draft.memory(), spent=cost.spent, pools=settled.memory),
        cost=Cost(cost.usd_per_hour, cost.spent.usd, cost.projected_usd),
        waiting_pods=settled.waiting_pods,
        machines=settled.machines,
    )


def _grown(
    standing: Standing,
    whole: ClusterState,
    memory: Memory,
    left: Limits,
    pools: Convergence,
    horizon_s: int | None = None,
) -> Growth:
    """Growth sees the machines of pools beside the fleets' nodes."""
    # As fleets' nodes are wished since the look.
    seen = replace(standing.state, nodes=whole.nodes)
    phases = {**standing.phases(), **pools.phases()}
    return grow(seen, memory, phases, left, horizon_s=horizon_s, spare=pools.spare())


def _of_pools(launches: Iterable[Launch], pools: Convergence) -> Iterable[Wanted]:
    return (
        Wanted(launch.fleet, launch.nodes, launch.reason, launch.jobs)
        for launch in launches
        if launch.fleet in pools.names
    )


def _put_right(state: ClusterState, memory: Memory) -> tuple[ClusterState, Ledger]:
    """With nodes that are at work and recorded among those that are wished, whoever made them.

    And with those of which something is there, where Slurm's power saving asks for them. In the other mode without those
    that could not be made and of which nothing is there: their names are free at once.
    """
    book = ledger(state, memory)
    asked_for = asked_up(state)
    more = hosts_by_fleet(
        entry.name
        for entry in book.entries.values()
        if entry.todo is Todo.ADOPT
        or (entry.name in asked_for and not entry.is_desired and entry.order not in _NOT_FREE)
    )
    saves_power = state.spec.scaling.mode == "power_save"
    less = hosts_by_fleet(
        entry.name for entry in book.entries.values() if entry.todo is Todo.DROP and not saves_power
    )
    if not more and not less:
        return state, book
    none = HostSet()
    desired = {
        fleet: (state.desired.get(fleet, none) | more.get(fleet, none)) - less.get(fleet, none)
        for fleet in (*state.desired, *more)
    }
    state = replace(state, desired=FrozenDict(desired))
    return state, ledger(state, memory)


def _for_jobs(left: Limits, asked: Wants) -> Limits:
    return left if asked.serves_jobs else replace(left, closed=_NO_POLICY)


def _launch_for_jobs(standing: Standing, growth: Growth, left: Limits, pools: Convergence) -> Limits:
    """Take over what growth asks for of fleets; gives what the limits leave."""
    draft, spec = standing.draft, standing.state.spec
    launches = [launch for launch in growth.launches if launch.fleet not in pools.names]
    names = {name for launch in launches for name in launch.nodes}
    lasting_s = _lasting_s(standing.state.jobs, growth.waiting, names)
    launched: Counter[str] = Counter()
    usd = 0.0
    for launch in launches:
        draft.launch(
            launch.fleet,
            launch.nodes,
            launch.reason,
            jobs=launch.jobs,
            lasting_s=lasting_s,
            jobs_of=growth.jobs_of,
        )
        launched[launch.fleet] += len(launch.nodes)
        usd += left.usd_of(spec.fleet(launch.fleet), [lasting_s.get(name, 0) for name in launch.nodes])
    for undrain in growth.undrains:
        for name in undrain.nodes:
            if name not in draft.now_undrained:
                draft.undrain(undrain.fleet, name, undrain.reason)
    return left.with_launched(launched, usd)


def _lasting_s(
    jobs: Collection[Job], waiting: Mapping[int, Waiting], names: Collection[str]
) -> dict[str, int | None]:
    """By node that is launched, how long the longest job that is to have it may run."""
    if not names:
        return {}
    # Of a long queue most have no nodes.
    served = {id: told.nodes for id, told in waiting.items() if told.nodes}
    limits_s: defaultdict[str, list[int | None]] = defaultdict(list)
    for job in jobs:
        if job.job_id in served and job.state is JobState.PENDING:
            for name in served[job.job_id]:
                if name in names:
                    limits_s[name].append(job.time_limit_s)
    return {
        name: None if None in found else max(limit for limit in found if limit is not None)
        for name, found in limits_s.items()
    }


def _as_slurm_asks(growth: Growth, pools: Convergence) -> Mapping[int, Waiting]:
    launches = (launch for launch in growth.launches if launch.fleet not in pools.names)
    made = {name for launch in launches for name in launch.nodes}
    return FrozenDict(
        {
            id: told._replace(reason=_SLURM_ASKS, nodes=()) if made.intersection(told.nodes) else told
            for id, told in growth.waiting.items()
        }
    )

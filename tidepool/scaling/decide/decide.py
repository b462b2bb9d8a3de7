"""Deciding: from what is seen and what is remembered to actions, each with its reason. Pure, and total.

The order is: what each node comes to (reconcile); the nodes that are there anyhow (floors); nodes for jobs (growth), as
far as limits allow; spare nodes; what nobody needs (shrinking). In mode `power_save` Slurm itself says what comes and
goes. Machines of converged pools are none of the reconcile table's: they take part in growth, and `pools` says which of them move.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache

from tidepool.clients.slurm import Job, JobState
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.account_budgets import account_budgets, newest_usage, spent_accounts, warnings
from tidepool.scaling.decide.budget import books
from tidepool.scaling.decide.excess import find_excess
from tidepool.scaling.decide.floors import Outlook, prepare, serve, shrink
from tidepool.scaling.decide.grow import Growth, grow
from tidepool.scaling.decide.limits import Limits, limits
from tidepool.scaling.decide.node_status import NodeAction, without_mark
from tidepool.scaling.decide.plan import NewNodes, Plan, Step
from tidepool.scaling.decide.policies import wants
from tidepool.scaling.decide.pools.converge import Convergence
from tidepool.scaling.decide.pools.machine_status import apart
from tidepool.scaling.decide.power_save import follow, joins, powered_up
from tidepool.scaling.decide.reconcile import Entry, Reconciled, hosts_by_fleet, reconcile
from tidepool.scaling.decide.remember import set_right
from tidepool.scaling.decide.suspended import find_suspended
from tidepool.scaling.decide.upkeep import orphans, remembered, upkeep
from tidepool.scaling.decision import Cost, Decision, NodeView, Phase, Undrain, Waiting
from tidepool.scaling.memory import Launch as Launching
from tidepool.scaling.memory import Memory

_NO_POLICY = "no policy makes nodes for jobs: scaling.policies has neither queue nor backlog"
_SLURM_ASKS = "Slurm's power saving asks for nodes by itself"


def decide(state: ClusterState, memory: Memory) -> Decision:
    """Decide what should be done now. The same input gives the same, in whatever order it is listed.

    On the state that it was just made of, with what it desires and its memory, there is nothing more to do.
    """
    memory = set_right(memory, state)
    whole, state = state, apart(state)
    pools = Convergence(whole, memory)
    wanted = wants(state.spec, state.at)
    suspended = find_suspended(state, wanted.suspended)
    state, reconciled = _put_right(suspended.apart(state), memory)
    reconciled = suspended.explained(reconciled)
    cost = books(state, memory, reconciled)
    usage = newest_usage(state, memory)
    budgets = account_budgets(state, usage, cost.spent, memory.budgets)
    spent = spent_accounts(state.spec, usage, budgets)
    asked_for = powered_up(state)
    plan = Plan.begin(state, memory, remembered(state, memory, reconciled, asked_for))
    excess = find_excess(state, plan.memory.idle_since, reconciled, cost)
    plan = plan.with_steps(upkeep(state, reconciled, excess, plan, asked_for))
    plan = plan.with_others(orphans(state, reconciled, plan.memory))
    known = replace(
        memory, fleet_backoffs=plan.memory.fleet_backoffs, node_backoffs=plan.memory.node_backoffs
    )
    left = limits(state.spec, state.at, known, reconciled, cost, wanted.caps)
    outlook = Outlook(state, known, reconciled, excess, plan.with_capacities(left.capacities), suspended)

    idle: Mapping[str, str] = {}
    if state.spec.scaling.mode == "power_save":
        growth = _grown(outlook, whole, known, left, pools, spent)
        waiting = _as_slurm_asks(growth, pools)
        outlook = replace(outlook, plan=follow(outlook.plan, state, known, reconciled, left))
    else:
        outlook, left = serve(outlook, wanted, left, (), spare=False)
        known = replace(known, launches=outlook.plan.memory.launches)
        for_jobs = left if wanted.serves_jobs else replace(left, closed=_NO_POLICY)
        growth = _grown(outlook, whole, known, for_jobs, pools, spent, wanted.horizon_s)
        waiting = growth.waiting
        outlook, left = _with_growth(outlook, growth, left, pools)
        needed = growth.needed.union(*(launch.nodes for launch in growth.launches))
        outlook, left = serve(outlook, wanted, left, needed, spare=True)
        outlook, _ = prepare(outlook, wanted, left, needed)
        steps, idle = shrink(outlook, wanted, needed)
        outlook = replace(outlook, plan=outlook.plan.with_steps(steps))
    to_slurm = [launch for launch in growth.launches if launch.fleet in pools.names]
    settled = pools.settle(to_slurm, growth.needed)
    plan = outlook.plan.with_others(settled.converts)
    after = replace(
        plan.memory,
        has_room_since=growth.has_room_since,
        spent=cost.spent,
        usage=usage,
        budgets=warnings(state.spec, budgets, memory.budgets)[0],
        pools=settled.memory,
    )

    return Decision(
        at=state.at,
        actions=plan.actions(),
        waiting=waiting,
        desired=plan.desired_hosts(state),
        nodes=FrozenDict(views(outlook, idle)),
        memory=replace(plan, memory=after).remembered(),
        cost=Cost(cost.usd_per_hour, cost.spent.usd, cost.projected_usd),
        waiting_pods=settled.waiting_pods,
        machines=settled.machines,
        budgets=budgets,
    )


def _grown(
    outlook: Outlook,
    whole: ClusterState,
    memory: Memory,
    left: Limits,
    pools: Convergence,
    spent: Mapping[str, str],
    horizon_s: int | None = None,
) -> Growth:
    """Growth sees the machines of pools beside the fleets' nodes."""
    # As fleets' nodes are desired since the look.
    seen = replace(outlook.state, nodes=whole.nodes)
    phases = {**outlook.phases(), **pools.phases()}
    return grow(
        seen,
        memory,
        phases,
        left,
        horizon_s=horizon_s,
        spare=pools.to_slurm,
        spent=spent,
        suspended=outlook.suspended,
    )


def _put_right(state: ClusterState, memory: Memory) -> tuple[ClusterState, Reconciled]:
    """With nodes that are at work and recorded among those that are desired, whoever made them.

    And with those of which something is there, where Slurm's power saving asks for them (`joins`). In the other mode without
    those that could not be made and of which nothing is there: their names are free at once.
    """
    reconciled = reconcile(state, memory)
    asked_for = powered_up(state)
    more = hosts_by_fleet(
        entry.name
        for entry in reconciled.entries.values()
        if entry.action is NodeAction.ADOPT
        or (entry.name in asked_for and joins(entry, state.recorded or {}))
    )
    saves_power = state.spec.scaling.mode == "power_save"
    less = hosts_by_fleet(
        entry.name
        for entry in reconciled.entries.values()
        if entry.action is NodeAction.DROP and not saves_power
    )
    if not more and not less:
        return state, reconciled
    none = HostSet()
    desired = {
        fleet: (state.desired.get(fleet, none) | more.get(fleet, none)) - less.get(fleet, none)
        for fleet in (*state.desired, *more)
    }
    state = replace(state, desired=FrozenDict(desired))
    return state, reconcile(state, memory)


def _with_growth(
    outlook: Outlook, growth: Growth, left: Limits, pools: Convergence
) -> tuple[Outlook, Limits]:
    """Return the outlook with what growth asks for of fleets, and what the limits leave."""
    spec = outlook.state.spec
    launches = [launch for launch in growth.launches if launch.fleet not in pools.names]
    names = {name for launch in launches for name in launch.nodes}
    lasting_s = _lasting_s(outlook.state.jobs, growth.waiting, names)
    launched: Counter[str] = Counter()
    usd = 0.0
    for launch in launches:
        launched[launch.fleet] += len(launch.nodes)
        usd += left.usd_of(spec.fleet(launch.fleet), [lasting_s.get(name, 0) for name in launch.nodes])
    new = [
        NewNodes(each.fleet, each.nodes, each.reason, lasting_s, each.jobs, growth.jobs_of)
        for each in launches
    ]
    undrains = [
        Step(Undrain, undrain.fleet, name, undrain.reason)
        for undrain in growth.undrains
        for name in undrain.nodes
        if name not in outlook.plan.undrained
    ]
    plan = outlook.plan.next_part().with_launches(new).with_steps(undrains).next_part()
    return replace(outlook, plan=plan), left.with_launched(launched, usd)


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


_JOBS_NAMED = 3


def views(outlook: Outlook, idle: Mapping[str, str]) -> dict[str, NodeView]:
    """By node that is more than a slot: its phase, and why it is kept, drained or taken away."""
    plan = outlook.plan
    found = {
        name: NodeView(entry.phase, _reason(outlook, entry, idle))
        for name, entry in outlook.reconciled.entries.items()
    }
    for name in plan.launched:
        if name not in found:
            found[name] = NodeView(Phase.LAUNCHING, _launching(plan, name))
    for name, why in outlook.suspended.kept.items():
        found.setdefault(name, NodeView(Phase.SUSPENDED, why))
    return found


def _reason(outlook: Outlook, entry: Entry, idle: Mapping[str, str]) -> str:
    plan, name = outlook.plan, entry.name
    excess = outlook.excess.get(entry.name)
    if name in plan.drained:
        return f"it is drained now: {without_mark(plan.memory.drains[name].reason)}"
    if name in plan.undrained:
        return "it is undrained now: jobs may have it again"
    match entry.phase:
        case Phase.LAUNCHING if name in plan.memory.launches:
            return _launching(plan, name)
        case Phase.IDLE:
            return idle.get(name, entry.why)
        case Phase.BUSY if entry.action is NodeAction.SERVE:
            ids = [str(job.job_id) for job in outlook.reconciled.running.get(name, ())]
            more = ", ..." if len(ids) > _JOBS_NAMED else ""
            runs = f"it runs the jobs {', '.join(ids[:_JOBS_NAMED])}{more}" if ids else "it runs jobs"
            return f"{runs}; {excess}" if excess else runs
        case Phase.DRAINING | Phase.DRAINED if name in plan.memory.drains:
            what = "its jobs end first" if entry.phase is Phase.DRAINING else "it is empty"
            return f"{without_mark(plan.memory.drains[name].reason)}; {what}"
        case Phase.ILL if not entry.is_confirmed:
            return f"{entry.why}; another look will tell"
        case _:
            return entry.why


def _launching(plan: Plan, name: str) -> str:
    launch = plan.memory.launches[name]
    return _being_made((plan.at - launch.since).total_seconds(), launch, plan.memory.locations.get(name, ""))


@lru_cache(maxsize=256)
def _being_made(waited: float, launch: Launching, location: str) -> str:
    """The same words for all of a launch, of which there may be thousands."""
    allowed = (launch.deadline - launch.since).total_seconds()
    ids = ", ".join(map(str, launch.jobs[:_JOBS_NAMED]))
    jobs = f" for the jobs {ids}" if ids else ""
    on = f" on {location}" if location else ""
    return f"it is being made{on}{jobs}, for {waited:.0f} s of at most {allowed:.0f} s"

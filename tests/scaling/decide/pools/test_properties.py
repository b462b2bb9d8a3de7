"""What holds of every decision about pools, whatever the world is like."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import comes, runs
from tests.scaling.decide.cluster_states import cluster_states, memories
from tests.scaling.decide.pools.looks import blind, looks
from tests.scaling.decide.test_decide_properties import names as of_fleets
from tidepool.clients.slurm import JobState
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.pools.leave import PERSONS_STAY
from tidepool.scaling.decision import (
    Convert,
    Decision,
    DeleteOrphan,
    Drain,
    Launch,
    PowerFailed,
    ReleaseSlot,
    Remove,
    Repair,
)
from tidepool.scaling.memory import Memory

T = TypeVar("T")
_RUNS = runs(150)


def moves(decision: Decision) -> dict[str, Convert]:
    """By machine, its conversion; each has one at most."""
    found = [(name, each) for each in decision.actions if isinstance(each, Convert) for name in each.nodes]
    assert len(found) == len(dict(found)), "a machine is converted twice"
    return dict(found)


def moved(seen: ClusterState, memory: Memory) -> dict[str, Convert]:
    """What moves that was at rest: not what is gone on with."""
    return {name: each for name, each in moves(decide(seen, memory)).items() if not each.repairs}


@comes(slurm=15, kubernetes=15)
@given(looks())
@_RUNS
def test_only_an_idle_machine_moves_and_only_to_the_other_side(
    came: Counter[str], look: tuple[ClusterState, Memory]
) -> None:
    seen, memory = look
    assert seen.pools.roles is not None
    assert seen.pools.kubernetes is not None
    busy = {
        name for job in seen.jobs if job.state is not JobState.PENDING for name in job.nodelist.split(",")
    }
    busy |= {pod.node for pod in seen.pools.kubernetes.pods if pod.node and not pod.is_daemon}
    nodes = {node.name: node for node in seen.nodes}
    kube_nodes = {node.name: node for node in seen.pools.kubernetes.nodes}
    for name, each in moves(decide(seen, memory)).items():
        if each.repairs:
            continue
        came[each.to] += 1
        assert name not in busy
        assert name not in seen.under_way
        assert each.to != seen.pools.roles[name].role
        if each.to == "kubernetes":
            assert nodes[name].state.takes_jobs
            assert name not in kube_nodes
        else:
            assert kube_nodes[name].takes_pods
            assert nodes[name].state.is_slot


@comes(least=30, most=15)
@given(looks())
@_RUNS
def test_no_limit_is_passed_by_what_moves(came: Counter[str], look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    now = moves(decision)
    for pool in seen.spec.pools:
        mine = {name: each for name, each in now.items() if each.pool == pool.name and not each.repairs}
        views = {name: view for name, view in decision.machines.items() if view.pool == pool.name}
        for role in ("slurm", "kubernetes"):
            left = {name for name, each in mine.items() if each.to != role}
            # Those that serve, and do not go: what comes may never come.
            stays = {n for n, v in views.items() if v.role == role and v.standing != "moving"} - left
            if left:
                came["least"] += 1
                assert len(stays) >= pool.least(role), f"{role}_min of {pool.name}"
            there = {n for n, v in views.items() if (v.to or v.role) == role}
            if len(left) < len(mine):
                came["most"] += 1
                assert len(there) <= pool.most(role), f"{role}_max of {pool.name}"


@comes(moved=40, converted=5, was_set_back=5, idle=10, held_by_a_setback=5, held_by_a_stay=3)
@given(looks())
@runs(220)
def test_who_has_just_moved_or_was_just_busy_stays(
    came: Counter[str], look: tuple[ClusterState, Memory]
) -> None:
    seen, memory = look
    pools = {pool.name: pool for pool in seen.spec.pools}
    now = moved(seen, memory)
    came["moved"] += len(now)
    for name, each in now.items():
        pool = pools[each.pool]
        for conversion in seen.pools.conversions or ():
            if conversion.order.node != name or not conversion.ended:
                continue
            stayed = seen.at - conversion.ended
            if conversion.phase == "done":
                came["converted"] += 1
                assert stayed.total_seconds() >= pool.minimum_stay_s
                assert conversion.order.by != "person" or stayed >= PERSONS_STAY
            if conversion.cancel_by == "person":
                assert stayed >= PERSONS_STAY
        backoff = memory.pools.backoffs.get(name)
        came["was_set_back"] += backoff is not None
        assert backoff is None or backoff.until <= seen.at
        idle_since = memory.pools.idle_since.get(name)
        if idle_since is not None and pool.idle_s:
            came["idle"] += 1
            assert (seen.at - idle_since).total_seconds() >= pool.idle_s
    # Some would move otherwise.
    free = replace(memory, pools=replace(memory.pools, backoffs={}))
    came["held_by_a_setback"] += len(moved(seen, free).keys() - now.keys())
    others = tuple(each for each in seen.pools.conversions or () if each.phase not in ("done", "stopped"))
    restless = replace(seen, pools=replace(seen.pools, conversions=others))
    came["held_by_a_stay"] += len(moved(restless, memory).keys() - now.keys())


@given(looks())
@_RUNS
def test_what_is_unknown_moves_nothing(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    for field in ("roles", "kubernetes", "conversions"):
        decision = decide(blind(seen, field), memory)
        assert not moves(decision)
        assert not decision.memory.pools.idle_since
        assert set(decision.machines) == set(decide(seen, memory).machines)


@given(looks())
@_RUNS
def test_a_second_decision_on_the_same_world_moves_nothing(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    first = decide(seen, memory)
    second = decide(replace(seen, desired=first.desired), first.memory)
    assert second.actions == ()


@given(looks(), st.randoms(use_true_random=False))
@_RUNS
def test_the_order_of_what_is_seen_does_not_matter(
    look: tuple[ClusterState, Memory], chance: random.Random
) -> None:
    seen, memory = look
    pools = seen.pools
    assert pools.kubernetes is not None
    assert pools.conversions is not None
    assert pools.roles is not None

    def mixed(of: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(chance.sample(of, len(of)))

    kubernetes = replace(
        pools.kubernetes, nodes=mixed(pools.kubernetes.nodes), pods=mixed(pools.kubernetes.pods)
    )
    other = replace(
        seen,
        nodes=mixed(seen.nodes),
        jobs=mixed(seen.jobs),
        pools=replace(
            pools,
            kubernetes=kubernetes,
            conversions=mixed(pools.conversions),
            roles=dict(mixed(tuple(pools.roles.items()))),
        ),
    )
    assert decide(other, memory) == decide(seen, memory)


@given(looks())
@_RUNS
def test_everything_that_waits_and_every_machine_is_explained(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    assert seen.pools.kubernetes is not None
    decision = decide(seen, memory)
    pods = {pod.key for pod in seen.pools.kubernetes.pods if not pod.node}
    assert set(decision.waiting_pods) == pods
    jobs = {job.job_id for job in seen.jobs if job.state is JobState.PENDING}
    assert set(decision.waiting) == jobs
    assert set(decision.machines) == {slot.node_name for pool in seen.spec.pools for slot in pool.slots()}
    assert all(told.reason for told in decision.waiting_pods.values())
    assert all(told.reason for told in decision.waiting.values())
    assert all(told.reason for told in decision.machines.values())
    assert all(action.reason for action in decision.actions)
    for pod in decision.waiting_pods.values():
        assert bool(pod.nodes) == (pod.standing in ("room", "coming"))


@given(looks())
@_RUNS
def test_what_is_a_fleets_is_never_done_to_a_machine_of_a_pool(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    assert not decision.nodes
    for action in decision.actions:
        assert not isinstance(
            action, Drain | ReleaseSlot | Launch | Repair | PowerFailed | Remove | DeleteOrphan
        )
    assert not of_fleets(decision, Remove)


@given(looks())
@_RUNS
def test_a_pool_moves_one_way_at_a_time_for_demand(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    ways = Counter(
        (each.pool, each.to)
        for each in decide(seen, memory).actions
        if isinstance(each, Convert) and not each.repairs
    )
    assert len({pool for pool, _ in ways}) == len(ways)


@st.composite
def mixed_looks(draw: st.DrawFn) -> tuple[ClusterState, Memory, ClusterState, Memory]:
    """Fleets in any state beside pools in any state; and the fleets alone."""
    fleets = draw(cluster_states())
    memory = draw(memories(fleets))
    pools, of_pools = draw(looks())
    spec = fleets.spec.model_copy(update={"pools": pools.spec.pools, "kubernetes": pools.spec.kubernetes})
    machines = None if fleets.machines is None else (*fleets.machines, *(pools.machines or ()))
    both = replace(
        fleets,
        spec=spec,
        nodes=(*fleets.nodes, *pools.nodes),
        machines=machines,
        pools=pools.pools,
        under_way=fleets.under_way | pools.under_way,
    )
    return both, replace(memory, pools=of_pools.pools), fleets, memory


@given(mixed_looks())
@_RUNS
def test_fleets_and_pools_leave_each_others_machines_alone(
    look: tuple[ClusterState, Memory, ClusterState, Memory],
) -> None:
    both, memory, fleets, of_fleets_alone = look
    decision = decide(both, memory)
    pools = {pool.name for pool in both.spec.pools}
    for action in decision.actions:
        names_of = [action.machine.node] if isinstance(action, DeleteOrphan) else action.nodes
        assert all((name.rpartition("-")[0] in pools) == isinstance(action, Convert) for name in names_of)
    assert not {name for name in decision.nodes if name.rpartition("-")[0] in pools}
    assert not pools & decision.desired.keys()
    # Without a job that waits, fleets are as if there were no pool.
    quiet = tuple(job for job in both.jobs if job.state is not JobState.PENDING)
    alone = decide(replace(fleets, jobs=quiet, under_way=both.under_way), of_fleets_alone)
    beside = decide(replace(both, jobs=quiet), memory)
    assert [each for each in beside.actions if not isinstance(each, Convert)] == list(alone.actions)
    assert (beside.nodes, beside.desired, beside.cost) == (alone.nodes, alone.desired, alone.cost)
    assert replace(beside.memory, pools=alone.memory.pools) == alone.memory

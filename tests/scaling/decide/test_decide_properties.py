"""What holds of every decision, whatever the world is like."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties import runs
from tests.scaling.decide.cluster_states import cluster_states, memories
from tidepool.clients.slurm import JobState, NodeBase, NodeFlag
from tidepool.cluster.hostlist import expand
from tidepool.cluster.slots import fleet_and_number
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decision import Decision, DeleteOrphan, Drain, Launch, Remove, Repair, Undrain
from tidepool.scaling.memory import Memory

T = TypeVar("T")
Named = Launch | Drain | Undrain | Remove | Repair

_RUNS = runs(40)


@st.composite
def looks(draw: st.DrawFn) -> tuple[ClusterState, Memory]:
    seen = draw(cluster_states())
    return seen, draw(memories(seen))


def names(decision: Decision, kind: type[Named]) -> set[str]:
    return {name for action in decision.actions if isinstance(action, kind) for name in action.nodes}


def slot(name: str) -> tuple[str, int] | None:
    """The fleet and the number of a node's name; None of one that no slot can have."""
    with suppress(ValueError):
        return fleet_and_number(name)
    return None


def with_jobs(seen: ClusterState) -> set[str]:
    """Nodes on which something runs, as far as anybody says."""
    found = {node.name for node in seen.nodes if node.cpus_alloc or NodeFlag.COMPLETING in node.state.flags}
    for job in seen.jobs:
        if job.state is not JobState.PENDING and not job.state.has_ended:
            found |= set(expand(job.nodelist))
    return found


def stopped(seen: ClusterState) -> set[str]:
    """Nodes whose machines are there and provably do not run."""
    listed = seen.machines or ()
    return {m.key.node for m in listed} - {m.key.node for m in listed if m.state == "running"}


def somebodys(seen: ClusterState) -> set[str]:
    """Nodes that a person has drained."""
    return {
        node.name
        for node in seen.nodes
        if NodeFlag.DRAIN in node.state.flags
        and node.state.base is not NodeBase.FUTURE
        and node.reason is not None
        and node.reason.text == "broken fan"
    }


@given(looks())
@_RUNS
def test_no_decision_takes_a_node_with_a_job(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    taken = names(decision, Remove) | {
        a.machine.node for a in decision.actions if isinstance(a, DeleteOrphan)
    }
    assert taken & with_jobs(seen) <= stopped(seen)


@given(looks())
@_RUNS
def test_what_is_unknown_removes_nothing(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    for blind in (replace(seen, machines=None), replace(seen, recorded=None), replace(seen, nodes=())):
        decision = decide(blind, memory)
        assert not [action for action in decision.actions if isinstance(action, Remove)]
        if blind.machines is None or blind.recorded is None:
            assert not [action for action in decision.actions if isinstance(action, DeleteOrphan)]


@given(looks())
@_RUNS
def test_a_second_decision_on_the_same_world_does_nothing(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    first = decide(seen, memory)
    second = decide(replace(seen, desired=first.desired), first.memory)
    assert second.actions == ()
    assert second.desired == first.desired


@given(looks(), st.randoms(use_true_random=False))
@_RUNS
def test_the_order_of_what_is_seen_does_not_matter(
    look: tuple[ClusterState, Memory], chance: random.Random
) -> None:
    seen, memory = look

    def mixed(of: Sequence[T]) -> tuple[T, ...]:
        return tuple(chance.sample(of, len(of)))

    other = replace(
        seen,
        nodes=mixed(seen.nodes),
        jobs=mixed(seen.jobs),
        reservations=mixed(seen.reservations),
        machines=None if seen.machines is None else mixed(seen.machines),
        recorded=None if seen.recorded is None else dict(mixed([*seen.recorded.items()])),
        desired=dict(mixed([*seen.desired.items()])),
    )
    assert decide(other, memory) == decide(seen, memory)


@given(looks())
@_RUNS
def test_nothing_is_launched_beyond_a_limit(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    launched = Counter(fleet_and_number(name)[0] for name in names(decision, Launch))
    if not launched:
        return
    desired = Counter(
        place[0] for nodes in decision.desired.values() for name in nodes if (place := slot(name))
    )
    spec, prices = seen.spec, {f.name: f.infrastructures[0].price_usd_per_hour for f in seen.spec.fleets}
    for fleet in spec.fleets:
        if launched[fleet.name]:
            most = fleet.infrastructures[0].max_nodes
            assert desired[fleet.name] <= fleet.max_nodes
            assert most is None or desired[fleet.name] <= most
    assert all(
        fleet_and_number(n)[1] <= spec.fleet(fleet_and_number(n)[0]).max_nodes
        for n in names(decision, Launch)
    )
    if spec.limits.max_nodes is not None:
        assert sum(desired.values()) <= spec.limits.max_nodes
    priced = sum(prices[fleet] for fleet in launched.elements())
    if spec.limits.price_usd_per_hour is not None and priced:
        assert decision.cost.usd_per_hour + priced <= spec.limits.price_usd_per_hour + 1e-6
    if spec.limits.budget_usd_per_month is not None and priced:
        after = decide(replace(seen, desired=decision.desired), decision.memory)
        assert after.cost.month_projected_usd <= spec.limits.budget_usd_per_month + 1e-6


@given(looks())
@_RUNS
def test_what_somebody_drained_is_left_alone(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    for kind in (Drain, Undrain, Remove):
        assert not names(decision, kind) & somebodys(seen)
    for fleet, nodes in seen.desired.items():
        assert set(nodes) & somebodys(seen) <= set(decision.desired[fleet])


@given(looks())
@_RUNS
def test_every_job_that_waits_is_told_why(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    pending = {job.job_id for job in seen.jobs if job.state is JobState.PENDING}
    assert decision.waiting.keys() == pending
    assert all(told.reason for told in decision.waiting.values())
    assert all(action.reason for action in decision.actions)
    assert all(view.reason for view in decision.nodes.values())


@given(looks())
@_RUNS
def test_nodes_are_undrained_only_where_the_scaler_drained_them(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    ours = {n.name for n in seen.nodes if n.reason is not None and n.reason.text.startswith("tidepool:")}
    assert names(decision, Undrain) <= ours | memory.drains.keys()


@given(looks())
@_RUNS
def test_what_joins_and_leaves_the_wish_is_told(look: tuple[ClusterState, Memory]) -> None:
    seen, memory = look
    decision = decide(seen, memory)
    before = {name for nodes in seen.desired.values() for name in nodes}
    after = {name for nodes in decision.desired.values() for name in nodes}
    recorded = seen.recorded or {}
    joined = after - before - names(decision, Launch) - names(decision, Repair)
    assert joined <= recorded.keys()
    gone = before - after - names(decision, Remove)
    assert not {name for name in gone if name in recorded and recorded[name].machine}
    assert names(decision, Launch) <= after
    assert not names(decision, Remove) & after


def test_cluster_states_have_mischief_in_them() -> None:
    """The properties above say nothing of worlds in which nothing happens."""
    kinds: Counter[type] = Counter()

    @given(looks())
    @settings(_RUNS, max_examples=200, derandomize=True)
    def count(look: tuple[ClusterState, Memory]) -> None:
        kinds.update({type(action) for action in decide(*look).actions})

    count()
    assert {Launch, Drain, Undrain, Remove} <= kinds.keys(), kinds

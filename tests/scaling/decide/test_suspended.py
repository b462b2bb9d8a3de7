"""Suspended machines in a decision: which stay, which go and why, which are prepared, and that they go on before others are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scaling.decide.cluster_states import (
    AT,
    BOTH,
    cluster_state,
    fleet,
    job,
    machine,
    node,
    seconds,
    spec,
)
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.floors import SETTLED
from tidepool.scaling.decision import Decision, DeleteOrphan, Drain, Launch, Phase, Remove, Repair, Suspend
from tidepool.scaling.memory import Backoff, Drained, Memory, suspending_at

KEPT = replace(BOTH, is_suspended=True)


def keeping(suspended: int = 1, nodes: int = 0, **changes: Any) -> ClusterSpec:
    """A cluster whose fleet keeps so many machines suspended."""
    warm = {"name": "warm", "fleet": "cpu", "nodes": nodes, "suspended": suspended}
    here = fleet(infrastructures=["libvirt"], **changes)
    own = {"infrastructure": "libvirt"}
    return spec(here, controller=own, scaling={"policies": ["queue", warm]})


def with_kept(*names: str, of: ClusterSpec, state: Any = "suspended", **changes: Any) -> ClusterState:
    """No node, and suspended machines of these names."""
    fields: dict[str, Any] = {
        "machines": tuple(machine(name, state) for name in names),
        "recorded": dict.fromkeys(names, KEPT),
    }
    return cluster_state(of=of, **fields | changes)


def done(decision: Decision) -> list[tuple[str, tuple[str, ...]]]:
    """What is done to which nodes."""
    return [
        (type(each).__name__, each.nodes) for each in decision.actions if not isinstance(each, DeleteOrphan)
    ]


def test_one_that_is_as_it_should_be_is_left_alone() -> None:
    decision = decide(with_kept("cpu-3", of=keeping()), Memory())
    assert decision.actions == ()
    assert decision.nodes["cpu-3"].phase is Phase.SUSPENDED
    assert decision.cost.usd_per_hour == 0


def test_a_job_has_it_before_the_first_free_slot() -> None:
    state = with_kept("cpu-3", of=keeping(), jobs=(job(1),))
    decision = decide(state, Memory())
    assert [(type(each), each.nodes) for each in decision.actions if isinstance(each, Launch)] == [
        (Launch, ("cpu-3",))
    ]
    assert decision.waiting[1].nodes == ("cpu-3",)
    # Another one is prepared when that has come.
    again = decide(replace(state, desired=decision.desired), decision.memory)
    assert again.actions == ()


def test_a_node_to_spare_is_one_that_goes_on() -> None:
    decision = decide(with_kept("cpu-2", of=keeping(1, nodes=1)), Memory())
    assert ("Launch", ("cpu-2",)) in done(decision)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": "stopped"}, "without the memory that was saved"),
        ({"state": "running"}, "somebody started it"),
        ({"machines": ()}, "its suspended machine is gone"),
        ({"recorded": {"cpu-1": replace(KEPT, image="aa")}, "images": {"cpu": "bb"}}, "an older image"),
        ({"recorded": {"cpu-1": replace(KEPT, pending=True)}}, "was cut off"),
    ],
)
def test_one_that_is_not_as_it_should_be_goes(changes: dict[str, Any], why: str) -> None:
    of = keeping()
    state = with_kept("cpu-1", of=of, **changes)
    first = decide(state, Memory())
    assert why in first.nodes["cpu-1"].reason
    # Another look says the same.
    second = decide(replace(state, at=AT + seconds(5), desired=first.desired), first.memory)
    assert ("Repair", ("cpu-1",)) in done(second)
    (repair,) = (each for each in second.actions if isinstance(each, Repair))
    assert why in repair.reason
    # Its slot is not free for the next one as long.
    assert all("cpu-1" not in each.nodes for each in first.actions if isinstance(each, Launch))


def test_of_too_many_those_of_the_highest_slots_go() -> None:
    state = with_kept("cpu-1", "cpu-2", "cpu-9", of=keeping(1))
    first = decide(state, Memory())
    second = decide(replace(state, at=AT + seconds(5)), first.memory)
    assert sorted(done(second)) == [("Repair", ("cpu-2",)), ("Repair", ("cpu-9",))]
    assert "no more than 1 machines of cpu" in first.nodes["cpu-2"].reason
    assert "above max_nodes" in first.nodes["cpu-9"].reason


def test_what_cannot_be_seen_is_neither_taken_nor_given_up() -> None:
    state = with_kept("cpu-1", of=keeping(), machines=None, jobs=(job(1),))
    decision = decide(state, Memory())
    assert all("cpu-1" not in each.nodes for each in decision.actions if isinstance(each, Launch))
    assert "cannot be seen" in decision.nodes["cpu-1"].reason


def test_a_node_that_is_idle_is_suspended_at_once_and_then_no_other() -> None:
    of = keeping(1, idle_timeout_s=300)
    state = cluster_state(node("cpu-1"), node("cpu-2"), of=of)
    assert decide(state, Memory()).actions == (), "it came just now"
    decision = decide(state, Memory(idle_since=dict.fromkeys(("cpu-1", "cpu-2"), AT - SETTLED)))
    (drain,) = decision.actions
    assert isinstance(drain, Drain)
    assert (len(drain.nodes), "kept suspended" in drain.reason) == (1, True)
    (name,) = drain.nodes
    other = ({"cpu-1", "cpu-2"} - {name}).pop()
    drained = node(name, "IDLE+DRAIN", drain.reason)
    later = replace(cluster_state(drained, node(other), of=of), at=AT + seconds(20))
    memory = replace(decision.memory, drains={name: Drained(AT, drain.reason)})
    then = decide(later, memory)
    assert done(then) == [("Suspend", (name,))]
    assert name not in then.desired["cpu"]


def test_a_drained_node_is_removed_where_there_are_enough_and_where_none_may_be_suspended() -> None:
    drained = node("cpu-1", "IDLE+DRAIN", "tidepool: idle for 300 s")
    enough = cluster_state(
        drained,
        of=keeping(1),
        machines=(machine("cpu-1"), machine("cpu-2", "suspended")),
        recorded={"cpu-1": BOTH, "cpu-2": KEPT},
    )
    assert done(decide(enough, Memory())) == [("Remove", ("cpu-1",))]
    backoff = Backoff("capacity", 1, AT + seconds(60), "no space left on device")
    full = Memory(fleet_backoffs={suspending_at("cpu"): backoff})
    alone = cluster_state(drained, of=keeping(1))
    (remove,) = decide(alone, full).actions
    assert isinstance(remove, Remove)
    (suspend,) = decide(alone, Memory()).actions
    assert isinstance(suspend, Suspend)


def test_they_are_prepared_in_slots_that_none_has_and_not_while_a_job_waits_for_a_node() -> None:
    state = with_kept("cpu-1", of=keeping(3))
    (launch,) = decide(state, Memory()).actions
    assert isinstance(launch, Launch)
    assert launch.nodes == ("cpu-2", "cpu-3")
    (launch,) = decide(replace(state, jobs=(job(1),)), Memory()).actions
    assert isinstance(launch, Launch)
    assert (launch.nodes, launch.jobs) == (("cpu-1",), (1,))


def test_without_the_policy_they_go() -> None:
    state = with_kept(
        "cpu-1", of=spec(fleet(infrastructures=["libvirt"]), controller={"infrastructure": "libvirt"})
    )
    first = decide(state, Memory())
    assert "no more than 0 machines" in first.nodes["cpu-1"].reason
    assert done(decide(replace(state, at=AT + seconds(5)), first.memory)) == [("Repair", ("cpu-1",))]


def test_one_that_somebody_has_registered_with_slurm_is_a_node_again() -> None:
    state = with_kept("cpu-1", of=keeping(), state="running")
    up = replace(state, nodes=(node("cpu-1"), *(each for each in state.nodes if each.name != "cpu-1")))
    assert HostSet("cpu-1") == decide(up, Memory()).desired["cpu"]

"""Each rule of deciding, by an example."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.scaling.decide.cluster_states import (
    AT,
    BOTH,
    cluster_state,
    desired,
    fleet,
    job,
    machine,
    node,
    reservation,
    running,
    seconds,
    spec,
    unseen,
)
from tidepool.clients.slurm import JobState
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.cluster_state import ClusterState, Recorded
from tidepool.scaling.decide.budget import month_end
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decision import (
    Action,
    Decision,
    DeleteOrphan,
    Drain,
    Launch,
    Phase,
    PowerFailed,
    ReleaseSlot,
    Remove,
    Repair,
    Undrain,
)
from tidepool.scaling.memory import Backoff, Drained, Memory
from tidepool.scaling.memory import Launch as Launched

OURS = "tidepool: idle for 300 s"
LONG_AGO = AT - seconds(1000)
#: Nodes that have been idle for long.
IDLE = Memory(idle_since={f"cpu-{n}": LONG_AGO for n in range(1, 9)})


def kinds(decision: Decision) -> list[tuple[type[Action], tuple[str, ...]]]:
    """Each action, and its nodes."""
    return [
        (type(each), (each.machine.node,) if isinstance(each, DeleteOrphan) else each.nodes)
        for each in decision.actions
    ]


def later(seen: ClusterState, decision: Decision, by_s: float, **changes: Any) -> tuple[ClusterState, Memory]:
    """The same world a while later, as a decision left it."""
    return replace(seen, at=seen.at + seconds(by_s), desired=decision.desired, **changes), decision.memory


# Growing


def test_a_job_that_waits_gets_a_node() -> None:
    decision = decide(cluster_state(jobs=(job(7),)), Memory())
    [launch] = decision.actions
    assert launch == Launch("cpu", ("cpu-1",), launch.reason, (7,))
    assert "7" in launch.reason
    assert decision.desired == desired("cpu-1")
    assert decision.waiting[7].standing == "coming"
    assert decision.memory.launches["cpu-1"].deadline == AT + seconds(60)
    assert decision.nodes["cpu-1"].phase is Phase.LAUNCHING


def test_without_a_policy_that_serves_jobs_none_is_made_for_them() -> None:
    quiet = spec(scaling={"policies": [{"name": "warm", "fleet": "cpu", "nodes": 1}]})
    decision = decide(cluster_state(of=quiet, jobs=(job(1, nodes=3),)), Memory())
    assert kinds(decision) == [(Launch, ("cpu-1",))]
    assert decision.waiting[1].standing == "limit"
    assert "neither queue nor backlog" in decision.waiting[1].reason


def test_a_fleet_that_backs_off_leaves_the_demand_to_the_next() -> None:
    both = spec(fleet("cpu", 1), fleet("big", 2))
    backoff = {"cpu": Backoff("capacity", 1, AT + seconds(60), "sold out")}
    decision = decide(cluster_state(of=both, jobs=(job(1),)), Memory(fleet_backoffs=backoff))
    assert kinds(decision) == [(Launch, ("big-1",))]


def test_where_all_fleets_back_off_the_job_is_told() -> None:
    backoff = {"cpu": Backoff("capacity", 1, AT + seconds(60), "sold out")}
    decision = decide(cluster_state(jobs=(job(1),)), Memory(fleet_backoffs=backoff))
    assert decision.actions == ()
    assert decision.waiting[1].standing == "setback"
    assert "sold out" in decision.waiting[1].reason


def test_a_quarantined_name_is_passed_over() -> None:
    backoff = {"cpu-1": Backoff("boot", 1, AT + seconds(60), "never came up")}
    assert kinds(decide(cluster_state(jobs=(job(1),)), Memory(node_backoffs=backoff))) == [
        (Launch, ("cpu-2",))
    ]


def test_a_slot_that_slurm_forgot_is_not_launched() -> None:
    seen = cluster_state(jobs=(job(1),))
    seen = replace(seen, nodes=tuple(each for each in seen.nodes if each.name != "cpu-1"))
    assert kinds(decide(seen, Memory())) == [(Launch, ("cpu-2",))]


def test_where_a_host_does_not_answer_nothing_is_launched_and_others_are() -> None:
    silent = (machine("cpu-1", "unknown"),)
    seen = cluster_state(jobs=(job(1),), machines=silent)
    assert kinds(decide(seen, Memory())) == [(Launch, ("cpu-2",))]
    alone = cluster_state(jobs=(job(1),), of=spec(fleet(max_nodes=1)), machines=silent)
    decision = decide(alone, Memory())
    assert decision.actions == ()
    told = decision.waiting[1]
    assert (told.standing, told.reason) == (
        "setback",
        "fleet cpu has no free slots: of 1 the hosts do not answer",
    )


# Floors


def test_min_nodes_are_there_however_empty_the_queue_is() -> None:
    decision = decide(cluster_state(of=spec(fleet(min_nodes=2))), Memory())
    assert kinds(decision) == [(Launch, ("cpu-1", "cpu-2"))]
    assert decision.actions[0].reason == "min_nodes is 2"


def test_min_nodes_are_undrained_before_others_are_made() -> None:
    drained = node("cpu-5", "IDLE+DRAIN", OURS)
    assert kinds(decide(cluster_state(drained, of=spec(fleet(min_nodes=2))), Memory())) == [
        (Undrain, ("cpu-5",)),
        (Launch, ("cpu-1",)),
    ]


def test_nodes_that_somebody_holds_count_as_there() -> None:
    held = node("cpu-5", "IDLE+DRAIN", "broken fan")
    assert decide(cluster_state(held, of=spec(fleet(min_nodes=1))), Memory()).actions == ()


def test_warm_nodes_are_beside_those_that_jobs_have_or_get() -> None:
    warm = spec(scaling={"policies": ["queue", {"name": "warm", "fleet": "cpu", "nodes": 1}]})
    seen = cluster_state(
        node("cpu-1", "ALLOCATED"), node("cpu-2"), of=warm, jobs=(running(1, "cpu-1"), job(2))
    )
    decision = decide(seen, IDLE)
    assert kinds(decision) == [(Launch, ("cpu-3",))]
    assert decision.actions[0].reason == "1 are kept warm"
    assert decide(replace(seen, jobs=seen.jobs[:1]), IDLE).actions == ()


def test_a_schedule_holds_within_its_hours() -> None:
    window = {"name": "schedule", "fleet": "cpu", "nodes": 2, "begin": "12:00", "end": "18:00"}
    of = spec(scaling={"policies": ["queue", window]})
    assert kinds(decide(cluster_state(of=of), Memory())) == [(Launch, ("cpu-1", "cpu-2"))]
    assert decide(replace(cluster_state(of=of), at=AT - seconds(1)), Memory()).actions == ()


# Limits


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_nodes": 2}, "limits.max_nodes"),
        ({"price_usd_per_hour": 4}, "limits.price_usd_per_hour"),
    ],
)
def test_limits_hold_whatever_waits(limits: dict[str, Any], said: str) -> None:
    priced = fleet(infrastructures=[{"name": "local", "price_usd_per_hour": 2}])
    jobs = tuple(job(n, cpus=4) for n in range(1, 6))
    decision = decide(cluster_state(of=spec(priced, limits=limits), jobs=jobs), Memory())
    assert kinds(decision) == [(Launch, ("cpu-1", "cpu-2"))]
    assert [told.standing for _, told in sorted(decision.waiting.items())] == ["coming"] * 2 + ["limit"] * 3
    assert said in decision.waiting[3].reason


def test_an_infrastructure_has_its_own_limit() -> None:
    few = fleet(infrastructures=[{"name": "local", "max_nodes": 1}])
    decision = decide(cluster_state(of=spec(few), jobs=(job(1, cpus=4), job(2, cpus=4))), Memory())
    assert kinds(decision) == [(Launch, ("cpu-1",))]


def test_a_cap_of_an_account() -> None:
    capped = spec(scaling={"policies": ["queue", {"name": "account", "account": "physics", "max_nodes": 2}]})
    jobs = (running(1, "cpu-1", cpus=4), *(job(n, cpus=4) for n in (2, 3)), job(4, cpus=4, account="biology"))
    decision = decide(cluster_state(node("cpu-1", "ALLOCATED"), of=capped, jobs=jobs), Memory())
    assert kinds(decision) == [(Launch, ("cpu-2", "cpu-3"))]
    assert decision.waiting[3].standing == "limit"
    assert decision.waiting[4].standing == "coming"


def test_nothing_is_launched_that_could_break_the_budget() -> None:
    """Until the time limit and idle behind it, a node costs 60 x (1 h + 300 s + 60 s) = 66 USD."""
    priced = fleet(infrastructures=[{"name": "local", "price_usd_per_hour": 60}])
    jobs = tuple(job(n, cpus=4) for n in range(1, 5))
    decision = decide(
        cluster_state(of=spec(priced, limits={"budget_usd_per_month": 140}), jobs=jobs), Memory()
    )
    assert kinds(decision) == [(Launch, ("cpu-1", "cpu-2"))]
    assert "limits.budget_usd_per_month" in decision.waiting[3].reason
    after = decide(*later(cluster_state(of=spec(priced), jobs=jobs), decision, 0))
    assert after.cost.month_projected_usd == pytest.approx(132)


def test_jobs_without_a_time_limit_do_not_break_the_budget_either() -> None:
    """A node costs until the month's end; who looks again for those that were refused counts the ones opened before."""
    left_h = (month_end(AT) - AT) / timedelta(hours=1)
    priced = fleet(max_nodes=4, infrastructures=[{"name": "local", "price_usd_per_hour": 1}])
    jobs = tuple(job(n, cpus=4, time_limit_s=None) for n in range(1, 5))
    of = spec(priced, limits={"budget_usd_per_month": 2.5 * left_h})
    decision = decide(cluster_state(of=of, jobs=jobs), Memory())
    assert kinds(decision) == [(Launch, ("cpu-1", "cpu-2"))]
    assert decide(
        *later(cluster_state(of=of, jobs=jobs), decision, 0)
    ).cost.month_projected_usd == pytest.approx(2 * left_h)


def test_a_lowered_limit_has_the_idle_drained_first() -> None:
    seen = cluster_state(node("cpu-1", "ALLOCATED"), node("cpu-2"), of=spec(limits={"max_nodes": 1}))
    decision = decide(seen, Memory())
    assert kinds(decision) == [(Drain, ("cpu-2",))]
    assert "limits.max_nodes" in decision.actions[0].reason


def test_a_lowered_max_nodes_has_those_above_drained_jobs_or_not() -> None:
    seen = cluster_state(
        node("cpu-1"), node("cpu-3", "ALLOCATED"), node("cpu-4"), of=spec(fleet(max_nodes=2))
    )
    assert kinds(decide(seen, Memory(idle_since={"cpu-1": AT, "cpu-4": AT}))) == [(Drain, ("cpu-3", "cpu-4"))]


def test_a_fleet_that_is_gone_from_the_spec_is_drained() -> None:
    decision = decide(cluster_state(node("old-1"), node("old-2", "IDLE+DRAIN", OURS)), Memory())
    assert kinds(decision) == [(Drain, ("old-1",)), (Remove, ("old-2",))]
    assert "there is no fleet old any more" in decision.actions[0].reason


def test_one_whose_machine_somebody_else_deletes_goes_when_its_jobs_have_ended() -> None:
    seen = cluster_state(
        node("cpu-1", "ALLOCATED"),
        node("cpu-2"),
        of=spec(fleet(min_nodes=2)),
        jobs=(running(1, "cpu-1"), job(2)),
        machines=(replace(machine("cpu-1"), is_ending=True), machine("cpu-2")),
    )
    decision = decide(seen, Memory())
    assert kinds(decision) == [(Launch, ("cpu-3",)), (Drain, ("cpu-1",))]
    assert decision.actions[1].reason == "tidepool: somebody else deletes its machine"
    # Jobs that wait do not keep it.
    drained = node("cpu-1", "IDLE+DRAIN", "tidepool: somebody else deletes its machine")
    ended, memory = later(seen, decision, 60, nodes=(drained, node("cpu-2", "ALLOCATED")), jobs=(job(2),))
    assert (Remove, ("cpu-1",)) in kinds(decide(ended, memory))
    # Who holds it is asked nothing, and told.
    held, memory = later(seen, decision, 60, nodes=(node("cpu-1", "IDLE+DRAIN", "bad disk"), node("cpu-2")))
    view = decide(held, memory).nodes["cpu-1"]
    assert view.phase is Phase.HELD
    assert "somebody else deletes its machine, which goes when nobody holds it any more" in view.reason


def test_one_that_an_up_takes_away_and_makes_anew_is_not_taken_for_deleted_by_somebody_else() -> None:
    """Of another image, by a person: its node is gone from Slurm, and its old machine is at its end."""
    seen = cluster_state(
        of=spec(fleet(min_nodes=1)),
        machines=(replace(machine("cpu-1"), is_ending=True),),
        desired=desired("cpu-1"),
        recorded={"cpu-1": Recorded(machine=True)},
    )
    assert Remove not in {kind for kind, _ in kinds(decide(seen, Memory()))}


def test_a_spent_budget_lets_no_more_jobs_begin() -> None:
    priced = fleet(infrastructures=[{"name": "local", "price_usd_per_hour": 60}])
    of = spec(priced, limits={"budget_usd_per_month": 50})
    seen = cluster_state(node("cpu-1", "MIXED"), node("cpu-2"), of=of, jobs=(running(1, "cpu-1"),))
    decision = decide(seen, Memory())
    assert kinds(decision) == [(Drain, ("cpu-1", "cpu-2"))]
    assert "the month's budget of 50 USD" in decision.actions[0].reason


# Shrinking


def test_a_node_goes_when_it_was_idle_for_long_enough() -> None:
    seen = cluster_state(node("cpu-1"))
    waits = decide(seen, Memory(idle_since={"cpu-1": AT - seconds(40)}))
    assert waits.actions == ()
    assert waits.nodes["cpu-1"].reason == "idle for 40 s of 300 s; then it goes"
    goes = decide(seen, Memory(idle_since={"cpu-1": AT - seconds(300)}))
    assert goes.actions == (Drain("cpu", ("cpu-1",), OURS),)
    assert goes.desired == seen.desired
    assert goes.memory.drains["cpu-1"] == Drained(AT, OURS)


def test_a_node_is_idle_from_when_its_last_job_ended() -> None:
    ended = node("cpu-1", last_busy_time=AT - seconds(10), slurmd_start_time=LONG_AGO)
    assert decide(cluster_state(ended), Memory()).memory.idle_since == {"cpu-1": AT - seconds(10)}
    # A job that began and ended between two looks.
    assert decide(cluster_state(ended), IDLE).memory.idle_since == {"cpu-1": AT - seconds(10)}
    assert decide(cluster_state(node("cpu-1", "MIXED")), IDLE).memory.idle_since == {}


def test_it_is_removed_in_a_later_cycle_when_it_is_seen_to_be_drained() -> None:
    seen = cluster_state(node("cpu-1"))
    first = decide(seen, IDLE)
    again, memory = later(seen, first, 1)
    assert decide(again, memory).actions == ()
    busy = replace(again, nodes=cluster_state(node("cpu-1", "ALLOCATED+DRAIN", OURS)).nodes)
    assert decide(busy, memory).actions == ()
    drained = replace(again, nodes=cluster_state(node("cpu-1", "IDLE+DRAIN", OURS)).nodes)
    decision = decide(drained, memory)
    assert decision.actions == (Remove("cpu", ("cpu-1",), "drained and empty: idle for 300 s"),)
    assert decision.desired == {"cpu": HostSet()}


def test_a_node_that_completes_a_job_is_not_empty() -> None:
    assert decide(cluster_state(node("cpu-1", "IDLE+COMPLETING+DRAIN", OURS)), Memory()).actions == ()


def test_demand_that_comes_back_undrains() -> None:
    seen = cluster_state(node("cpu-1", "IDLE+DRAIN", OURS), jobs=(job(3),))
    decision = decide(seen, Memory(drains={"cpu-1": Drained(LONG_AGO, OURS)}))
    assert kinds(decision) == [(Undrain, ("cpu-1",))]
    # Its time of being idle begins anew, and it is not drained before Slurm shows it.
    after = decide(*later(seen, decision, 1, jobs=()))
    assert after.actions == ()
    assert after.memory.idle_since == {"cpu-1": AT}


def test_what_a_waiting_job_needs_is_not_drained() -> None:
    seen = cluster_state(node("cpu-1"), node("cpu-2"), jobs=(job(3),))
    decision = decide(seen, IDLE)
    assert len([each for each in decision.actions if isinstance(each, Drain)]) == 1
    kept = {"cpu-1", "cpu-2"} - set(decision.actions[0].nodes)  # type: ignore[union-attr]
    assert decision.nodes[kept.pop()].reason == "idle; a job that waits will run on it"


def test_min_nodes_stay_the_lowest_slots() -> None:
    seen = cluster_state(*(node(f"cpu-{n}") for n in (1, 2, 3)), of=spec(fleet(min_nodes=1)))
    decision = decide(seen, IDLE)
    assert kinds(decision) == [(Drain, ("cpu-2", "cpu-3"))]
    assert decision.nodes["cpu-1"].reason == "idle for 1000 s; it stays: min_nodes is 1"


def test_busy_nodes_are_of_the_floor_as_well() -> None:
    seen = cluster_state(node("cpu-1", "ALLOCATED"), node("cpu-2"), of=spec(fleet(min_nodes=1)))
    assert kinds(decide(seen, IDLE)) == [(Drain, ("cpu-2",))]


def test_an_older_image_goes_first_and_only_when_something_goes() -> None:
    of = spec(fleet(min_nodes=1))
    recorded = {"cpu-1": replace(BOTH, image="old"), "cpu-2": replace(BOTH, image="new")}
    seen = cluster_state(node("cpu-1"), node("cpu-2"), of=of, recorded=recorded, images={"cpu": "new"})
    decision = decide(seen, IDLE)
    assert kinds(decision) == [(Drain, ("cpu-1",))]
    assert decision.actions[0].reason == f"{OURS}, of an older image"
    fresh = Memory(idle_since={"cpu-1": AT, "cpu-2": AT})
    assert decide(seen, fresh).actions == ()


def test_the_dearest_goes_first_where_all_fleets_have_too_many() -> None:
    dear = fleet("big", 2, infrastructures=[{"name": "local", "price_usd_per_hour": 5}])
    of = spec(fleet("cpu", 1), dear, limits={"max_nodes": 1})
    assert kinds(decide(cluster_state(node("cpu-1"), node("big-1"), of=of), Memory())) == [
        (Drain, ("big-1",))
    ]


def test_reserved_nodes_stay() -> None:
    for begins_in_s in (-60, 30):
        seen = cluster_state(node("cpu-1"), reservations=(reservation("lab", "cpu-1", begins_in_s),))
        decision = decide(seen, IDLE)
        assert decision.actions == ()
        assert decision.nodes["cpu-1"].phase is Phase.HELD


@pytest.mark.parametrize(
    "state", ["IDLE+MAINTENANCE", "IDLE+RESERVED", "IDLE+REBOOT_REQUESTED", "DOWN+REBOOT_ISSUED", "IDLE+FAIL"]
)
def test_what_is_in_somebodys_hands_is_left_there(state: str) -> None:
    decision = decide(cluster_state(node("cpu-1", state)), IDLE)
    assert decision.actions == ()
    assert decision.nodes["cpu-1"].phase is Phase.HELD


def test_a_node_drained_by_a_person_is_theirs() -> None:
    for state in ("IDLE+DRAIN", "MIXED+DRAIN", "DOWN+DRAIN", "DOWN+DRAIN+NOT_RESPONDING"):
        seen = cluster_state(node("cpu-1", state, "broken fan", "ada"), jobs=(job(1, cpus=4),))
        decision = decide(seen, Memory(drains={"cpu-1": Drained(LONG_AGO, OURS)}))
        assert kinds(decision) == [(Launch, ("cpu-2",))]
        assert "broken fan" in decision.nodes["cpu-1"].reason


def test_a_node_that_an_operation_of_somebody_else_takes_away_is_let_go() -> None:
    leaving = node("cpu-1", "IDLE+DRAIN", "tidepool: leaves the cluster")
    assert leaving.reason is not None
    now = leaving._replace(reason=replace(leaving.reason, time=AT - seconds(5)))
    assert decide(cluster_state(now, jobs=(job(1),)), Memory()).nodes["cpu-1"].phase is Phase.HELD
    # One that was cut off long ago is as good as one of ours.
    assert kinds(decide(cluster_state(leaving, jobs=(job(1),)), Memory())) == [(Undrain, ("cpu-1",))]


# What goes wrong


def confirmed(seen: ClusterState, memory: Memory | None = None) -> Decision:
    """What is decided when a second look, a moment later, is the same."""
    first = decide(seen, memory or Memory())
    assert not [each for each in first.actions if isinstance(each, Remove | Repair | ReleaseSlot)]
    return decide(*later(seen, first, 2))


def test_a_node_whose_machine_died_is_removed_at_once() -> None:
    """Pulled plug: the machine is seen to be stopped before Slurm knows. Its jobs are requeued by the removal."""
    seen = cluster_state(
        node("cpu-1", "ALLOCATED"), jobs=(running(1, "cpu-1"),), machines=(machine("cpu-1", "stopped"),)
    )
    assert kinds(confirmed(seen)) == [(Remove, ("cpu-1",))]


def test_a_node_that_slurm_gave_up_and_whose_machine_is_gone_is_removed() -> None:
    seen = cluster_state(node("cpu-1", "DOWN+NOT_RESPONDING", "Not responding", "slurm"), machines=())
    seen = replace(seen, machines=())
    assert kinds(confirmed(seen)) == [(Remove, ("cpu-1",))]


def test_not_seen_is_not_gone() -> None:
    """A machine that is not listed, while Slurm has it in service or silent."""
    for state in ("IDLE", "ALLOCATED", "IDLE+NOT_RESPONDING"):
        seen = replace(cluster_state(node("cpu-1", state)), machines=())
        assert confirmed(seen).actions == ()


def test_a_node_that_is_down_and_whose_machine_runs_is_mended_then_replaced() -> None:
    seen = cluster_state(node("cpu-1", "DOWN", "Not responding", "slurm"))
    repaired = confirmed(seen)
    assert kinds(repaired) == [(Repair, ("cpu-1",))]
    waits, memory = later(seen, repaired, 30)
    assert decide(waits, memory).actions == ()
    late, memory = later(seen, repaired, 70)
    decision = decide(late, memory)
    assert kinds(decision) == [(Remove, ("cpu-1",))]
    assert decision.memory.node_backoffs["cpu-1"].cause == "boot"


@pytest.mark.parametrize("missing", ["machines", "recorded"])
def test_a_node_that_is_down_stays_where_something_cannot_be_seen(missing: str) -> None:
    seen = unseen(cluster_state(node("cpu-1", "DOWN", "Not responding", "slurm")), missing)
    assert confirmed(seen).actions == ()


def test_a_node_whose_host_does_not_answer_stays_and_others_are_removed() -> None:
    seen = cluster_state(
        node("cpu-1", "DOWN", "Not responding", "slurm"), node("cpu-2", "DOWN", "Not responding", "slurm")
    )
    seen = replace(seen, machines=(machine("cpu-1", "unknown"), machine("cpu-2", "stopped")))
    assert kinds(confirmed(seen)) == [(Remove, ("cpu-2",))]


def test_a_launch_that_does_not_come_is_replaced_under_another_name() -> None:
    seen = cluster_state(jobs=(job(1),))
    first = decide(seen, Memory())
    mute = {"machines": (machine("cpu-1"),), "recorded": {"cpu-1": Recorded(machine=True)}}
    waits, memory = later(seen, first, 59, **mute)
    assert decide(waits, memory).actions == ()
    late, memory = later(seen, first, 61, **mute)
    look = decide(late, memory)
    assert look.nodes["cpu-1"].phase is Phase.ILL
    gone, memory = later(late, look, 2)
    decision = decide(gone, memory)
    assert (Remove, ("cpu-1",)) in kinds(decision)
    assert decision.memory.node_backoffs["cpu-1"].until > gone.at
    assert decision.memory.fleet_backoffs["cpu"].failures == 1
    assert "cpu-2" in {name for nodes in decision.desired.values() for name in nodes} or (
        Launch,
        ("cpu-2",),
    ) in kinds(look)


def test_a_fleet_whose_nodes_never_come_up_backs_off() -> None:
    memory = Memory(
        launches={"cpu-3": Launched(LONG_AGO, AT)},
        ill_since={"cpu-3": AT - seconds(5)},
        fleet_backoffs={"cpu": Backoff("boot", 2, AT, "cpu-2: it is not up in time")},
    )
    mute: dict[str, Any] = {
        "machines": (machine("cpu-3"),),
        "recorded": {"cpu-3": Recorded(machine=True)},
    }
    decision = decide(cluster_state(jobs=(job(1),), desired=desired("cpu-3"), **mute), memory)
    assert kinds(decision) == [(Remove, ("cpu-3",))]
    assert decision.memory.fleet_backoffs["cpu"].until == AT + seconds(30)
    assert decision.waiting[1].standing == "setback"


def test_a_launch_of_which_nothing_was_begun_is_asked_for_again() -> None:
    memory = Memory(launches={"cpu-1": Launched(LONG_AGO, AT)})
    decision = decide(cluster_state(jobs=(job(1),), desired=desired("cpu-1"), recorded={}), memory)
    assert kinds(decision) == [(Repair, ("cpu-1",))]
    assert decision.memory.launches["cpu-1"].deadline == AT + seconds(60)


def test_a_launch_that_waits_for_another_up_is_not_late() -> None:
    memory = Memory(launches={"cpu-1": Launched(LONG_AGO, AT - seconds(1))})
    seen = cluster_state(
        jobs=(job(1),), desired=desired("cpu-1"), recorded={}, under_way=frozenset({"cpu-7"})
    )
    decision = decide(seen, memory)
    assert decision.actions == ()
    assert decision.nodes["cpu-1"].phase is Phase.LAUNCHING


@pytest.mark.parametrize(
    "reason",
    [
        "Low RealMemory (reported:10 < 100.00% of configured:4000)",
        "gres/gpu count reported lower than configured (0 < 2)",
    ],
)
def test_a_node_that_registers_too_small_is_replaced(reason: str) -> None:
    small = node("cpu-1", "IDLE+DRAIN+INVALID_REG", reason, "slurm")
    decision = confirmed(cluster_state(small))
    assert kinds(decision) == [(Remove, ("cpu-1",))]
    assert decision.memory.fleet_backoffs["cpu"].failures == 1
    assert confirmed(cluster_state(small._replace(cpus_alloc=1))).actions == ()


def test_a_node_whose_machine_is_taken_back_goes_when_its_jobs_have_and_takes_no_others() -> None:
    spot = node("cpu-1", "IDLE+DRAIN", "spot: AWS takes it back at 2026-11-21T12:02:00Z")
    busy = decide(cluster_state(spot._replace(cpus_alloc=1), jobs=(job(1),)), Memory())
    assert kinds(busy) == [(Launch, ("cpu-2",))], (
        "it is not put back into service, and the job does not wait for it"
    )
    idle = confirmed(cluster_state(spot))
    assert kinds(idle) == [(Remove, ("cpu-1",))]
    assert "AWS takes it back at 2026-11-21T12:02:00Z" in idle.actions[0].reason
    # Who takes machines back has none to give: demand goes elsewhere first.
    assert idle.memory.fleet_backoffs["cpu"].cause == "capacity"


def test_a_machine_of_no_record_is_swept_after_a_grace() -> None:
    seen = cluster_state(machines=(machine("cpu-3"),), recorded={})
    first = decide(seen, Memory())
    assert first.actions == ()
    assert first.nodes["cpu-3"].phase is Phase.STRAY
    early, memory = later(seen, first, 119)
    assert decide(early, memory).actions == ()
    due, memory = later(seen, first, 120)
    assert kinds(decide(due, memory)) == [(DeleteOrphan, ("cpu-3",))]
    for hidden in (unseen(due, "recorded"), replace(due, under_way=frozenset({"cpu-8"}))):
        assert decide(hidden, memory).actions == ()


def test_a_machine_of_no_record_is_not_taken_for_a_free_slot() -> None:
    seen = cluster_state(machines=(machine("cpu-1"),), recorded={}, jobs=(job(1),))
    assert kinds(decide(seen, Memory())) == [(Launch, ("cpu-2",))]


def test_a_machine_of_no_record_that_serves_jobs_is_drained_first() -> None:
    """Back from the dead under an old name."""
    seen = cluster_state(node("cpu-3"), recorded={}, desired={})
    first = decide(seen, Memory())
    assert kinds(first) == [(Drain, ("cpu-3",))]
    reason = first.memory.drains["cpu-3"].reason
    drained, memory = later(seen, first, 130, nodes=cluster_state(node("cpu-3", "IDLE+DRAIN", reason)).nodes)
    second = decide(drained, memory)
    after, memory = later(drained, second, 130)
    assert kinds(decide(after, memory)) == [(DeleteOrphan, ("cpu-3",))]


def test_a_machine_back_from_the_dead_is_swept_and_the_recorded_one_stays() -> None:
    known = {"cpu-1": Recorded(machine=True, membership=True, machine_id="m-2")}
    seen = cluster_state(
        node("cpu-1"), machines=(machine("cpu-1"), machine("cpu-1", number=2)), recorded=known
    )
    memory = Memory(idle_since={"cpu-1": AT}, strays={machine("cpu-1").key: LONG_AGO})
    [delete_orphan] = decide(seen, memory).actions
    assert isinstance(delete_orphan, DeleteOrphan)
    assert delete_orphan.machine.machine_id == "m-1"


def test_a_node_that_is_gone_and_that_slurm_still_knows_becomes_a_slot() -> None:
    seen = replace(
        cluster_state(node("cpu-1", "DOWN", "Not responding", "slurm"), recorded={}, desired={}), machines=()
    )
    assert kinds(confirmed(seen)) == [(ReleaseSlot, ("cpu-1",))]


def test_what_is_recorded_and_not_wished_is_taken_away_when_it_runs_nothing() -> None:
    drained = node("cpu-1", "IDLE+DRAIN", OURS)
    assert kinds(confirmed(cluster_state(drained, desired={}))) == [(Repair, ("cpu-1",))]
    half = cluster_state(desired={}, recorded={"cpu-1": Recorded(machine=True)})
    assert kinds(confirmed(half)) == [(Repair, ("cpu-1",))]


def test_what_is_recorded_and_at_work_stays_whoever_made_it() -> None:
    seen = cluster_state(node("cpu-1"), node("cpu-2", "ALLOCATED"), desired={})
    decision = decide(seen, Memory(idle_since={"cpu-1": AT}))
    assert decision.actions == ()
    assert decision.desired == desired("cpu-1", "cpu-2")


def test_a_node_in_service_that_is_not_recorded_as_it_should_be_is_mended() -> None:
    for record in (Recorded(machine=True), Recorded(machine=True, membership=True, pending=True), Recorded()):
        assert kinds(confirmed(cluster_state(node("cpu-1", "ALLOCATED"), recorded={"cpu-1": record}))) == [
            (Repair, ("cpu-1",))
        ]


def test_an_answer_without_nodes_changes_nothing() -> None:
    seen = replace(cluster_state(node("cpu-1"), node("cpu-2"), jobs=(job(1),)), nodes=())
    decision = confirmed(seen, IDLE)
    assert decision.actions == ()
    assert decision.desired == seen.desired


# Time


def test_a_clock_that_goes_back_makes_nothing_wait_for_ever() -> None:
    ahead = AT + timedelta(days=1)
    memory = Memory(
        idle_since={"cpu-1": ahead},
        launches={"cpu-2": Launched(ahead, ahead + seconds(60))},
        fleet_backoffs={"cpu": Backoff("capacity", 9, ahead, "sold out")},
    )
    decision = decide(cluster_state(node("cpu-1"), desired=desired("cpu-1", "cpu-2")), memory)
    assert decision.memory.idle_since["cpu-1"] == AT
    assert decision.memory.launches["cpu-2"].deadline == AT + seconds(60)
    assert decision.memory.fleet_backoffs["cpu"].until <= AT + timedelta(hours=6)


def test_what_the_month_has_cost_goes_on() -> None:
    priced = spec(fleet(infrastructures=[{"name": "local", "price_usd_per_hour": 2}]))
    seen = cluster_state(node("cpu-1"), node("cpu-2"), of=priced)
    first = decide(seen, Memory())
    assert first.cost.usd_per_hour == 4
    hour = decide(*later(seen, first, 3600))
    assert hour.cost.month_usd == pytest.approx(4)


def test_what_is_too_many_and_has_a_job_that_waits_for_its_boot_stays() -> None:
    coming = node("cpu-2", "MIXED+CLOUD+POWERING_UP")
    seen = cluster_state(coming, of=spec(fleet(max_nodes=1)), recorded={"cpu-2": Recorded(machine=True)})
    assert decide(seen, Memory()).actions == ()
    idle = replace(seen, nodes=(node("cpu-2", "IDLE+CLOUD+POWERING_UP"), *seen.nodes[1:]))
    assert kinds(decide(idle, Memory())) == [(Remove, ("cpu-2",))]


# Mode power_save


def saving(**changes: Any) -> ClusterState:
    """A world in which Slurm asks for nodes; those that are not there are powered down."""
    of = spec(scaling={"mode": "power_save"}, **changes.pop("of", {}))
    states: dict[str, str] = changes.pop("states", {})
    nodes = [node(f"cpu-{n}", states.get(f"cpu-{n}", "IDLE+CLOUD+POWERED_DOWN")) for n in range(1, 9)]
    return replace(cluster_state(of=of), nodes=tuple(nodes), **changes)


def test_slurm_asks_and_jobs_do_not() -> None:
    decision = decide(saving(jobs=(job(1),)), Memory())
    assert decision.actions == ()
    assert "power saving" in decision.waiting[1].reason


def test_what_slurm_powers_up_is_made() -> None:
    asked = decide(saving(power_up=frozenset({"cpu-1"})), Memory())
    assert kinds(asked) == [(Launch, ("cpu-1",))]
    flagged = saving(states={"cpu-2": "MIXED+CLOUD+POWERING_UP"})
    assert kinds(decide(flagged, Memory())) == [(Launch, ("cpu-2",))]


def test_what_slurm_powers_up_and_no_record_knows_joins_with_a_repair() -> None:
    """Its machine is made its node's, in the decision that desires it."""
    coming = saving(states={"cpu-1": "MIXED+CLOUD+POWERING_UP"}, machines=(machine("cpu-1"),))
    decision = decide(coming, Memory())
    assert kinds(decision) == [(Repair, ("cpu-1",))]
    assert decision.desired == desired("cpu-1")


@pytest.mark.parametrize("state", ["IDLE+CLOUD", "DOWN+CLOUD", "IDLE+CLOUD+DRAIN", "IDLE+CLOUD+POWERED_DOWN"])
def test_what_slurm_has_just_asked_for_and_no_record_knows_is_looked_at_again(state: str) -> None:
    seen = saving(states={"cpu-1": state}, machines=(machine("cpu-1"),), power_up=frozenset({"cpu-1"}))
    decision = decide(seen, Memory())
    assert decision.actions == ()
    assert not any(decision.desired.values())


def test_limits_hold_for_slurm_too() -> None:
    decision = decide(
        saving(power_up=frozenset({"cpu-1", "cpu-2"}), of={"limits": {"max_nodes": 1}}), Memory()
    )
    assert kinds(decision) == [(PowerFailed, ("cpu-2",)), (Launch, ("cpu-1",))]
    assert "limits.max_nodes" in decision.actions[0].reason


def test_what_slurm_powers_down_goes() -> None:
    there = {
        "machines": (machine("cpu-1"),),
        "recorded": {"cpu-1": BOTH},
        "desired": desired("cpu-1"),
        "power_down": frozenset({"cpu-1"}),
    }
    assert kinds(confirmed(saving(states={"cpu-1": "IDLE+CLOUD+POWERING_DOWN"}, **there))) == [
        (Remove, ("cpu-1",))
    ]
    # Slurm does not show it yet. A drain would stay with the slot when it does.
    assert decide(saving(states={"cpu-1": "IDLE+CLOUD"}, **there), Memory()).actions == ()


def test_what_slurm_powers_down_before_it_was_seen_up_goes_and_has_not_failed() -> None:
    """Its job was cancelled while its `up` was under way."""
    seen = saving(
        states={"cpu-1": "IDLE+CLOUD+POWERED_DOWN"},
        machines=(machine("cpu-1"),),
        recorded={"cpu-1": BOTH},
        desired=desired("cpu-1"),
        power_down=frozenset({"cpu-1"}),
    )
    first = decide(seen, Memory(launches={"cpu-1": Launched(AT, AT + timedelta(seconds=60))}))
    gone = decide(*later(seen, first, 2))
    assert kinds(gone) == [(Remove, ("cpu-1",))]
    assert gone.memory.node_backoffs == {}


@pytest.mark.parametrize(("reason", "is_ours"), [("ResumeTimeout reached", True), ("a bad fan", False)])
def test_what_slurm_gave_up_while_no_daemon_ran_can_be_asked_for_again(reason: str, is_ours: bool) -> None:
    seen = saving()
    given_up = node("cpu-1", "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", reason)
    first = decide(replace(seen, nodes=(given_up, *seen.nodes[1:])), Memory())
    assert kinds(first) == ([(PowerFailed, ("cpu-1",))] if is_ours else [])
    assert decide(*later(seen, first, 1)).actions == ()


def test_an_idle_node_is_slurms_to_power_down() -> None:
    there = {"machines": (machine("cpu-1"),), "recorded": {"cpu-1": BOTH}, "desired": desired("cpu-1")}
    assert decide(saving(states={"cpu-1": "IDLE+CLOUD"}, **there), IDLE).actions == ()


def test_slurm_is_told_of_a_node_that_does_not_come() -> None:
    seen = saving(
        states={"cpu-1": "MIXED+CLOUD+POWERING_UP"},
        machines=(machine("cpu-1"),),
        recorded={"cpu-1": Recorded(machine=True)},
        desired=desired("cpu-1"),
        jobs=(running(1, "cpu-1", state=JobState.CONFIGURING),),
    )
    memory = Memory(launches={"cpu-1": Launched(LONG_AGO, AT)})
    first = decide(seen, memory)
    assert kinds(first) == [(PowerFailed, ("cpu-1",))]
    assert decide(*later(seen, first, 1)).actions == ()


# All together


def test_from_zero_to_zero() -> None:
    """A job comes, a node is made, the job runs and ends, the node goes."""
    seen = cluster_state(jobs=(job(1),))
    decision = decide(seen, Memory())
    there = {"machines": (machine("cpu-1"),), "recorded": {"cpu-1": BOTH}}
    steps: list[tuple[float, dict[str, Any], list[type[Action]]]] = [
        (1, {"under_way": frozenset({"cpu-1"})}, []),
        (2, {**there, "under_way": frozenset(), "nodes": cluster_state(node("cpu-1")).nodes}, []),
        (1, {"nodes": cluster_state(node("cpu-1", "MIXED")).nodes, "jobs": (running(1, "cpu-1"),)}, []),
        (60, {"nodes": cluster_state(node("cpu-1")).nodes, "jobs": ()}, []),
        (299, {}, []),
        (1, {}, [Drain]),
        (1, {"nodes": cluster_state(node("cpu-1", "IDLE+DRAIN", OURS)).nodes}, [Remove]),
        (1, {"under_way": frozenset({"cpu-1"})}, []),
        (1, {**dict.fromkeys(("machines",), ()), "recorded": {}, "under_way": frozenset()}, []),
    ]
    for by_s, changes, expected in steps:
        seen, memory = later(seen, decision, by_s, **changes)
        if seen.machines == ():
            seen = replace(seen, nodes=cluster_state().nodes)
        decision = decide(seen, memory)
        assert [type(each) for each in decision.actions] == expected
    assert decision.desired == {"cpu": HostSet()}
    assert decision.nodes == {}
    assert decision.memory == replace(Memory(), spent=decision.memory.spent)

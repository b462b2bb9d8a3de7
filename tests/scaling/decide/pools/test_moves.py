"""Who moves and who stays, and what is said of it: cases by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scaling.decide.cluster_states import AT, job, machine, node, reservation, running, seconds
from tests.scaling.decide.pools.looks import (
    MIB,
    bound,
    conversion,
    kube_node,
    look,
    pod,
    pool,
    pools_spec,
)
from tidepool.clients.kubernetes.objects import Requirement, Resources, Taint, Toleration
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.infrastructures import Machine
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import moved, unmoved
from tidepool.scaling.decision import Convert, Decision
from tidepool.scaling.memory import Backoff, Memory, PoolMemory
from tidepool.scaling.ports import Failure, UpOutcome

ALL = ("shared-1", "shared-2", "shared-3", "shared-4")
LONG_IDLE = Memory(pools=PoolMemory(idle_since=dict.fromkeys(ALL, AT - seconds(100))))


def roles(kubernetes: int = 0) -> dict[str, Role]:
    """Of the four, so many at the end serve Kubernetes."""
    return {name: "kubernetes" if index >= 4 - kubernetes else "slurm" for index, name in enumerate(ALL)}


def moves(decision: Decision) -> dict[str, Role]:
    return {n: each.to for each in decision.actions if isinstance(each, Convert) for n in each.nodes}


def the_move(decision: Decision) -> Convert:
    (action,) = decision.actions
    assert isinstance(action, Convert)
    return action


def decided(seen: ClusterState, memory: Memory = LONG_IDLE) -> Decision:
    return decide(seen, memory)


# Pods


def test_an_idle_machine_moves_for_a_pod_that_finds_no_node() -> None:
    decision = decided(look(roles(), pods=(pod("web"),)))
    convert = the_move(decision)
    assert convert == Convert(
        "shared", ("shared-1",), "kubernetes", "pod default/web needs it", pods=("default/web",)
    )
    told = decision.waiting_pods["default/web"]
    assert (told.standing, told.nodes) == ("coming", ("shared-1",))
    assert told.reason == "shared-1 moves to Kubernetes for it"
    assert decision.machines["shared-1"].standing == "moving"
    assert decision.machines["shared-1"].reason == "it moves now: pod default/web needs it"
    assert "no demand on the other side" in decision.machines["shared-2"].reason


def test_pods_share_machines_and_no_more_move_than_are_needed() -> None:
    pods = tuple(pod(f"p{number}", requests=Resources(1000, 100 * MIB)) for number in range(6))
    assert len(moves(decided(look(roles(), pods=pods)))) == 2


def test_no_machine_moves_for_what_those_that_are_there_or_coming_will_serve() -> None:
    pods = (pod("one", requests=Resources(3000, 0)), pod("two", requests=Resources(3000, 0)))
    seen = look(
        roles(1),
        pods=pods,
        conversions=(conversion("shared-3", "kubernetes", "joining", driver_until=AT + seconds(9)),),
    )
    decision = decided(seen)
    assert not moves(decision)
    told = {each.reason for each in decision.waiting_pods.values()}
    assert told == {
        "there is room on shared-4, and Kubernetes starts it",
        "shared-3 is on its way to Kubernetes",
    }


def test_a_pod_that_the_scheduler_has_not_looked_at_moves_nothing() -> None:
    decision = decided(look(roles(), pods=(pod("new", unschedulable=""),)))
    assert not moves(decision)
    assert decision.waiting_pods["default/new"].reason == "the scheduler has not looked at it yet"


def test_a_pod_that_no_machine_could_run_is_told_why() -> None:
    of = pools_spec(pool(labels={"disk": "ssd"}), pool("more", 2, shape={"cpus": 2, "memory": 1000}))
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "large": ({"requests": Resources(9000, 0)}, "it asks for 9 CPUs, and they have 4"),
        "fat": ({"requests": Resources(0, 5000 * MIB)}, "it asks for 5000 MiB of memory, and they have 4000"),
        "gpu": (
            {"requests": Resources(0, 0, FrozenDict({"nvidia.com/gpu": 1}))},
            "it asks for 1 nvidia.com/gpu, and they have none",
        ),
        "label": ({"node_selector": FrozenDict({"disk": "hdd"})}, "it asks for nodes with disk=hdd"),
        "affinity": (
            {"affinity": ((Requirement("zone", "In", ("a",)),),)},
            "its node affinity asks for others",
        ),
    }
    pods = tuple(pod(name, **changes) for name, (changes, _) in cases.items())
    decision = decided(look(roles(), of=of, pods=pods))
    assert not moves(decision)
    for name, (_, reason) in cases.items():
        told = decision.waiting_pods[f"default/{name}"]
        assert told.standing == "never"
        assert reason in told.reason


def test_labels_gres_and_taints_lead_pods_to_their_pool() -> None:
    of = pools_spec(
        pool(),
        pool(
            "more",
            2,
            labels={"disk": "ssd"},
            shape={
                "cpus": 4,
                "memory": 4000,
                "gres": [{"name": "gpu", "count": 2, "files": "/dev/nvidia[0-1]"}],
            },
        ),
    )
    pods = (
        pod("gpu", requests=Resources(100, 0, FrozenDict({"nvidia.com/gpu": 2}))),
        pod(
            "ssd",
            node_selector=FrozenDict({"disk": "ssd", "kubernetes.io/arch": "amd64"}),
            requests=Resources(4000, 0),
        ),
        pod("plain", requests=Resources(4000, 0)),
    )
    seen = look({**roles(), "more-1": "slurm", "more-2": "slurm"}, of=of, pods=pods)
    memory = Memory(pools=PoolMemory(idle_since=dict.fromkeys([*ALL, "more-1", "more-2"], AT - seconds(99))))
    told = {key: each.nodes[0].rpartition("-")[0] for key, each in decided(seen, memory).waiting_pods.items()}
    assert told == {"default/gpu": "more", "default/ssd": "more", "default/plain": "shared"}


def test_a_taint_that_somebody_set_is_respected() -> None:
    taint = Taint("team", "NoSchedule", "red")
    busy = bound("web", "shared-4", requests=Resources(4000, 0))
    seen = look(roles(1), pods=(busy, pod("any"), pod("red", tolerations=(Toleration("team", "Exists"),))),
                kube_nodes={"shared-4": kube_node("shared-4", taints=(taint,))})  # fmt: skip
    decision = decided(seen)
    # The next machine of the pool is taken to be as those that are there.
    assert decision.waiting_pods["default/any"].reason == (
        "nodes of shared: it does not tolerate their taint team=red:NoSchedule"
    )
    assert decision.waiting_pods["default/red"].standing == "coming"


def test_a_pod_for_which_there_seems_to_be_room_gets_a_machine_of_its_own_and_is_given_up_in_the_end() -> (
    None
):
    seen = look(roles(1), pods=(bound("web", "shared-4"), pod("apart")))
    first = decided(seen)
    assert first.waiting_pods["default/apart"].standing == "room"
    assert first.memory.pools.has_room_since == {"uid-apart": AT}

    def after(waited_s: float) -> Decision:
        since = {"uid-apart": AT - seconds(waited_s)}
        return decided(seen, replace(LONG_IDLE, pools=replace(LONG_IDLE.pools, has_room_since=since)))

    assert not moves(after(9))
    assert moves(after(11)) == {"shared-1": "kubernetes"}
    given_up = after(301)
    assert not moves(given_up)
    assert given_up.waiting_pods["default/apart"].standing == "held"
    assert "the scheduler does not use it" in given_up.waiting_pods["default/apart"].reason
    assert given_up.memory.pools.has_room_since
    assert not moves(after(3700))


# Jobs


def test_an_idle_machine_comes_to_slurm_for_a_job() -> None:
    decision = decided(
        look(roles(2), jobs=(running(9, "shared-1", cpus=4), running(8, "shared-2", cpus=4), job(1, cpus=4)))
    )
    convert = the_move(decision)
    assert convert == Convert("shared", ("shared-3",), "slurm", "job 1 needs it", jobs=(1,))
    assert decision.waiting[1].reason == "machines of pools come to Slurm for it"
    assert not decision.desired


def test_a_job_of_several_nodes_gets_all_of_them_or_none() -> None:
    busy = (running(9, "shared-1", cpus=4), running(8, "shared-2", cpus=4))
    wide = job(1, nodes=2, cpus=8, tasks=2, cpus_per_task=4)
    assert moves(decided(look(roles(2), jobs=(*busy, wide)))) == {"shared-3": "slurm", "shared-4": "slurm"}
    decision = decided(look(roles(2), jobs=(*busy, wide), pods=(bound("web", "shared-4"),)))
    assert not moves(decision)
    assert decision.waiting[1].standing == "limit"
    assert decision.waiting[1].reason == "no more machines of pool shared move to slurm: shared-4 busy"


def test_fleets_come_before_pools_unless_a_person_says_otherwise() -> None:
    fleet = {"name": "cpu", "subnet": "10.77.11.0/24", "max_nodes": 2, "shape": {"cpus": 4, "memory": 4000}}

    def launched(**partition: object) -> set[str]:
        of = pools_spec(fleets=[fleet], partitions=[{"name": "main", "default": True, **partition}])
        seen = look(roles(4), of=of, jobs=(job(1, cpus=4),))
        return {name for action in decided(seen).actions for name in getattr(action, "nodes", ())}

    assert launched() == {"cpu-1"}
    assert launched(fleets=["shared", "cpu"]) == {"shared-1"}


# Who stays


def stays(seen: ClusterState, memory: Memory = LONG_IDLE, name: str = "shared-1") -> str:
    decision = decide(seen, memory)
    assert name not in moves(decision)
    (told,) = decision.waiting_pods.values()
    assert told.standing in ("limit", "setback")
    return told.reason


ONE = pools_spec(pool(machines=1, idle_s=10))


def test_a_machine_that_has_just_moved_stays() -> None:
    done = conversion("shared-1", "slurm", "done", 20, by="scaler")
    seen = look({"shared-1": "slurm"}, of=ONE, pods=(pod("web"),), conversions=(done,))
    assert stays(seen).endswith("shared-1 stays until 12:00:40 UTC: minimum_stay_s is 60")
    by_person = conversion("shared-1", "slurm", "done", 100, by="person")
    assert stays(replace(seen, pools=replace(seen.pools, conversions=(by_person,)))).endswith(
        "shared-1 stays until 12:08:20 UTC: a person moved it"
    )
    kept = conversion("shared-1", "kubernetes", "stopped", 100, cancel_by="ada")
    assert stays(replace(seen, pools=replace(seen.pools, conversions=(kept,)))).endswith(
        "shared-1 stays until 12:08:20 UTC: ada cancelled its move"
    )
    # A person moved it, and tried to move it back, which a deadline ended.
    late = conversion("shared-1", "kubernetes", "stopped", 30, id=by_person.id + 1)
    assert stays(replace(seen, pools=replace(seen.pools, conversions=(late, by_person)))).endswith(
        "shared-1 stays until 12:08:20 UTC: a person moved it"
    )
    long_ago = conversion("shared-1", "slurm", "done", 61)
    assert moves(decided(replace(seen, pools=replace(seen.pools, conversions=(long_ago,)))))


def test_a_machine_that_was_just_busy_stays() -> None:
    seen = look({"shared-1": "slurm"}, of=ONE, pods=(pod("web"),))
    just = Memory(pools=PoolMemory(idle_since={"shared-1": AT - seconds(4)}))
    assert stays(seen, just).endswith("shared-1 idle for 4 of 10 s")
    recent = node("shared-1", "IDLE", last_busy_time=AT - seconds(3))
    assert stays(
        look({"shared-1": "slurm"}, of=ONE, pods=(pod("web"),), nodes={"shared-1": recent})
    ).endswith("shared-1 idle for 3 of 10 s")


def test_a_machine_whose_pod_has_just_ended_was_just_busy() -> None:
    """However long ago it came: its end is not said by Kubernetes, as Slurm says when a node was busy last."""
    came = conversion("shared-1", "kubernetes", "done", 600)
    serves: dict[str, Role] = {"shared-1": "kubernetes"}
    seen = look(serves, of=ONE, jobs=(job(1),), conversions=(came,))
    runs = bound("web", "shared-1", requests=Resources(4000, 0))
    busy = look(serves, of=ONE, jobs=(job(1),), conversions=(came,), pods=(runs,))
    memory = decide(busy, Memory()).memory
    assert memory.pools.idle_since == {}
    ended = decide(seen, memory)
    assert not moves(ended)
    assert ended.waiting[1].reason.endswith("shared-1 idle for 0 of 10 s")
    assert moves(decide(replace(seen, at=AT + seconds(10)), ended.memory)) == {"shared-1": "slurm"}


def test_what_a_person_holds_stays() -> None:
    drained = node("shared-1", "IDLE+DRAIN", reason="broken fan", user="ada")
    seen = look({"shared-1": "slurm"}, of=ONE, pods=(pod("web"),), nodes={"shared-1": drained})
    assert stays(seen).endswith("shared-1 held (drained by ada: broken fan)")
    reserved = look({"shared-1": "slurm"}, of=ONE, pods=(pod("web"),))
    reserved = replace(reserved, reservations=(reservation("course", "shared-1", -10),))
    assert stays(reserved).endswith("shared-1 held (reserved: course)")
    cordoned = look(
        {"shared-1": "kubernetes"}, of=ONE, jobs=(job(1),),
        kube_nodes={"shared-1": kube_node("shared-1", unschedulable=True)},
    )  # fmt: skip
    decision = decided(cordoned)
    assert not moves(decision)
    assert decision.waiting[1].reason.endswith("shared-1 held (its node is cordoned)")


def test_a_machine_whose_conversion_failed_is_left_alone_for_a_while() -> None:
    seen = look({"shared-1": "slurm"}, of=ONE, pods=(pod("web"),))
    memory = moved(LONG_IDLE, ["shared-1"], UpOutcome(failed={"shared-1": Failure("transient", "no")}), AT)
    assert stays(seen, memory).endswith(
        "shared-1 left alone until 12:00:05 UTC, for its conversion failed: no"
    )
    assert decide(seen, memory).waiting_pods["default/web"].standing == "setback"
    assert not moved(memory, ["shared-1"], UpOutcome(made=frozenset({"shared-1"})), AT).pools.backoffs


def test_minimums_and_maximums_hold_machines_and_say_so() -> None:
    of = pools_spec(pool(slurm_min=3))
    assert stays(look(roles(1), of=of, pods=(bound("on", "shared-4", requests=Resources(4000, 0)), pod("web")))
                 ).startswith("no more machines of pool shared move to kubernetes: slurm_min is 3")  # fmt: skip
    of = pools_spec(pool(kubernetes_max=1))
    seen = look(roles(1), of=of, pods=(bound("on", "shared-4", requests=Resources(4000, 0)), pod("web")))
    assert "kubernetes_max is 1" in stays(seen)
    assert decided(seen).machines["shared-1"].reason == "idle for 100 s; it stays: kubernetes_max is 1"


def test_a_minimum_is_made_up_for_without_demand() -> None:
    decision = decided(look(roles(), of=pools_spec(pool(kubernetes_min=2))))
    convert = the_move(decision)
    assert convert == Convert("shared", ("shared-1", "shared-2"), "kubernetes", "kubernetes_min is 2")


# Both at once


def test_who_a_pool_prefers_has_the_machine_that_both_want() -> None:
    def both(prefers: Role) -> Decision:
        of = pools_spec(pool(machines=1, prefers=prefers))
        return decided(look({"shared-1": "slurm"}, of=of, jobs=(job(1),), pods=(pod("web"),)))

    kept, gone = both("slurm"), both("kubernetes")
    assert not moves(kept)
    assert kept.machines["shared-1"].standing == "needed"
    assert kept.waiting_pods["default/web"].reason.endswith("shared-1 needed there")
    assert moves(gone) == {"shared-1": "kubernetes"}
    assert gone.waiting[1].reason == "machines of pool shared are just going to Kubernetes"


# What cannot be seen, and what was cut off


def test_without_kubernetes_nothing_moves_and_jobs_use_what_is_there() -> None:
    seen = look(
        roles(1), jobs=(running(9, "shared-1", cpus=4), job(1), job(2, cpus=4, nodes=4)), pods=(pod("web"),)
    )
    blind = replace(seen, pools=replace(seen.pools, kubernetes=None, unseen="connection refused"))
    decision = decided(blind)
    assert not decision.actions
    assert not decision.waiting_pods
    assert decision.waiting[1].standing == "room"
    assert decision.waiting[2].reason == "connection refused, so no machine of pool shared moves"
    assert decision.machines["shared-1"].reason == "it runs the jobs 9; connection refused"
    assert decision.machines["shared-4"].standing == "unknown"


def test_a_machine_in_two_roles_is_told_and_left_alone() -> None:
    decision = decided(look(roles(), pods=(pod("web"),), kube_nodes={"shared-1": kube_node("shared-1")}))
    assert moves(decision) == {"shared-2": "kubernetes"}
    view = decision.machines["shared-1"]
    assert (view.standing, view.reason) == ("ill", "it serves Slurm, and Kubernetes has it as a node as well")


def test_a_conversion_that_nobody_drives_is_gone_on_with() -> None:
    lost = conversion("shared-1", "kubernetes", "joining", driver_until=AT - seconds(1), by="person")
    seen = look(roles(), conversions=(lost,))
    first = decided(seen)
    assert not moves(first)
    assert first.memory.pools.abandoned == {"shared-1": AT}
    later = replace(seen, at=AT + seconds(31))
    convert = the_move(decide(later, first.memory))
    assert convert.repairs
    assert convert.to == "kubernetes"
    assert convert.reason.startswith("it is gone on with: person has it converted to kubernetes")


def test_one_that_waits_for_jobs_is_left_to_wait_until_its_deadline() -> None:
    waits = conversion("shared-1", "kubernetes", "emptying", by="person", deadline_s=120)
    seen = look(roles(), jobs=(running(9, "shared-1", cpus=4),), conversions=(waits,))
    memory = Memory(pools=PoolMemory(abandoned={"shared-1": AT - seconds(60)}))
    assert not moves(decide(seen, memory))
    assert moves(decide(replace(seen, at=AT + seconds(61)), memory)) == {"shared-1": "kubernetes"}


@pytest.mark.parametrize(
    ("role", "forgotten"),
    [
        ("slurm", {"nodes": {"shared-1": node("shared-1", "FUTURE")}}),
        ("slurm", {"nodes": {"shared-1": node("shared-1", "IDLE+DRAIN", "tidepool: moves to kubernetes")}}),
        ("kubernetes", {"kube_nodes": {"shared-1": None}}),
        ("kubernetes", {"nodes": {"shared-1": node("shared-1", "IDLE")}}),
        ("slurm", {"kube_nodes": {"shared-1": kube_node("shared-1")}}),
        (
            "kubernetes",
            {"kube_nodes": {"shared-1": kube_node("shared-1", unschedulable=True, reason="tidepool: moves")}},
        ),
    ],
)
def test_what_a_side_has_forgotten_is_mended_by_its_role_once_more(
    role: Role, forgotten: dict[str, Any]
) -> None:
    seen = look({"shared-1": role}, of=pools_spec(pool(machines=1)), **forgotten)
    first = decided(seen)
    assert not moves(first)
    assert first.machines["shared-1"].standing == "ill"
    convert = the_move(decide(replace(seen, at=AT + seconds(31)), first.memory))
    assert (convert.to, convert.repairs) == (role, True)
    assert convert.reason.startswith("it is gone on with: it")


def volatile(state: str) -> tuple[Machine, ...]:
    """A machine whose root is in memory."""
    return (replace(machine("shared-1", state), is_volatile=True),)


NOT_READY = {"shared-1": kube_node("shared-1", ready=False)}


@pytest.mark.parametrize(
    ("role", "state", "seen_as", "why"),
    [
        ("slurm", "stopped", {}, "it is off, with nothing on it"),
        ("slurm", "stopped", {"nodes": {"shared-1": node("shared-1", "DOWN")}}, "it is off"),
        ("slurm", "stopped", {"nodes": {"shared-1": node("shared-1", "ALLOCATED")}}, "it is off"),
        ("kubernetes", "stopped", {}, "it is off, with nothing on it"),
        ("kubernetes", "stopped", {"kube_nodes": NOT_READY}, "it is off"),
        # It was off, and is on again as nobody's.
        ("slurm", "running", {"nodes": {"shared-1": node("shared-1", "DOWN")}}, "which has given it up"),
        ("kubernetes", "running", {"kube_nodes": NOT_READY}, "which has given it up"),
    ],
)
def test_a_machine_whose_root_is_in_memory_is_given_the_role_that_went_with_its_power(
    role: Role, state: str, seen_as: dict[str, Any], why: str
) -> None:
    of = pools_spec(pool(machines=1))
    seen = look({"shared-1": role}, of=of, machines=volatile(state), **seen_as)
    first = decided(seen)
    assert not moves(first)
    assert first.machines["shared-1"].standing == "ill"
    convert = the_move(decide(replace(seen, at=AT + seconds(31)), first.memory))
    assert (convert.to, convert.repairs) == (role, True)
    assert why in convert.reason
    # One that keeps its disk comes with its role, and is not ours to switch on.
    kept = replace(seen, machines=(machine("shared-1", state),), at=AT + seconds(31))
    assert not moves(decide(kept, first.memory))


@pytest.mark.parametrize(
    ("role", "state", "seen_as"),
    [
        ("slurm", "stopped", {"nodes": {"shared-1": node("shared-1", "IDLE+DRAIN", "broken fan")}}),
        ("kubernetes", "stopped", {"kube_nodes": {"shared-1": kube_node("shared-1", unschedulable=True)}}),
        # Of one that Slurm waits for still, or whose host does not answer, nothing is known.
        ("slurm", "running", {"nodes": {"shared-1": node("shared-1", "IDLE+NOT_RESPONDING")}}),
        ("slurm", "unknown", {"nodes": {"shared-1": node("shared-1", "DOWN")}}),
        ("kubernetes", "unknown", {"kube_nodes": NOT_READY}),
        ("slurm", "running", {}),
        ("kubernetes", "running", {}),
    ],
)
def test_one_that_a_person_holds_or_of_which_that_is_not_known_is_left_alone(
    role: Role, state: str, seen_as: dict[str, Any]
) -> None:
    of = pools_spec(pool(machines=1))
    seen = look({"shared-1": role}, of=of, machines=volatile(state), **seen_as)
    first = decided(seen)
    assert not moves(decide(replace(seen, at=AT + seconds(60)), first.memory))


@pytest.mark.parametrize(
    ("role", "held"),
    [
        ("kubernetes", {"nodes": {"shared-1": node("shared-1", "IDLE+DRAIN", "broken fan")}}),
        ("slurm", {"kube_nodes": {"shared-1": kube_node("shared-1", unschedulable=True)}}),
        ("slurm", {"nodes": {"shared-1": node("shared-1", "IDLE+DRAIN", "tidepool: I said so")}}),
        # Of another cluster.
        ("slurm", {"kube_nodes": {"shared-1": kube_node("shared-1", labels=FrozenDict())}}),
    ],
)
def test_what_is_somebodys_is_left_to_that_person(role: Role, held: dict[str, Any]) -> None:
    seen = look({"shared-1": role}, of=pools_spec(pool(machines=1)), **held)
    first = decided(seen)
    assert first.machines["shared-1"].standing == "ill"
    assert not moves(decide(replace(seen, at=AT + seconds(60)), first.memory))


def test_a_failed_conversion_is_tried_again() -> None:
    failed = conversion("shared-1", "kubernetes", "failed", 40, text="kubelet did not register")
    seen = look(roles(), conversions=(failed,))
    memory = Memory(pools=PoolMemory(abandoned={"shared-1": AT - seconds(31)}))
    convert = the_move(decide(seen, memory))
    assert (
        convert.reason == "it is gone on with: its conversion to kubernetes failed: kubelet did not register"
    )
    back_off = replace(
        memory, pools=replace(memory.pools, backoffs={"shared-1": Backoff("boot", 1, AT + seconds(9), "no")})
    )
    assert not decide(seen, back_off).actions


def test_what_is_moving_moves_once_and_after_a_while_again() -> None:
    seen = look(roles(), pods=(pod("web"),))
    first = decided(seen)
    assert moves(first) == {"shared-1": "kubernetes"}
    later = replace(seen, at=AT + seconds(59))
    assert not moves(decide(later, first.memory))
    assert moves(decide(replace(seen, at=AT + seconds(61)), first.memory))
    assert moves(decide(later, unmoved(first.memory, ["shared-1"])))


@pytest.mark.parametrize("before", [True, False])
def test_a_machine_that_has_come_since_kubernetes_was_looked_at_is_on_its_way(before: bool) -> None:
    """Pods wait there that have room on it by now, and no other machine moves for them."""
    done = conversion("shared-4", "kubernetes", "done", ended_s_ago=1)
    seen = look(roles(1), pods=(pod("web"),), conversions=(done,), kube_nodes={"shared-4": None})
    at = AT - seconds(1.5 if before else 0.5)
    decision = decided(replace(seen, pools=replace(seen.pools, kubernetes_at=at)))
    assert moves(decision) == ({} if before else {"shared-1": "kubernetes"})
    assert decision.machines["shared-4"].standing == ("moving" if before else "ill")


def test_a_machine_that_kubernetes_had_a_moment_ago_is_on_its_way_to_slurm() -> None:
    done = conversion("shared-4", "slurm", "done", ended_s_ago=1)
    seen = look(roles(), conversions=(done,), kube_nodes={"shared-4": kube_node("shared-4")})
    at = AT - seconds(1.5)
    decision = decided(replace(seen, pools=replace(seen.pools, kubernetes_at=at)))
    assert decision.machines["shared-4"].standing == "moving"


def test_a_new_pod_takes_no_machine_that_is_on_its_way_for_another() -> None:
    """Else that one would be given a second machine, before the scheduler has said whether the new pod needs any."""
    whole = Resources(4000, 100 * MIB)
    pods = (pod("web", requests=whole), pod("new", requests=whole, priority=1, unschedulable=""))
    seen = look(roles(), pods=pods)
    first = decided(seen)
    assert moves(first) == {"shared-1": "kubernetes"}
    second = decide(seen, first.memory)
    assert not moves(second)
    assert second.waiting_pods["default/web"].nodes == ("shared-1",)
    assert second.waiting_pods["default/new"].reason == "the scheduler has not looked at it yet"


# Fleets and pools apart


def test_machines_of_pools_are_no_strays_and_what_is_left_of_one_is() -> None:
    seen = look(roles(1))
    grown = replace(
        seen, machines=(*(seen.machines or ()), machine("shared-9"), machine("shared-4", "stopped"))
    )
    first = decided(grown)
    assert [key.node for key in first.memory.strays] == ["shared-9"]
    later = replace(grown, at=AT + seconds(121))
    (delete_orphan,) = decide(later, first.memory).actions
    assert delete_orphan.machine.node == "shared-9"  # type: ignore[union-attr]
    blind = replace(grown, pools=replace(grown.pools, kubernetes=None))
    assert not decided(blind).memory.strays


def test_a_machine_that_a_limit_takes_away_is_promised_to_no_job() -> None:
    of = pools_spec(pool(machines=3, kubernetes_min=2))
    have: dict[str, Role] = {"shared-1": "slurm", "shared-2": "slurm", "shared-3": "kubernetes"}
    seen = look(have, of=of, jobs=(job(1, nodes=2, cpus=8),))
    decision = decide(seen, Memory())
    (convert,) = decision.actions
    assert isinstance(convert, Convert)
    assert (convert.to, convert.reason) == ("kubernetes", "kubernetes_min is 2")
    assert decision.waiting[1].standing != "room"
    assert decide(seen, decision.memory).actions == ()

"""What holds of growing, whatever waits and whatever is there."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tests.scaling.decide.cluster_states import AT, fleet, job, node, running, seconds, spec
from tests.scaling.decide.queues import (
    CLUSTER,
    Enough,
    Look,
    check_all_told,
    check_fits,
    launched,
    looks,
    queues,
    share,
)
from tidepool.clients.slurm import Job
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.demand.fit import empty, offers
from tidepool.scaling.decide.grow import GIVEN_UP_AFTER, Growth, grow
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Backoff, Launch, Memory

ROOMY = spec(fleet("large", 1, max_nodes=200, shape={"cpus": 16, "memory": 32_000}))
_RUNS = runs(80)


def grown(look: Look, allowance: Enough | None = None, horizon_s: int | None = None) -> Growth:
    return grow(look.cluster_state, look.memory, look.phases, allowance or Enough(), horizon_s=horizon_s)


@given(looks())
@_RUNS
def test_jobs_fit_where_they_are_put_and_all_are_told_of(look: Look) -> None:
    growth = grown(look)
    check_all_told(look, growth)
    check_fits(look, growth)


@given(looks(), st.integers(0, 6))
@_RUNS
def test_never_more_than_is_allowed(look: Look, most: int) -> None:
    growth = grown(look, Enough(most))
    check_all_told(look, growth)
    check_fits(look, growth)
    assert sum(launched(growth).values()) <= most


@given(looks(), st.randoms(use_true_random=False), st.integers(0, 20), st.sampled_from([None, 7200]))
@_RUNS
def test_the_order_of_what_is_seen_does_not_matter(
    look: Look, chance: random.Random, most: int, horizon_s: int | None
) -> None:
    cluster_state = look.cluster_state
    other = replace(
        look,
        cluster_state=replace(
            cluster_state,
            nodes=tuple(chance.sample(cluster_state.nodes, len(cluster_state.nodes))),
            jobs=tuple(chance.sample(cluster_state.jobs, len(cluster_state.jobs))),
        ),
        phases=dict(chance.sample(list(look.phases.items()), len(look.phases))),
    )
    assert grown(look, Enough(most), horizon_s) == grown(other, Enough(most), horizon_s)


@given(queues(most=60))
@_RUNS
def test_little_more_than_the_least_possible_is_launched(queue: tuple[Job, ...]) -> None:
    plain = tuple(each._replace(features="", partitions=("main",), tres_per_node={}) for each in queue)
    growth = grow(ClusterState(AT, ROOMY, (), plain), Memory(), {}, Enough())
    # Two more: what fills whole nodes, and a wide job that needs a little of many, may each cost one that the sums
    # of `least` do not see.
    assert launched(growth)["large"] <= 1.2 * least(plain) + 2


def least(queue: tuple[Job, ...]) -> int:
    """Fewer nodes would not do: for the sums of who may share, for what is more than half a node, for the widest."""
    offer = offers(ROOMY)["large"]
    room = empty(offer)
    nodes = 0
    # Who takes all memory of a node shares it as little as who has it alone.
    kinds = {each.oversubscribe if each.min_memory_mib else "NO" for each in queue}
    for sharing in kinds:
        asked = [
            (share(each, offer), each.nodes)
            for each in queue
            if (each.oversubscribe if each.min_memory_mib else "NO") == sharing
            and each.reason != "Dependency"
        ]
        cpus = sum(need.cpus * count for need, count in asked)
        memory_mib = sum(need.memory_mib * count for need, count in asked)
        halves = sum(
            count
            for need, count in asked
            if sharing == "NO" or need.cpus * 2 > room.cpus or need.memory_mib * 2 > room.memory_mib
        )
        widest = max((count for _, count in asked), default=0)
        nodes += max(-(-cpus // room.cpus), -(-memory_mib // room.memory_mib), halves, widest)
    return nodes


# By hand: what a person would look for first.

LARGE = fleet("large", 2, shape={"cpus": 16, "memory": 32_000})
CPU = spec(fleet("cpu", 1, max_nodes=8))


def of(*queue: Job, cluster: object = CPU, **changes: object) -> Growth:
    """What is grown for a queue where nothing is there."""
    cluster_state = ClusterState(AT, cluster, (), queue)  # type: ignore[arg-type]
    return grow(cluster_state, Memory(), {}, Enough(), **changes)  # type: ignore[arg-type]


def test_lowest_free_slots_one_launch_for_each_fleet_with_its_jobs() -> None:
    cluster_state = ClusterState(AT, CPU, (), tuple(job(number, cpus=3) for number in (1, 2, 3, 4)))
    quarantined = Memory(node_backoffs={"cpu-2": Backoff("boot", 3, AT + seconds(60), "it never came up")})
    growth = grow(cluster_state, quarantined, {"cpu-1": Phase.LEAVING}, Enough())
    (launch,) = growth.launches
    assert (launch.fleet, launch.nodes, launch.jobs) == (
        "cpu",
        ("cpu-3", "cpu-4", "cpu-5", "cpu-6"),
        (1, 2, 3, 4),
    )
    assert launch.reason == "jobs 1, 2, 3 and more need it"
    assert growth.waiting[1].nodes == ("cpu-3",)


def test_by_priority_where_there_is_not_enough_for_all() -> None:
    queue = (job(1, cpus=4, priority=1), job(2, cpus=1, priority=9), job(3, cpus=4, priority=5))
    growth = grow(ClusterState(AT, CPU, (), queue), Memory(), {}, Enough(2))
    told = {id: (each.standing, each.reason) for id, each in growth.waiting.items()}
    assert told == {
        1: ("limit", "no more than 2 nodes"),
        2: ("coming", "its nodes are being made"),
        3: ("coming", "its nodes are being made"),
    }


def test_a_job_of_several_nodes_gets_all_or_none_and_holds_back_nobody() -> None:
    growth = grow(
        ClusterState(AT, CPU, (), (job(1, nodes=4, cpus=4, priority=9), job(2))), Memory(), {}, Enough(3)
    )
    assert growth.waiting[1].standing == "limit"
    assert growth.waiting[1].nodes == ()
    assert [launch.nodes for launch in growth.launches] == [("cpu-1",)]


def test_a_fleet_that_backs_off_leaves_its_jobs_to_the_next() -> None:
    both = spec(fleet("cpu", 1), LARGE, partitions=[{"name": "main", "fleets": ["cpu", "large"]}])
    backs_off = Memory(fleet_backoffs={"cpu": Backoff("capacity", 2, AT + seconds(60), "sold out")})
    cluster_state = ClusterState(AT, both, (), (job(1), job(2, features="cpu")))
    growth = grow(cluster_state, backs_off, {}, Enough())
    assert launched(growth) == {"large": 1}
    assert growth.waiting[2].standing == "setback"
    assert growth.waiting[2].reason == (
        "fleet cpu is left alone until 12:01:00 UTC, after 2 failures in a row: sold out"
    )


def test_what_is_there_first_then_what_is_drained_then_what_is_coming() -> None:
    nodes = tuple(node(f"cpu-{number}") for number in range(1, 4))
    phases = {"cpu-3": Phase.IDLE, "cpu-2": Phase.DRAINED, "cpu-1": Phase.LAUNCHING}
    expected = [("room", "cpu-3"), ("coming", "cpu-2"), ("coming", "cpu-1"), ("coming", "cpu-4")]
    for count in range(1, 5):
        cluster_state = ClusterState(AT, CPU, nodes, tuple(job(id, cpus=4) for id in range(1, count + 1)))
        growth = grow(cluster_state, Memory(launches={"cpu-1": Launch(AT, AT)}), phases, Enough())
        told = [(growth.waiting[id].standing, *growth.waiting[id].nodes) for id in range(1, count + 1)]
        assert told == expected[:count]
        assert [undrain.nodes for undrain in growth.undrains] == ([("cpu-2",)] if count > 1 else [])


def test_room_beside_running_jobs_counts_gres_as_well() -> None:
    gpus = fleet(
        "gpu",
        1,
        shape={"cpus": 8, "memory": 8000, "gres": [{"name": "gpu", "count": 2, "files": "/dev/g[0-1]"}]},
    )
    there = node("gpu-1", "MIXED", cpus=8, memory_mib=8000, cpus_alloc=2, memory_alloc_mib=200)
    runs = running(9, "gpu-1", cpus=2, tres_per_node={"gres/gpu": "1"})
    cluster_state = ClusterState(
        AT, spec(gpus), (there,), (runs, *(job(id, tres_per_job={"gres/gpu": "1"}) for id in (1, 2)))
    )
    growth = grow(cluster_state, Memory(), {"gpu-1": Phase.BUSY}, Enough())
    assert (growth.waiting[1].standing, growth.waiting[1].nodes) == ("room", ("gpu-1",))
    assert (growth.waiting[2].standing, growth.waiting[2].nodes) == ("coming", ("gpu-2",))


def test_nobody_is_put_beside_a_job_that_is_alone() -> None:
    there = node("cpu-1", "MIXED", cpus_alloc=1)
    cluster_state = ClusterState(AT, CPU, (there,), (running(9, "cpu-1", oversubscribe="NO"), job(1)))
    assert grow(cluster_state, Memory(), {"cpu-1": Phase.BUSY}, Enough()).waiting[1].nodes == ("cpu-2",)


def test_an_array_has_no_more_tasks_at_once_than_its_limit() -> None:
    running_tasks = tuple(
        running(20 + task, "cpu-8", array_job_id=1, array_tasks=str(task), cpus=1) for task in range(2)
    )
    waits = job(1, array_tasks="2-99%5", cpus=4)
    growth = grow(ClusterState(AT, CPU, (), (*running_tasks, waits)), Memory(), {}, Enough())
    assert launched(growth) == {"cpu": 3}
    enough = grow(
        ClusterState(AT, CPU, (), (*running_tasks, waits._replace(array_tasks="2-99%2"))),
        Memory(),
        {},
        Enough(),
    )
    assert enough.waiting[1].standing == "held"
    assert enough.launches == ()


def test_an_array_that_gets_nodes_for_some_of_its_tasks_says_so() -> None:
    growth = of(job(1, array_tasks="0-19", cpus=4))
    assert growth.waiting[1].standing == "coming"
    assert growth.waiting[1].reason == (
        "its nodes are being made, for 8 of 20 tasks; fleet cpu has all its nodes (max_nodes is 8)"
    )


def test_the_components_of_a_heterogeneous_job_come_together_on_nodes_of_their_own() -> None:
    components = (job(1, het_job_id=1), job(2, het_job_id=1, nodes=2, cpus=2))
    assert of(*components).launches[0].nodes == ("cpu-1", "cpu-2", "cpu-3")
    held = of(components[0], components[1]._replace(reason="Dependency"))
    assert held.launches == ()
    assert {held.waiting[1].standing, held.waiting[2].standing} == {"held"}
    too_many = grow(ClusterState(AT, CPU, (), components), Memory(), {}, Enough(2))
    assert too_many.launches == ()
    assert {too_many.waiting[1].standing, too_many.waiting[2].standing} == {"limit"}


def test_nodes_that_a_job_names_are_made_under_those_names() -> None:
    assert of(job(1, required_nodes="cpu-[5,7]", nodes=2, cpus=2)).launches[0].nodes == ("cpu-5", "cpu-7")
    assert of(job(1, required_nodes="cpu-9")).waiting[1].standing in {"limit", "never"}
    never = of(job(1, required_nodes="other-1")).waiting[1]
    assert (never.standing, never.reason) == (
        "never",
        "asks for the node other-1, which is none of partition main that it can use",
    )


def test_slots_in_a_row_for_what_has_to_be_contiguous() -> None:
    cluster_state = ClusterState(AT, CPU, (node("cpu-3"),), (job(1, nodes=3, cpus=12, contiguous=True),))
    growth = grow(cluster_state, Memory(), {"cpu-3": Phase.IDLE, "cpu-2": Phase.LEAVING}, Enough())
    assert growth.waiting[1].nodes == ("cpu-3", "cpu-4", "cpu-5")
    assert growth.needed == {"cpu-3"}


def test_as_many_nodes_as_tasks_need_where_the_job_leaves_it_open() -> None:
    waits = job(1, cpus=14, nodes=4, tres={"node": "1", "cpu": "14", "mem": "100M"})
    assert launched(of(waits)) == {"cpu": 4}
    roomy = spec(LARGE)
    assert launched(of(waits, cluster=roomy)) == {"large": 1}


def test_a_cap_of_an_account() -> None:
    queue = tuple(job(id, cpus=4, account="physics" if id < 5 else "biology") for id in range(1, 7))
    growth = grow(ClusterState(AT, CPU, (), queue), Memory(), {}, Enough(capped_accounts={"physics": 1}))
    assert launched(growth) == {"cpu": 3}
    assert growth.waiting[2].reason == "its account has as many nodes as the policy allows it"


def test_a_job_that_slurm_leaves_waiting_beside_others_gets_a_node_of_its_own_and_one_only() -> None:
    mixed = node("cpu-1", "MIXED", cpus_alloc=1)
    cluster_state = ClusterState(AT, CPU, (mixed,), (running(9, "cpu-1"), job(1)))
    phases = {"cpu-1": Phase.BUSY}
    first = grow(cluster_state, Memory(), phases, Enough())
    assert first.launches == ()
    assert first.has_room_since == {1: AT}
    later = replace(cluster_state, at=AT + seconds(10))
    own = grow(later, Memory(has_room_since=first.has_room_since), phases, Enough())
    assert launched(own) == {"cpu": 1}
    assert own.has_room_since == {1: AT}
    # It is there, and empty: another like it would be of no more use.
    there = replace(later, nodes=(mixed, node("cpu-2")))
    up = grow(there, Memory(has_room_since=own.has_room_since), phases | {"cpu-2": Phase.IDLE}, Enough())
    assert up.launches == ()
    assert up.needed == {"cpu-2"}
    # Who waits for its turn has no such claim.
    turn = replace(later, jobs=(running(9, "cpu-1"), job(1, reason="Priority")))
    assert grow(turn, Memory(has_room_since=first.has_room_since), phases, Enough()).launches == ()


def test_nodes_are_not_kept_for_ever_for_what_slurm_does_not_start() -> None:
    cluster_state = ClusterState(AT, CPU, (node("cpu-1"),), (job(1),))
    long = GIVEN_UP_AFTER + seconds(2 * CPU.scaling.boot_timeout_s)
    growth = grow(cluster_state, Memory(has_room_since={1: AT - long}), {"cpu-1": Phase.IDLE}, Enough())
    assert growth.needed == frozenset()
    assert growth.waiting[1].standing == "held"
    assert "Slurm does not start it" in growth.waiting[1].reason
    again = grow(
        cluster_state, Memory(has_room_since={1: AT - seconds(3600)}), {"cpu-1": Phase.IDLE}, Enough()
    )
    assert again.needed == {"cpu-1"}
    assert again.has_room_since == {1: AT}


def test_a_backlog_is_worked_off_one_after_another() -> None:
    ten_minutes = tuple(job(id, cpus=4, time_limit_s=600) for id in range(1, 13))
    growth = of(*ten_minutes, horizon_s=3600)
    assert launched(growth) == {"cpu": 2}
    assert of(*ten_minutes, horizon_s=600, cluster=spec(fleet("cpu", 1, max_nodes=20))).launches[0].nodes[11:]
    # Once they run, what runs makes room for the others in time.
    nodes = tuple(node(f"cpu-{number}", "ALLOCATED") for number in (1, 2))
    runs = tuple(running(id, f"cpu-{id}", cpus=4, time_limit_s=600) for id in (1, 2))
    busy = dict.fromkeys(("cpu-1", "cpu-2"), Phase.BUSY)
    cluster_state = ClusterState(AT, CPU, nodes, (*runs, *ten_minutes[2:]))
    then = grow(cluster_state, Memory(), busy, Enough(), horizon_s=3600)
    assert then.launches == ()
    assert then.needed == busy.keys()
    # Who may run without end keeps a node for himself.
    endless = tuple(job(id, cpus=4, time_limit_s=None) for id in (1, 2, 3))
    assert launched(of(*endless, horizon_s=3600)) == {"cpu": 3}


def test_whoever_is_for_cheap_or_small_nodes_does_not_get_gpus() -> None:
    assert {
        id
        for launch in grown(Look(ClusterState(AT, CLUSTER, (), (job(1),)), Memory(), {})).launches
        for id in launch.nodes
    } == {"small-1"}

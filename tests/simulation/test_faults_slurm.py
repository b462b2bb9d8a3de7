"""Slurm's faults, by their names in docs/faults.md."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain, combinations

import pytest

from tests.simulation.scene import SPEC, Scene
from tidepool.clients.slurm import JobState, NodeFlag
from tidepool.scaling.decision import Phase, Undrain


def _busy(count: int = 2, seconds: float = 400) -> tuple[Scene, list[int]]:
    scene = Scene()
    jobs = scene.submit(count, seconds=seconds)
    scene.until_running(jobs)
    return scene, jobs


@pytest.mark.parametrize("how", ["down", "hanging", "empty", "garbled"])
@pytest.mark.parametrize("outage_s", [1, 15, 900])
def test_a_controller_that_does_not_answer_or_answers_wrongly(how: str, outage_s: float) -> None:
    scene, _ = _busy(seconds=600)
    before = scene.cluster.machines.running()
    scene.cluster.slurm.controller = how  # type: ignore[assignment]
    scene.cluster.wake()
    scene.pass_time(outage_s)
    assert scene.cluster.machines.running() == before, "unknown never removes"
    assert scene.laws.removed == 0
    scene.cluster.slurm.controller = "up"
    scene.ends_well()


def test_a_controller_that_restarts_again_and_again() -> None:
    scene, _ = _busy()
    for _ in range(20):
        scene.cluster.slurm.controller = "down"
        scene.pass_time(2)
        scene.cluster.slurm.controller = "up"
        scene.pass_time(7)
    scene.ends_well()


def test_a_controller_killed_within_5_s_of_a_submit() -> None:
    scene, first = _busy()
    second = scene.submit(2)
    scene.pass_time(1)
    slurm = scene.cluster.slurm
    lost = slurm.lose_since(scene.cluster.clock.true - timedelta(seconds=5))
    assert set(second) <= set(lost)
    slurm.controller = "down"
    scene.pass_time(3)
    slurm.controller = "up"
    scene.laws.lost_by_slurm.update(lost)
    scene.ends_well(lost=lost)
    assert set(first) - set(lost) <= set(scene.laws.ended)


@pytest.mark.slow
def test_a_registration_storm_of_500_nodes() -> None:
    fleet = {**SPEC["fleets"][0], "subnet": "10.95.8.0/22", "max_nodes": 500}
    scene = Scene(fleets=[fleet], partitions=[{"name": "cpu"}])
    scene.laws._thorough = 1000
    scene.submit(1, seconds=60, array="1-500", exclusive=True)
    scene.until(lambda: len(scene.cluster.slurm.queue.running) == 500, 60)
    scene.pass_time(400)
    assert not scene.cluster.machines.running()
    assert scene.made() == 500
    assert scene.cluster.stack.ups <= 4, "all nodes in one `up`, and not one at a time"


def test_a_node_that_is_down() -> None:
    scene, jobs = _busy()
    scene.cluster.machines.stop(scene.cluster.machines.running()[0])
    scene.cluster.slurm.set_down("cpu-1", "Not responding")
    scene.until(lambda: scene.running(jobs), 120)
    scene.ends_well()


def test_a_node_that_a_person_set_down_stays_so() -> None:
    scene, jobs = _busy()
    scene.cluster.slurm.set_down("cpu-1", "a fan is broken", "root")
    # Its slurmd lives: a real one would come back by itself after a restart only.
    scene.until(lambda: scene.running(jobs), 120)
    scene.pass_time(600)
    node = scene.node("cpu-1")
    assert node.reason is not None
    assert node.reason.text == "a fan is broken"
    scene.cluster.slurm.resume("cpu-1")
    scene.ends_well()


def test_a_node_drained_by_a_person() -> None:
    scene, jobs = _busy(seconds=100)
    scene.cluster.slurm.drain_by("root", "cpu-1", "new memory")
    scene.laws.drained_by_people.add("cpu-1")
    scene.pass_time(3600)
    assert scene.states(jobs) <= {JobState.COMPLETED}
    assert [key.node for key in scene.cluster.machines.running()] == ["cpu-1"]
    assert scene.phase("cpu-1") is Phase.HELD
    assert not [
        about
        for what, about in scene.said
        if what == "intends" and isinstance(about["intent"].action, Undrain)
    ]
    scene.laws.drained_by_people.clear()
    scene.cluster.slurm.undrain("cpu-1")
    scene.ends_well()


def test_a_node_that_does_not_respond_for_a_while() -> None:
    scene, jobs = _busy()
    scene.cluster.slurm.unplug("cpu-1")
    scene.pass_time(30)
    assert len(scene.cluster.machines.running()) == 2
    scene.cluster.slurm.replug("cpu-1")
    scene.pass_time(30)
    assert scene.running(jobs), "what ran there runs"
    scene.ends_well()


@pytest.mark.parametrize(
    "flag",
    [
        NodeFlag.FAIL,
        NodeFlag.MAINTENANCE,
        NodeFlag.RESERVED,
        NodeFlag.REBOOT_REQUESTED,
        NodeFlag.REBOOT_ISSUED,
    ],
)
def test_a_node_that_fails_is_in_maintenance_reserved_or_rebooting(flag: NodeFlag) -> None:
    scene, jobs = _busy(seconds=100)
    scene.cluster.slurm.flag("cpu-1", flag)
    scene.pass_time(1800)
    assert scene.states(jobs) <= {JobState.COMPLETED}
    assert "cpu-1" in {key.node for key in scene.cluster.machines.running()}, "it is somebody else's"
    scene.cluster.slurm.flag("cpu-1", flag, on=False)
    scene.ends_well()


FLAGS = (
    NodeFlag.DRAIN,
    NodeFlag.NOT_RESPONDING,
    NodeFlag.FAIL,
    NodeFlag.MAINTENANCE,
    NodeFlag.RESERVED,
    NodeFlag.REBOOT_REQUESTED,
    NodeFlag.COMPLETING,
)


@pytest.mark.parametrize("is_busy", [True, False])
def test_every_combination_of_the_flags_of_a_node(is_busy: bool) -> None:
    """The laws watch that nothing is done to a node that is somebody's, or busy."""
    every = list(chain.from_iterable(combinations(FLAGS, count) for count in range(len(FLAGS) + 1)))
    assert len(every) == 128
    scene, jobs = _busy(1, seconds=1_000_000 if is_busy else 5)
    slurm, held = scene.cluster.slurm, scene.laws.drained_by_people
    for flags in every:
        if scene.node("cpu-1").state.is_slot:
            jobs = scene.submit(1, seconds=5)
            scene.until_running(jobs)
        slurm.flag("cpu-1", *flags)
        if NodeFlag.DRAIN in flags:
            held.add("cpu-1")
            slurm.drain_by("root", "cpu-1", "a look inside")
        scene.cluster.wake()
        scene.pass_time(90)
        assert not is_busy or scene.running(jobs), flags
        held.clear()
        if not scene.node("cpu-1").state.is_slot:
            slurm.flag("cpu-1", *flags, on=False)
        scene.pass_time(5)
    for job_id in list(slurm.queue.running):
        slurm.finish(job_id)
    scene.ends_well()


@pytest.mark.slow
def test_a_job_array_of_10_000() -> None:
    scene = Scene()
    scene.laws._thorough = 1000
    scene.submit(1, seconds=20, array="0-9999", tasks=1, memory_mib=100)
    queue = scene.cluster.slurm.queue
    scene.until(lambda: len(queue.running) == 16, 30)
    ups = scene.cluster.stack.ups
    assert ups == 1, "one decision for all demand"
    scene.until(lambda: not queue.waiting and not queue.running, 15_000)
    assert set(scene.laws.ended.values()) == {JobState.COMPLETED}
    assert len(scene.laws.ended) == 10_000
    assert scene.made() == 8
    scene.ends_well()


def test_a_job_that_is_too_large_ever_to_run() -> None:
    scene = Scene()
    (job,) = scene.submit(1, nodes="9", tasks=9)
    scene.pass_time(600)
    standing, reason = scene.standing(job)
    assert standing == "never"
    assert "8" in reason
    assert scene.made() == 0
    scene.cluster.slurm.cancel(job)
    scene.jobs.clear()
    scene.ends_well()


def test_a_job_whose_feature_nobody_has() -> None:
    scene = Scene()
    (job,) = scene.submit(1, partition="main", features="fast")
    # Nodes have it when it is submitted, and no more when it is looked at.
    slurm = scene.cluster.slurm
    slurm.set_features("gpu-[1-2]", ("gpu",))
    spec = scene.cluster.spec
    fleets = tuple(fleet.model_copy(update={"features": ()}) for fleet in spec.fleets)
    scene.cluster.bring_up(spec.model_copy(update={"fleets": fleets}))
    scene.pass_time(600)
    standing, reason = scene.standing(job)
    assert standing == "never"
    assert "fast" in reason
    assert scene.made() <= 1
    slurm.cancel(job)
    scene.jobs.clear()
    scene.ends_well()


def test_a_reservation_that_holds_jobs_back() -> None:
    scene, first = _busy(1, seconds=100)
    slurm, now = scene.cluster.slurm, scene.cluster.clock.true
    slurm.reserve("course", "cpu-1", start=now + timedelta(seconds=900), for_s=600)
    (waits,) = scene.submit(1, seconds=50, reservation="course", nodes="1")
    scene.pass_time(60)
    assert scene.standing(waits)[0] == "held"
    made = scene.made()
    assert made == len(first), "a job that is held makes no node"
    scene.cluster.slurm.end_reservation("course")
    scene.cluster.slurm.cancel(waits)
    scene.jobs.remove(waits)
    scene.ends_well()


def test_a_licence_that_holds_jobs_back() -> None:
    scene = Scene(licenses={"matlab": 1})
    jobs = scene.submit(3, seconds=100, licenses="matlab:1")
    scene.until(lambda: len(scene.cluster.slurm.queue.running) == 1, 60)
    scene.pass_time(40)
    held = [job for job in jobs if job in scene.cluster.slurm.queue.waiting]
    assert {scene.standing(job)[0] for job in held} == {"held"}
    scene.ends_well()


def test_a_job_that_is_requeued() -> None:
    scene, jobs = _busy()
    scene.cluster.slurm.requeue(jobs[0])
    scene.pass_time(5)
    assert scene.made() == 2, "its node waits for it for the 11 s"
    scene.until_running(jobs, 30)
    scene.ends_well()
    assert scene.made() == 2


def test_a_job_that_is_preempted() -> None:
    scene, jobs = _busy()
    scene.cluster.slurm.preempt(jobs[1])
    scene.until_running(jobs, 30)
    scene.ends_well()


def test_a_job_that_comes_back_while_its_node_is_draining() -> None:
    scene, jobs = _busy(1, seconds=50)
    scene.until(lambda: scene.node("cpu-1").state.is_drained, 300)
    again = scene.submit(1, seconds=50)
    scene.until_running(again, 30)
    scene.ends_well()
    assert scene.made() <= len(jobs) + len(again)

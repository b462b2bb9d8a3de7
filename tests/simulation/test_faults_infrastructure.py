"""The infrastructure's faults, by their names in docs/faults.md."""

from __future__ import annotations

import pytest

from tests.simulation.scene import Scene
from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.scaling.decision import Phase


def _key(node: str) -> MachineKey:
    return MachineKey("simulated", node)


def test_a_create_that_succeeds_and_whose_answer_is_lost() -> None:
    scene = Scene()
    scene.cluster.machines.fake.lose_answers(2)
    jobs = scene.submit(3)
    scene.until_running(jobs, 600)
    scene.ends_well()


def test_created_machines_that_are_not_listed_for_a_minute() -> None:
    scene = Scene()
    scene.cluster.machines.fake.unseen_s = 60
    jobs = scene.submit(3, seconds=200)
    scene.until_running(jobs, 60)
    scene.pass_time(100)
    assert scene.running(jobs)
    assert scene.made() == 3, "not seen is not gone"
    scene.ends_well()


def test_half_of_a_request_granted() -> None:
    scene = Scene()
    scene.cluster.machines.fake.stock = 2
    jobs = scene.submit(4, seconds=100)
    scene.until(lambda: len(scene.cluster.slurm.queue.running) == 2, 60)
    scene.pass_time(30)
    waiting = [job for job in jobs if job in scene.cluster.slurm.queue.waiting]
    assert {scene.standing(job)[0] for job in waiting} <= {"setback", "room", "coming"}
    scene.cluster.machines.fake.stock = None
    scene.ends_well()


def test_a_stock_out_moves_demand_to_the_next_fleet() -> None:
    scene = Scene()
    scene.cluster.machines.fake.stock = 0
    jobs = scene.submit(1, partition="main")
    scene.pass_time(20)
    assert scene.standing(jobs[0])[0] in {"setback", "coming"}
    failed = {node for what, about in scene.said if what == "up-ended" for node in about["outcome"].failed}
    assert {node.partition("-")[0] for node in failed} == {"cpu", "gpu"}, "each fleet was asked"
    scene.cluster.machines.fake.stock = None
    scene.ends_well()


def test_a_quota_that_is_reached_makes_no_endless_loop() -> None:
    scene = Scene()
    scene.cluster.machines.fake.quota = 2
    jobs = scene.submit(6, seconds=3600)
    scene.until(lambda: len(scene.cluster.slurm.queue.running) == 2, 60)
    scene.pass_time(1800)
    assert scene.made() == 2
    assert scene.cluster.machines.fake.calls["create"] < 40, "it backs off"
    assert scene.cluster.machines.fake.calls["delete"] < 40
    scene.cluster.machines.fake.quota = None
    scene.until_running(jobs[2:], 3600)
    scene.ends_well()


def test_a_machine_that_boots_and_never_registers() -> None:
    scene = Scene()
    scene.cluster.machines.fake.mute("cpu-1")
    jobs = scene.submit(2, seconds=300)
    scene.until_running(jobs, 180)
    scene.until(lambda: "cpu-1" not in scene.desired(), 60)
    scene.ends_well()


@pytest.mark.parametrize("what", ["Low RealMemory", "gres/gpu count reported lower than configured (0 < 1)"])
def test_a_machine_that_registers_with_too_little_memory_or_without_its_gpu(what: str) -> None:
    scene = Scene()
    fleet = "gpu" if "gpu" in what else "cpu"
    scene.cluster.machines.short[f"{fleet}-1"] = what
    gres = "gpu:1" if fleet == "gpu" else ""
    jobs = scene.submit(1, partition="main", gres=gres, features=fleet)
    scene.until_running(jobs, 180)
    assert scene.node(f"{fleet}-2").cpus_alloc
    scene.ends_well()


def test_a_machine_that_is_taken_back_after_a_notice() -> None:
    scene = Scene()
    jobs = scene.submit(2, seconds=300)
    scene.until_running(jobs)
    scene.cluster.slurm.drain_by("root", "cpu-1", "spot: AWS takes it back at 2026-01-05T00:03:00Z")
    scene.cluster.wake()
    scene.pass_time(120)
    assert "cpu-1" in scene.desired(), "its job has the two minutes"
    (key,) = [key for key in scene.cluster.machines.running() if key.node == "cpu-1"]
    scene.cluster.machines.vanish(key)
    scene.until(lambda: "cpu-1" not in scene.desired(), 600)
    scene.until_running(jobs, 1800)
    scene.ends_well()


def test_a_machine_that_somebody_deletes_and_that_waits_for_its_jobs() -> None:
    scene = Scene()
    jobs = scene.submit(2, seconds=300)
    scene.until_running(jobs)
    scene.cluster.machines.fake.end_when_empty(_key("cpu-1"))
    scene.until(lambda: scene.node("cpu-1").state.is_draining, 120)
    assert scene.running(jobs), "its job has its time"
    scene.until(lambda: "cpu-1" not in scene.desired(), 600)
    assert scene.made() == 2, "no job began anew"
    scene.ends_well()


def test_a_delete_that_is_refused_after_the_drain() -> None:
    scene = Scene()
    jobs = scene.submit(2, seconds=50)
    scene.until_running(jobs)
    scene.cluster.machines.fake.refuse_deletion("cpu-1")
    scene.pass_time(1200)
    assert [key.node for key in scene.cluster.machines.running()] == ["cpu-1"], "the other one went"
    assert scene.cluster.machines.fake.calls["delete"] < 60
    scene.cluster.machines.fake.release("cpu-1")
    scene.ends_well()


@pytest.mark.parametrize("how", ["stop", "vanish"])
@pytest.mark.parametrize("is_busy", [True, False])
def test_a_machine_gone_from_outside(how: str, is_busy: bool) -> None:
    scene = Scene()
    jobs = scene.submit(2, seconds=300 if is_busy else 20)
    scene.until_running(jobs)
    if not is_busy:
        scene.until(lambda: not scene.cluster.slurm.queue.running, 60)
    getattr(scene.cluster.machines, how)(_key("cpu-1"))
    if is_busy:
        scene.until_running(jobs, 180)
    scene.ends_well()


def test_a_machine_back_from_the_dead_under_an_old_name() -> None:
    scene = Scene()
    jobs = scene.submit(1, seconds=50)
    scene.until_running(jobs)
    scene.until(lambda: not scene.cluster.machines.running(), 300)
    scene.cluster.machines.return_from_the_dead(_key("cpu-1"))
    scene.until(lambda: not scene.cluster.machines.running(), 900)
    scene.ends_well()


def test_a_machine_back_from_the_dead_beside_its_successor() -> None:
    """The one that no state knows goes; what its successor runs goes on to its end first."""
    scene = Scene()
    jobs = scene.submit(1, seconds=600)
    scene.until_running(jobs)
    scene.cluster.machines.haunt(_key("cpu-1"), _key("cpu-1"))
    scene.pass_time(500)
    assert scene.running(jobs)
    scene.ends_well()


@pytest.mark.parametrize("error", [Transient("too many requests"), Permanent("not allowed")])
def test_calls_that_fail(error: Transient | Permanent) -> None:
    scene = Scene()
    scene.cluster.machines.fake.fail(*[error] * 6)
    jobs = scene.submit(2)
    scene.until_running(jobs, 3600)
    scene.ends_well()


def test_machines_that_cannot_be_listed_remove_nothing() -> None:
    """slurm-operator 79: a lookup that failed open."""
    scene = Scene()
    jobs = scene.submit(2, seconds=900)
    scene.until_running(jobs)
    scene.cluster.machines.fake.fail(*[Transient("the endpoint is gone")] * 500)
    scene.cluster.wake()
    scene.pass_time(300)
    assert scene.running(jobs)
    assert scene.phase("cpu-1") in {Phase.BUSY, Phase.UNKNOWN}
    scene.cluster.machines.fake.clear_failures()
    scene.ends_well()

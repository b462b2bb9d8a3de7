"""The promises of `tidepool.clients.slurm.contract`, of the fake and of a real slurmctld."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.clients.slurm.real import eventually
from tests.clients.slurm.world import World, up, wait_for_job, wait_for_nodes
from tidepool.clients.slurm import (
    ControllerDown,
    JobRequest,
    JobState,
    NodeBase,
    NotFound,
    PartitionState,
    Refused,
    Slots,
    SlurmError,
    TimedOut,
)

LONG = "#!/bin/sh\n#SBATCH --output=/dev/null\nsleep 300\n"
SHORT = "#!/bin/sh\n#SBATCH --output=/dev/null\ntrue\n"


def test_the_controller_is_up_and_says_its_version(world: World) -> None:
    (controller,) = world.slurm.ping()
    assert (controller.role, controller.is_up) == ("primary", True)
    assert world.slurm.version()[:2].isdigit()


def test_nobody_takes_over_where_there_is_no_backup(world: World) -> None:
    with pytest.raises(ControllerDown):
        world.slurm.takeover()
    (controller,) = world.slurm.ping()
    assert controller.is_up


def test_nothing_there_is_an_empty_list(world: World) -> None:
    assert world.slurm.nodes() == ()
    assert world.slurm.jobs() == ()
    assert world.slurm.reservations() == ()


def test_partitions_are_listed_hidden_ones_too(world: World) -> None:
    default, hidden = sorted(world.slurm.partitions(), key=lambda partition: partition.name)
    assert (default.name, default.is_default, default.state) == ("all", True, PartitionState.UP)
    assert (hidden.name, hidden.is_default) == ("hidden", False)


def test_slots_are_declared_and_forgotten(world: World) -> None:
    names = world.slots(3, memory_mib=700, features=("std", "avx2"))
    nodes = world.slurm.nodes(names)
    assert [node.name for node in nodes] == [f"{names.partition('-')[0]}-{n}" for n in (1, 2, 3)]
    for node in nodes:
        assert node.state.is_slot
        assert (node.cpus, node.memory_mib, node.features) == (2, 700, ("std", "avx2"))
        assert node.boot_time is None
    world.slurm.delete_nodes(names)
    assert world.slurm.nodes() == ()


def test_a_slot_becomes_a_node_and_a_slot_again(world: World) -> None:
    name = up(world, 1)
    (node,) = world.slurm.nodes(name)
    assert node.state.base is NodeBase.IDLE
    assert node.boot_time is not None
    world.slurm.drain(name, "going")
    world.unplug(name)
    world.slurm.down(name, "gone")
    world.slurm.to_future(name)
    (node,) = world.slurm.nodes(name)
    assert node.state.is_slot


def test_a_name_that_is_there_stays_as_it_is(world: World) -> None:
    name = up(world, 1)
    world.slurm.create_slots(Slots(name, "127.0.0.9", 1, 400))
    (node,) = world.slurm.nodes()
    assert (node.name, node.cpus, node.memory_mib, node.state.base) == (name, 2, 500, NodeBase.IDLE)


def test_a_slot_that_is_there_stays_as_it_is_and_others_are_made_beside(world: World) -> None:
    names = world.slots(1, memory_mib=700)
    prefix = names.rpartition("-")[0]
    world.slurm.create_slots(Slots(f"{prefix}-[1-3]", "127.0.0.[7-9]", 1, 400))
    assert [node.memory_mib for node in world.slurm.nodes(f"{prefix}-[1-3]")] == [700, 400, 400]


def test_slots_that_find_no_room_are_told_of(world: World) -> None:
    with pytest.raises(Refused, match=r"not|full"):
        world.slurm.create_slots(Slots("big-[1-3000]", "10.0.[0-29].[1-100]", 1, 100))
    assert len(world.slurm.nodes()) == 2048


def test_a_node_that_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(NotFound) as caught:
        world.slurm.nodes("nobody")
    assert "nobody" in caught.value.words
    with pytest.raises(NotFound):
        world.slurm.drain("nobody", "why not")


def test_features_change_on_nodes_and_on_slots(world: World) -> None:
    node, slot = up(world, 1, features=("std",)), world.slots(1, features=("std",))
    for name in (node, slot):
        world.slurm.set_features(name, ("std", "avx2"))
        (seen,) = world.slurm.nodes(name)
        assert (seen.features, seen.active_features) == (("std", "avx2"), ("std", "avx2"))
    assert world.slurm.nodes(node)[0].state.takes_jobs
    assert world.slurm.nodes(slot)[0].state.is_slot


def test_draining_says_who_and_why(world: World) -> None:
    name = up(world, 1)
    world.slurm.drain(name, "idle for 10 min: [no demand]")
    (node,) = world.slurm.nodes(name)
    assert node.state.is_drained
    assert not node.state.takes_jobs
    assert node.reason is not None
    assert (node.reason.text, node.reason.user) == ("idle for 10 min: [no demand]", "root")
    assert node.reason.time is not None
    assert abs(node.reason.time - datetime.now(UTC)) < timedelta(seconds=60)
    world.slurm.undrain(name)
    wait_for_nodes(world, name, lambda node: node.state.takes_jobs)
    assert world.slurm.nodes(name)[0].reason is None


def test_a_job_waits_runs_and_is_cancelled(world: World) -> None:
    names = world.slots(1, features=("std",))
    job_id = world.slurm.submit(
        JobRequest(LONG, name="a|b", features="std", tasks=2, memory_mib=100, time_limit_s=600)
    ).job_id
    (job,) = world.slurm.jobs({JobState.PENDING})
    assert (job.job_id, job.array_job_id, job.size, job.name) == (job_id, job_id, 1, "a|b")
    assert (job.nodes, job.cpus, job.tasks, job.features, job.time_limit_s) == (1, 2, 2, "std", 600)
    assert (job.memory_mib, job.memory_per_node_mib, job.memory_is_per_cpu) == (100, 100, False)
    assert (job.partitions, job.user, job.batch, job.nodelist) == (("all",), "root", True, "")
    assert job.priority > 0
    world.boot(names)
    wait_for_job(world, job_id, JobState.RUNNING)
    (job,) = world.slurm.jobs({JobState.RUNNING})
    assert job.nodelist == names
    (node,) = world.slurm.nodes(names)
    assert node.state.runs_jobs
    assert (node.cpus_alloc, node.memory_alloc_mib) == (2, 100)
    world.slurm.cancel(job_id)
    wait_for_job(world, job_id, JobState.CANCELLED)
    world.slurm.cancel(job_id)
    wait_for_nodes(world, names, lambda node: not node.state.runs_jobs)
    assert world.slurm.jobs() == ()


def test_memory_for_each_cpu_is_told_from_memory_for_each_node(world: World) -> None:
    world.slots(2)
    for request in (
        JobRequest(LONG, nodes="2", tasks=4, memory_per_cpu_mib=50),
        JobRequest(LONG, nodes="2", tasks=4, memory_mib=50),
    ):
        world.slurm.submit(request)
    per_cpu, per_node = sorted(world.slurm.jobs(), key=lambda job: job.job_id)
    assert (per_cpu.memory_mib, per_cpu.memory_is_per_cpu, per_cpu.memory_per_node_mib) == (200, True, 100)
    assert (per_node.memory_mib, per_node.memory_is_per_cpu, per_node.memory_per_node_mib) == (100, False, 50)


def test_demand_is_told_in_full(world: World) -> None:
    world.slots(2, features=("std",), gres="gpu:2")
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    first = world.slurm.submit(JobRequest(LONG, hold=True)).job_id
    second = world.slurm.submit(
        JobRequest(
            LONG,
            account="physics",
            nodes="2",
            exclusive=True,
            contiguous=True,
            begin=begin,
            gpus="3",
            licenses="matlab:2",
            dependency=f"afterok:{first}",
        )
    ).job_id
    held, job = sorted(world.slurm.jobs(), key=lambda job: job.job_id)
    assert (held.reason, held.priority) == ("JobHeldUser", 0)
    assert job.job_id == second
    assert (job.account, job.nodes, job.oversubscribe, job.contiguous) == ("physics", 2, "NO", True)
    assert job.begin_time == begin
    assert job.gpus == 3
    assert job.tres_per_job == {"gres/gpu": "3"}
    assert job.licenses == {"matlab": "2"}
    assert f"afterok:{first}" in job.dependency


def test_a_job_that_is_held_begins_when_it_is_released(world: World) -> None:
    up(world, 1)
    job_id = world.slurm.submit(JobRequest(SHORT, hold=True)).job_id
    after = world.slurm.submit(JobRequest(SHORT, hold=True, array="0-2")).job_id
    assert {job.reason for job in world.slurm.jobs()} == {"JobHeldUser"}
    for each in (job_id, job_id, after):
        world.slurm.release(each)
    assert eventually(
        lambda: {job.state for each in (job_id, after) for job in world.slurm.job(each)},
        lambda states: states == {JobState.COMPLETED},
    ) == {JobState.COMPLETED}
    assert {job.job_id for job in world.slurm.jobs(tuple(JobState))} >= {job_id, after}
    with pytest.raises(NotFound):
        world.slurm.release(999_999)


def test_an_arrays_waiting_tasks_are_one_record(world: World) -> None:
    world.slots(1)
    job_id = world.slurm.submit(JobRequest(LONG, array="0-999:3%7")).job_id
    (job,) = world.slurm.jobs()
    assert (job.job_id, job.array_job_id, job.size) == (job_id, job_id, 334)
    sparse = world.slurm.submit(JobRequest(LONG, array=",".join(map(str, range(0, 900, 7))))).job_id
    (job,) = world.slurm.job(sparse)
    assert job.size == 129


def test_the_tasks_that_run_are_records_of_their_own(world: World) -> None:
    up(world, 1)
    job_id = world.slurm.submit(JobRequest(LONG, array="1-5", memory_mib=100)).job_id

    def by_state() -> dict[JobState, list[int]]:
        found: dict[JobState, list[int]] = {}
        for job in world.slurm.job(job_id):
            found.setdefault(job.state, []).append(job.size)
        return found

    assert eventually(
        by_state, lambda found: JobState.RUNNING in found and len(found[JobState.RUNNING]) == 2
    ) == {
        JobState.RUNNING: [1, 1],
        JobState.PENDING: [3],
    }


def test_a_job_that_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.slurm.job(999_999)
    with pytest.raises(NotFound):
        world.slurm.requeue(999_999)
    with pytest.raises(NotFound):
        world.slurm.cancel(999_999)


@pytest.mark.parametrize(
    "request_",
    [
        JobRequest(LONG, partition="nowhere"),
        JobRequest(LONG, features="unheard-of"),
        JobRequest(LONG, nodes="1", memory_mib=999_999),
    ],
    ids=["partition", "feature", "memory"],
)
def test_a_job_that_can_never_run_is_refused(world: World, request_: JobRequest) -> None:
    world.slots(1, features=("std",))
    with pytest.raises(Refused) as caught:
        world.slurm.submit(request_)
    assert caught.value.words
    assert world.slurm.jobs() == ()


def test_a_busy_node_is_neither_given_back_nor_forgotten(world: World) -> None:
    name = up(world, 1)
    job_id = world.slurm.submit(JobRequest(LONG)).job_id
    wait_for_job(world, job_id, JobState.RUNNING)
    world.slurm.drain(name, "going")
    (node,) = world.slurm.nodes(name)
    assert node.state.is_draining
    assert not node.state.is_drained
    with pytest.raises(Refused):
        world.slurm.to_future(name)
    with pytest.raises(Refused):
        world.slurm.delete_nodes(name)
    assert world.slurm.job(job_id)[0].state is JobState.RUNNING


def test_the_jobs_of_a_node_that_is_down_are_requeued(world: World) -> None:
    name = up(world, 1)
    job_id = world.slurm.submit(JobRequest(LONG)).job_id
    # Else it would be requeued once more, for it could not be launched.
    eventually(lambda: world.has_begun(job_id), bool)
    world.unplug(name)
    world.slurm.down(name, "its plug was pulled")
    wait_for_job(world, job_id, JobState.PENDING)
    (node,) = world.slurm.nodes(name)
    assert node.state.base is NodeBase.DOWN
    assert node.reason is not None
    assert node.reason.text == "its plug was pulled"
    assert world.slurm.job(job_id)[0].restarts == 1


def test_a_job_is_requeued(world: World) -> None:
    up(world, 1)
    job_id = world.slurm.submit(JobRequest(LONG)).job_id
    wait_for_job(world, job_id, JobState.RUNNING)
    world.slurm.requeue(job_id)
    wait_for_job(world, job_id, JobState.PENDING)
    assert world.slurm.job(job_id)[0].restarts == 1


def test_the_owner_of_a_job_is_told_behind_what_others_said(world: World) -> None:
    up(world, 1)
    job_id = world.slurm.submit(JobRequest(LONG)).job_id
    wait_for_job(world, job_id, JobState.RUNNING)
    for message in ("the disk is full = really", "it moves", "it moves"):
        world.slurm.tell(job_id, message)
    assert world.comment(job_id) == "the disk is full = really; it moves"
    world.slurm.requeue(job_id)
    wait_for_job(world, job_id, JobState.PENDING)
    world.slurm.tell(job_id, "it waits")
    assert world.comment(job_id) == "the disk is full = really; it moves; it waits"
    with pytest.raises(NotFound):
        world.slurm.tell(999_999, "nobody")


def test_a_job_completes(world: World) -> None:
    up(world, 1)
    job_id = world.slurm.submit(JobRequest(SHORT)).job_id
    wait_for_job(world, job_id, JobState.COMPLETED)


def test_reservations_are_listed(world: World) -> None:
    names = up(world, 2)
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    world.reserve("upkeep", names, start)
    (reservation,) = world.slurm.reservations()
    assert (reservation.name, reservation.start_time) == ("upkeep", start)
    assert reservation.end_time - start == timedelta(hours=1)
    assert (reservation.nodes, reservation.node_count, reservation.users) == (names, 2, ("root",))
    assert "MAINT" in reservation.flags
    assert not reservation.is_active
    world.end_reservation("upkeep")
    assert world.slurm.reservations() == ()


def test_reconfiguring_leaves_jobs_alone(world: World) -> None:
    up(world, 1)
    job_id = world.slurm.submit(JobRequest(LONG)).job_id
    wait_for_job(world, job_id, JobState.RUNNING)
    world.slurm.reconfigure()
    assert world.slurm.job(job_id)[0].state is JobState.RUNNING


@pytest.mark.parametrize("names", ["", "ALL"])
def test_no_operation_means_all_nodes(world: World, names: str) -> None:
    for change in (world.slurm.to_future, world.slurm.delete_nodes, world.slurm.resume, world.slurm.undrain):
        with pytest.raises(ValueError, match="name"):
            change(names)
    with pytest.raises(ValueError, match="name"):
        world.slurm.drain(names, "why not")
    with pytest.raises(ValueError, match="name"):
        world.slurm.down(names, "why not")


def failures(world: World) -> list[SlurmError]:
    """What each way to look ends with; the test fails where one does not fail."""
    slurm = world.slurm
    caught = []
    for look in (slurm.nodes, slurm.jobs, slurm.partitions, slurm.reservations, slurm.version):
        with pytest.raises(SlurmError) as error:
            look()
        caught.append(error.value)
    with pytest.raises(SlurmError) as error:
        slurm.submit(JobRequest(LONG))
    caught.append(error.value)
    return caught


def test_a_dead_controller_is_an_error_and_no_empty_list(world: World) -> None:
    world.slots(1)
    world.controller_dies()
    try:
        assert [type(error) for error in failures(world)] == [ControllerDown] * 6
        assert [controller.is_up for controller in world.slurm.ping()] == [False]
    finally:
        world.controller_returns()
    assert world.slurm.ping()[0].is_up
    # Which nodes it remembers is another matter: it saves what it knows up to 5 s late.
    world.slurm.nodes()


def test_a_hanging_controller_is_a_time_out(world: World) -> None:
    world.slots(1)
    world.controller_hangs()
    try:
        began = time.monotonic()
        with pytest.raises(TimedOut):
            world.impatient.jobs()
        with pytest.raises(TimedOut):
            world.impatient.nodes()
        assert time.monotonic() - began < 10
    finally:
        world.controller_wakes()
    assert world.slurm.jobs() == ()

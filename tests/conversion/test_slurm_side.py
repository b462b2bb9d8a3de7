"""What Slurm's side promises of a machine that converts: on the fake, and on a real slurmctld with real slurmd."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from tests.clients.slurm.conftest import here, real
from tests.clients.slurm.real import eventually
from tests.clients.slurm.world import FakeWorld, World, up, wait_for_job, wait_for_nodes
from tidepool.clients.slurm import JobRequest, JobState, NodeBase, NodeFlag
from tidepool.cluster.hostlist import expand
from tidepool.conversion.ports import OUR_HOLD, ConversionError
from tidepool.conversion.record import Work
from tidepool.conversion.slurm_side import SlurmSide

__all__ = ["here", "real"]

REASON = f"{OUR_HOLD} kubernetes (person: a test)"


@pytest.fixture(params=["fake", "here"])
def slurm_world(request: pytest.FixtureRequest) -> World:
    if request.param == "fake":
        return FakeWorld()
    found: World = request.getfixturevalue("here")
    return found


def sleeper(folder: Path, *, requeue: bool = True) -> JobRequest:
    """A job that runs on, and whose standard error is a file below ``folder``."""
    script = f"#!/bin/sh\n#SBATCH --output={folder}/out-%j\nsleep 300\n"
    return JobRequest(script, memory_mib=100, requeue=requeue, time_limit_s=3600)


def test_a_slot_is_absent_and_a_node_serves(slurm_world: World) -> None:
    name = slurm_world.slots(1)
    side = SlurmSide(slurm_world.slurm, name)
    assert side.see() == "absent"
    assert side.work() == ()
    side.prepare()
    side.admit()
    slurm_world.boot(name)
    eventually(side.see, lambda sight: sight == "serving")


def test_a_node_that_slurm_does_not_know_is_absent_and_cannot_be_prepared(slurm_world: World) -> None:
    side = SlurmSide(slurm_world.slurm, "nobody-1")
    assert side.see() == "absent"
    side.hold(REASON)
    side.remove_node()
    with pytest.raises(ConversionError, match="tidepool up"):
        side.prepare()


def test_a_hold_of_ours_is_released_and_one_of_a_person_is_not(slurm_world: World) -> None:
    name = up(slurm_world, 1)
    side = SlurmSide(slurm_world.slurm, name)
    side.hold(REASON)
    assert (side.see(), side.held_by()) == ("held", "")
    side.release()
    eventually(side.see, lambda sight: sight == "serving")
    slurm_world.slurm.drain(name, "bad disk")
    side.hold(REASON)
    side.release()
    side.admit()
    assert side.see() == "held"
    assert side.held_by() == "root (bad disk)"


def test_a_job_is_work_until_it_has_ended(slurm_world: World, tmp_path: Path) -> None:
    name = up(slurm_world, 1)
    side = SlurmSide(slurm_world.slurm, name)
    job_id = slurm_world.slurm.submit(sleeper(tmp_path)).job_id
    wait_for_job(slurm_world, job_id, JobState.RUNNING)
    side.hold(REASON)
    assert side.see() == "held"
    (work,) = side.work()
    assert (work.kind, work.name, work.owner, work.fate) == ("job", str(job_id), "root", "runs")
    limit = datetime.now(UTC) + timedelta(hours=1)
    assert work.text.startswith(f"it may run until {limit:%Y-%m-%d}")
    with pytest.raises(ConversionError, match=str(job_id)):
        side.remove_node()
    slurm_world.slurm.cancel(job_id)
    eventually(lambda: (side.see(), side.work()), lambda seen: seen == ("held", ()))
    side.remove_node()
    assert side.see() == "absent"


def test_jobs_are_taken_away_and_their_owners_told(slurm_world: World, tmp_path: Path) -> None:
    name = up(slurm_world, 1)
    side = SlurmSide(slurm_world.slurm, name)
    again, once = (
        slurm_world.slurm.submit(sleeper(tmp_path, requeue=requeue)).job_id for requeue in (True, False)
    )
    for job_id in (again, once):
        wait_for_job(slurm_world, job_id, JobState.RUNNING)
    side.hold(REASON)
    done = {work.name: work for work in side.force_out(side.work(), "shared-1 moves to kubernetes by force")}
    assert (done[str(again)].fate, done[str(once)].fate) == ("requeued", "cancelled")
    for job_id in (again, once):
        said = slurm_world.comment(job_id)
        assert said == f"tidepool: job {job_id} is taken from {name}: shared-1 moves to kubernetes by force"
    if (out := tmp_path / f"out-{again}").exists():
        assert "moves to kubernetes by force" in out.read_text()
    eventually(lambda: (side.see(), side.work()), lambda seen: seen == ("held", ()))
    side.remove_node()
    assert side.see() == "absent"
    wait_for_job(slurm_world, again, JobState.PENDING)
    wait_for_job(slurm_world, once, JobState.CANCELLED)


@pytest.mark.parametrize("requeue", [True, False], ids=["requeued", "cancelled"])
def test_of_an_array_the_machines_own_task_alone_is_taken_away(
    slurm_world: World, tmp_path: Path, requeue: bool
) -> None:
    """Also the task that began last: its number is that of the array, and would name all of its tasks."""
    names = expand(up(slurm_world, 3))
    request = replace(sleeper(tmp_path, requeue=requeue), cpus_per_task=2, array="1-3")
    array = slurm_world.slurm.submit(request).job_id
    tasks = eventually(
        slurm_world.slurm.jobs, lambda jobs: [job.state for job in jobs] == [JobState.RUNNING] * 3
    )
    (own,) = [job for job in tasks if job.job_id == array]
    assert {job.nodelist for job in tasks} == set(names)
    side = SlurmSide(slurm_world.slurm, own.nodelist)
    side.hold(REASON)
    (work,) = side.force_out(side.work(), "it moves")
    assert (work.name, work.fate) == (str(array), "requeued" if requeue else "cancelled")
    wanted = JobState.PENDING if requeue else JobState.CANCELLED
    eventually(
        lambda: [job.state for job in slurm_world.slurm.job(array) if job.job_id == array],
        lambda states: states == [wanted],
    )
    for job in (job for job in tasks if job.job_id != array):
        (now,) = slurm_world.slurm.job(job.job_id)
        assert (now.state, now.start_time) == (JobState.RUNNING, job.start_time)
        assert slurm_world.comment(job.job_id) == ""


def test_a_job_on_two_machines_that_go_together_is_requeued_and_not_cancelled(
    here: World, tmp_path: Path
) -> None:
    names = expand(up(here, 2))
    job_id = here.slurm.submit(replace(sleeper(tmp_path), nodes="2")).job_id
    wait_for_job(here, job_id, JobState.RUNNING)
    sides = [SlurmSide(here.slurm, name) for name in names]
    for side in sides:
        side.hold(REASON)
    seen = [side.work() for side in sides]
    both = Barrier(2)

    def take(side: SlurmSide, work: tuple[Work, ...]) -> list[str]:
        both.wait(30)
        return [each.fate for each in side.force_out(work, "it moves")]

    with ThreadPoolExecutor(2) as at_once:
        fates = [fate for taken in at_once.map(take, sides, seen) for fate in taken]
    # One that looks when the other is done sees none any more.
    assert set(fates) == {"requeued"}
    wait_for_job(here, job_id, JobState.PENDING)


def test_a_job_whose_slurmd_is_gone_does_not_hold_for_ever(slurm_world: World, tmp_path: Path) -> None:
    """Slurmd is killed: nobody says that the job has ended, until the node is said to be down."""
    name = up(slurm_world, 1)
    skipped = timedelta()
    side = SlurmSide(slurm_world.slurm, name, lambda: datetime.now(UTC) + skipped)
    job_id = slurm_world.slurm.submit(sleeper(tmp_path)).job_id
    wait_for_job(slurm_world, job_id, JobState.RUNNING)
    if not isinstance(slurm_world, FakeWorld):
        # Slurm says so before slurmd has begun; killed then, the job fails by itself, and Slurm drains the node for that.
        eventually((tmp_path / f"out-{job_id}").exists, bool)
    slurm_world.unplug(name)
    side.hold(REASON)
    (work,) = side.force_out(side.work(), "it moves")
    assert work.fate == "requeued"
    skipped = timedelta(seconds=61)
    eventually(lambda: (side.force_out(side.work(), "it moves"), side.work())[1], lambda there: there == ())
    side.remove_node()
    assert side.see() == "absent"
    wait_for_job(slurm_world, job_id, JobState.PENDING)
    # And the node that comes back is not down for our sake.
    slurm_world.boot(name)
    wait_for_nodes(slurm_world, name, lambda node: not node.state.is_slot)
    eventually(lambda: (side.admit(), side.see())[1], lambda sight: sight == "serving")


def test_a_job_that_came_after_the_look_is_not_touched_before_it_is_written_down(
    slurm_world: World, tmp_path: Path
) -> None:
    name = up(slurm_world, 1)
    later = [timedelta(0)]
    side = SlurmSide(slurm_world.slurm, name, lambda: datetime.now(UTC) + later[0])
    first = slurm_world.slurm.submit(sleeper(tmp_path)).job_id
    wait_for_job(slurm_world, first, JobState.RUNNING)
    seen = side.work()
    # slurmctld had chosen the node for it before it was held.
    late = slurm_world.slurm.submit(sleeper(tmp_path)).job_id
    wait_for_job(slurm_world, late, JobState.RUNNING)
    side.hold(REASON)
    assert [(work.name, work.fate) for work in side.force_out(seen, "it moves")] == [(str(first), "requeued")]
    eventually(lambda: [work.name for work in side.work()], lambda names: names == [str(late)])
    # Nor by setting the node down, for which all that it took away has had long enough.
    later[0] = timedelta(minutes=5)
    assert side.force_out(seen, "it moves") == ()
    assert slurm_world.slurm.job(late)[0].state is JobState.RUNNING
    (work,) = side.work()
    assert [each.fate for each in side.force_out((work,), "it moves")] == ["requeued"]


def test_a_controller_that_does_not_answer_is_no_empty_node(slurm_world: World) -> None:
    name = up(slurm_world, 1)
    side = SlurmSide(slurm_world.slurm, name)
    slurm_world.controller_dies()
    try:
        for call in (side.see, side.work, side.remove_node, side.release, side.prepare):
            with pytest.raises(ConversionError, match="slurmctld does not answer"):
                call()
    finally:
        slurm_world.controller_returns()


def test_a_node_that_is_down_joins_and_one_that_is_failing_is_held() -> None:
    world = FakeWorld()
    name = up(world, 1)
    side = SlurmSide(world.slurm, name)
    world.slurm.down(name, "its plug was pulled")
    assert side.see() == "joining"
    world.slurm.resume(name)
    world.fake.flag(name, NodeFlag.FAIL)
    assert side.see() == "held"
    assert side.held_by() == "somebody"
    assert world.slurm.nodes(name)[0].state.base is NodeBase.IDLE


def test_a_node_that_a_person_set_down_is_down_for_that_when_it_is_given_up(slurm_world: World) -> None:
    name = up(slurm_world, 1)
    side = SlurmSide(slurm_world.slurm, name)
    slurm_world.slurm.down(name, "bad disk, do not use")
    for does in (partial(side.hold, REASON), side.release, side.admit):
        does()
        (node,) = slurm_world.slurm.nodes(name)
        assert (node.state.base, node.reason and node.reason.text) == (NodeBase.DOWN, "bad disk, do not use")
    assert (side.see(), side.work()) == ("joining", ())


def test_an_empty_answer_is_no_missing_node() -> None:
    world = FakeWorld()
    side = SlurmSide(world.slurm, up(world, 1))
    world.fake.controller = "empty"
    with pytest.raises(ConversionError, match="told of 0"):
        side.see()

"""Runs in memory: how each ends; and killed at every call of every port, on one machine or on several, each ends as it would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runs.workloads import job
from tests.runs.world import Killed, World, check
from tidepool.runs.record import Run

DAG = (
    job("split"),
    job("left", after=["split"]),
    job("right", after=["split"]),
    job("join", after=["left", "right"]),
)


def phases(run: Run) -> list[str]:
    return [name for name in sorted(run.began, key=run.began.__getitem__) if "/" not in name]


def test_a_run_goes_through_all_phases_and_ends(tmp_path: Path) -> None:
    world = World.of(tmp_path, *DAG)
    run = world.to_the_end()
    check(world, run)
    assert run.outcome == "succeeded"
    assert phases(run) == [
        "checked", "up", "staging", "submitting", "running", "collecting", "verifying", "down", "done",
    ]  # fmt: skip
    assert set(world.results) == {"out/split", "out/left", "out/right", "out/join"}
    assert run.nodes == ("cpu-1",)
    assert run.images == {"debian-12": "sha256:1"}
    assert run.cost.usd > 0


def test_no_job_begins_before_all_are_written_down(tmp_path: Path) -> None:
    world = World.of(tmp_path, *DAG)
    world.to_the_end()
    calls = [call for call in world.calls if call.startswith("jobs.") and call != "jobs.see"]
    assert calls == ["jobs.submit"] * 4 + ["jobs.release"]


def test_a_failed_job_fails_the_run_and_what_waited_for_it_is_cancelled(tmp_path: Path) -> None:
    world = World.of(tmp_path, *DAG, failing_jobs=frozenset({"left"}))
    run = world.to_the_end()
    check(world, run)
    assert (run.outcome, run.turned_in) == ("failed", "running")
    assert run.because.startswith("of 4 jobs 2 failed: left, join")
    assert set(world.results) == {"out/split", "out/right"}


@pytest.mark.parametrize(
    ("limit", "outcome"), [({"deadline_s": 120}, "deadline"), ({"budget_usd": 0.1}, "budget")]
)
def test_what_passes_ends_it_in_order(tmp_path: Path, limit: dict[str, Any], outcome: str) -> None:
    world = World.of(tmp_path, job("short"), job("long"), lengths={"short": 10.0, "long": 9999.0}, **limit)
    run = world.to_the_end()
    check(world, run)
    assert (run.outcome, run.turned_in) == (outcome, "running")
    assert phases(run)[4:7] == ["running", "stopping", "collecting"]
    # Jobs heard a signal, and what they wrote is kept.
    assert set(world.results) == {"out/short", "out/long"}


def test_a_deadline_before_jobs_ran_ends_it_without_results(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), deadline_s=10)
    run = world.to_the_end()
    check(world, run)
    assert (run.outcome, phases(run)) == ("deadline", ["checked", "up", "down", "done"])


def test_a_cancel_ends_it_in_order(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), lengths={"first": 9999.0})
    _at(world, "jobs.see", 5, lambda: world.journal().cancel("physics-run-1", "bob"))
    run = world.to_the_end()
    check(world, run)
    assert (run.outcome, run.because) == ("cancelled", "cancelled by bob")
    assert set(world.results) == {"out/first"}


def test_outputs_that_match_nothing_fail_it_and_others_are_kept(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), outputs=("out/*", "*.h5"))
    run = world.to_the_end()
    check(world, run)
    assert (run.outcome, run.turned_in) == ("failed", "collecting")
    assert "no file matches *.h5 (outputs)" in run.because
    assert set(world.results) == {"out/first"}


def test_a_result_that_is_not_what_was_written_is_written_once_more(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), spoiled={"out/first"})
    run = world.to_the_end()
    assert run.outcome == "succeeded"
    assert world.result_writes == {"out/first": 2}


def test_a_cluster_is_kept_after_a_failure_for_as_long_as_was_said(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), failing_jobs=frozenset({"first"}), outputs=(), keep_on_failure_s=7200)
    run = world.to_the_end()
    check(world, run)
    assert 7200 <= (run.began["down"] - run.began["kept"]).total_seconds() < 7210


def test_a_kept_cluster_goes_when_somebody_lets_it_go(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), failing_jobs=frozenset({"first"}), outputs=(), keep_on_failure_s=7200)
    _when(
        world,
        lambda call: world.told[-1].phase == "kept",
        lambda: world.journal().cancel("physics-run-1", "bob"),
    )
    run = world.to_the_end()
    check(world, run)
    assert run.outcome == "failed"
    assert (run.began["down"] - run.began["kept"]).total_seconds() < 600


@pytest.mark.parametrize("call", ["cluster.up", "files.stage", "files.upload"])
def test_what_is_refused_ends_it(tmp_path: Path, call: str) -> None:
    world = World.of(tmp_path, job(), refusals={call})
    run = world.to_the_end()
    check(world, run)
    assert (run.outcome, run.because) == ("failed", f"{call} is refused")


@pytest.mark.parametrize(
    ("call", "because"),
    [
        ("records.claim", "it was not begun within 60 s: records.claim does not answer"),
        ("cluster.up", "the cluster did not come up within 1800 s: cluster.up does not answer"),
        ("files.stage", "the inputs did not come within 1800 s"),
        ("jobs.submit", "the jobs were not submitted within 600 s"),
        ("files.upload", "the outputs were not kept within 1800 s"),
        ("files.verify", "the results were not verified within 600 s"),
    ],
)
def test_what_never_works_ends_it(tmp_path: Path, call: str, because: str) -> None:
    world = World.of(tmp_path, job(), faults={call})
    run = world.to_the_end()
    check(world, run)
    assert run.outcome == "failed"
    assert run.because.startswith(because)
    if call == "records.claim":
        assert world.machines == 0
    # What is nowhere else stays on /home, and what is, does not.
    assert bool(world.home) is (call in ("files.upload", "files.verify"))


def test_a_cluster_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), lengths={"first": 9999.0})
    _at(world, "jobs.see", 6, lambda: world.faults.update({"jobs.see"}))
    run = world.to_the_end()
    check(world, run)
    assert run.outcome == "failed"
    assert "the cluster did not answer within" in run.because


def test_a_cluster_that_somebody_took_down_ends_it(tmp_path: Path) -> None:
    world = World.of(tmp_path, job(), lengths={"first": 9999.0})
    _at(world, "cluster.see", 12, world.lose)
    run = world.to_the_end()
    check(world, run)
    assert "its cluster is gone" in run.because


@pytest.mark.parametrize("call", ["cluster.up", "cluster.down"])
def test_an_operation_that_was_cut_off_is_gone_on_with_though_slurm_does_not_answer(
    tmp_path: Path, call: str
) -> None:
    world = World.of(tmp_path, job())
    killed: list[str] = []

    def happens(name: str, after: bool) -> None:
        if name == call and after and world.cluster == "partial" and not killed:
            killed.append(name)
            raise Killed

    world.happens = happens
    run = world.to_the_end()
    check(world, run)
    assert killed == [call]
    assert run.outcome == "succeeded"


def test_results_that_are_away_for_a_while_only_delay_it(tmp_path: Path) -> None:
    world = World.of(tmp_path, *DAG)
    _at(
        world,
        "jobs.see",
        6,
        lambda: world.faults.update({"records.publish", "records.claim", "files.upload"}),
    )
    _at(world, "files.upload", 40, world.faults.clear)
    run = world.to_the_end()
    check(world, run)
    assert run.outcome == "succeeded"


#: Short jobs, so that few looks are alike.
SHORT: dict[str, Any] = {"lengths": dict.fromkeys(("split", "left", "right", "join"), 1.0)}


def _calls(tmp_path: Path) -> int:
    world = World.of(tmp_path / "whole", *DAG, **SHORT)
    world.to_the_end()
    return len(world.calls)


def _killed_at_each(tmp_path: Path, machines: tuple[int, ...], after: bool) -> None:
    # Of several machines, the second driver is killed as many calls later as the first.
    for number in range(_calls(tmp_path)):
        world = World.of(tmp_path / f"{number}", *DAG, **SHORT)
        _kill_at(world, number, after, times=max(1, len(machines) - 1))
        run = (
            world.to_the_end(*machines)
            if _is_ordered_elsewhere(world, number, machines)
            else world.to_the_end()
        )
        check(world, run)
        assert run.outcome == "succeeded", (number, run)
        assert len(world.results) == 4


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_call_it_ends_as_it_would(tmp_path: Path, after: bool) -> None:
    _killed_at_each(tmp_path, (0,), after)


@pytest.mark.slow
@pytest.mark.parametrize("machines", [(0, 1), (0, 1, 0)], ids=["elsewhere", "elsewhere and here"])
def test_killed_at_any_call_another_machine_ends_it(tmp_path: Path, machines: tuple[int, ...]) -> None:
    _killed_at_each(tmp_path, machines, after=True)


def _is_ordered_elsewhere(world: World, number: int, machines: tuple[int, ...]) -> bool:
    """Before the copy is there, only the machine that began it knows of it; and nothing was made."""
    return len(machines) == 1 or number > 1


def _kill_at(world: World, number: int, after: bool, times: int) -> None:
    left = [number + i * (number or 1) for i in range(times)]

    def happens(call: str, is_after: bool) -> None:
        if left and len(world.calls) - 1 == left[0] and is_after is after:
            del left[0]
            raise Killed

    world.happens = happens


def _at(world: World, call: str, number: int, what: Callable[[], object]) -> None:
    """Have something happen before the call of that number, once."""
    _when(world, lambda name: name == call and world.calls.count(call) > number, what)


def _when(world: World, is_time: Callable[[str], bool], what: Callable[[], object]) -> None:
    """Have something happen before the first call at which it is time, beside what happens already."""
    before = world.happens
    done: list[bool] = []

    def happens(name: str, after: bool) -> None:
        before(name, after)
        if not after and not done and is_time(name):
            done.append(True)
            what()

    world.happens = happens

"""The course of a trial: what is due, what can never run, when it is over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.course import Course
from tidepool.lab.schedulers.contract import JobState
from tidepool.lab.workload import Job, Sleep, Workload


def _job(name: str, at_s: float = 0.0, *after: str) -> Job:
    return Job(name, at_s, Sleep(1), after=after)


def _course(*jobs: Job, waits_itself: bool = False) -> Course:
    return Course(Workload("w", "bag", 1, jobs), waits_itself)


def _ended(name: str, succeeded: bool = True) -> JobState:
    return JobState(name, "ended", False, True, succeeded)


def _names(course: Course, now_s: float) -> list[str]:
    return [job.name for job in course.due(now_s)]


def test_jobs_are_due_at_their_seconds_once() -> None:
    course = _course(_job("a"), _job("b", 2.0))
    assert _names(course, 0.0) == ["a"]
    assert course.next_s(0.0) == 2.0
    course = course.with_submitted([course.workload.jobs[0]], 0.1, 0.2)
    assert _names(course, 1.9) == []
    assert _names(course, 2.0) == ["b"]
    assert course.submitted["a"] == (0.1, 0.2)


def test_a_scheduler_without_dependencies_is_handed_a_job_when_those_before_it_succeeded() -> None:
    jobs = _job("a"), _job("b", 0.0, "a")
    assert _names(_course(*jobs, waits_itself=True), 0.0) == ["a", "b"]
    course = _course(*jobs)
    assert _names(course, 5.0) == ["a"]
    course = course.with_submitted(jobs[:1], 0.0, 0.0)
    assert _names(course.with_states([JobState("a", "RUNNING", True, False, False)]), 5.0) == []
    assert _names(course.with_states([_ended("a")]), 5.0) == ["b"]


def test_what_waits_for_a_job_that_failed_is_cancelled_or_never_handed_over() -> None:
    jobs = _job("c", 0.0, "b"), _job("b", 0.0, "a"), _job("a")
    failed = [_ended("a", succeeded=False)]
    course = _course(*jobs).with_submitted(jobs[2:], 0.0, 0.0).with_states(failed)
    assert course.hopeless == {"b", "c"}
    assert course.to_cancel == ()
    assert course.is_over
    all_there = _course(*jobs, waits_itself=True).with_submitted(jobs, 0.0, 0.0).with_states(failed)
    assert all_there.to_cancel == ("c", "b")
    assert not all_there.is_over
    cancelled = all_there.with_cancelled(all_there.to_cancel)
    assert cancelled.to_cancel == ()
    assert cancelled.with_states([_ended("b", False), _ended("c", False)]).is_over


def test_a_job_that_has_ended_stays_so() -> None:
    course = _course(_job("a")).with_states([_ended("a")])
    assert course.with_states([JobState("a", "RUNNING", True, False, False)]).states["a"].ended


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[tuple[Job, ...], dict[str, bool]]:
    count = draw(st.integers(1, 8))
    jobs = []
    for i in range(count):
        after = draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else set()
        jobs.append(_job(f"j{i}", float(draw(st.integers(0, 3))), *(f"j{each}" for each in sorted(after))))
    well = {job.name: draw(st.booleans()) for job in jobs}
    return tuple(draw(st.permutations(jobs))), well


@given(_graphs(), st.booleans())
def test_every_course_comes_to_its_end(
    graph: tuple[tuple[Job, ...], dict[str, bool]], waits_itself: bool
) -> None:
    jobs, well = graph
    course = _course(*jobs, waits_itself=waits_itself)
    by_name = {job.name: job for job in jobs}
    for now_s in range(4 + len(jobs)):
        due = course.due(float(now_s))
        assert not {job.name for job in due} & course.submitted.keys()
        course = course.with_submitted(due, now_s, now_s)
        can_run = [
            name
            for name in course.open
            if all(each in course.states and course.states[each].succeeded for each in by_name[name].after)
        ]
        course = course.with_states(_ended(name, well[name]) for name in can_run)
        told_to_end = course.to_cancel
        course = course.with_cancelled(told_to_end).with_states(_ended(name, False) for name in told_to_end)
    assert course.is_over
    for job in jobs:
        may = all(course.states[each].succeeded if each in course.states else False for each in job.after)
        assert (job.name in course.states and course.states[job.name].succeeded) == (may and well[job.name])

"""Traces in the Standard Workload Format: what is read, what is broken and named, what never ran."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.simulation.replay import TraceError, read_trace
from tidepool.simulation.replay.trace import read_swf

HEAD = ["; Version: 2", "; UnixStartTime: 1767571200", ";   Note: made up"]


def line(**fields: object) -> str:
    """A line of a job that waited 5 s and ran 100 s on 4 processors."""
    values: dict[str, object] = {
        "number": 1,
        "submit": 10,
        "wait": 5,
        "run": 100,
        "allocated": 4,
        "cpu": -1,
        "used": -1,
        "asked": 4,
        "limit": 600,
        "memory": -1,
        "status": 1,
        "user": 3,
        "group": 2,
        "executable": -1,
        "queue": 1,
        "partition": -1,
        "preceding": -1,
        "think": -1,
    }
    assert fields.keys() <= values.keys()
    return " ".join(str(value) for value in {**values, **fields}.values())


def test_a_job_is_what_its_line_says() -> None:
    trace = read_swf([*HEAD, line(memory=2048 * 1024)])
    (job,) = trace.jobs
    assert trace.begin == datetime(2026, 1, 5, tzinfo=UTC)
    assert (job.name, job.submit_s, job.run_s, job.cpus, job.time_limit_s) == ("1", 10, 100, 4, 601)
    assert (job.memory_per_cpu_mib, job.account) == (2048, "group-2")


def test_what_is_not_known_is_not_made_up() -> None:
    (job,) = read_swf([line(asked=-1, limit=-1, group=-1)]).jobs
    assert (job.cpus, job.time_limit_s, job.memory_per_cpu_mib, job.account) == (4, None, 0, "")


def test_a_job_that_ran_longer_than_it_asked_for_is_let_run() -> None:
    (job,) = read_swf([line(run=700, limit=600)]).jobs
    assert job.time_limit_s is not None
    assert job.time_limit_s > job.run_s


def test_jobs_are_in_the_order_of_their_submission() -> None:
    trace = read_swf([line(number=1, submit=20), line(number=2, submit=10)])
    assert [job.name for job in trace.jobs] == ["2", "1"]


def test_jobs_that_were_cancelled_before_they_began_are_counted() -> None:
    trace = read_swf([line(run=0, status=5), line(run=-1, status=5), line()])
    assert (trace.not_run, len(trace.jobs), trace.broken) == (2, 1, ())


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("1 2 3", "3 fields in place of 18"),
        (line() + " 4", "19 fields in place of 18"),
        (line(run="x"), "its run time is 'x', which is no number"),
        (line(run="nan"), "no number"),
        (line(submit="inf"), "no number"),
        (line(submit=-5), "its submit time is -5"),
        (line(run=-7), "its run time is -7"),
        (line(asked=0, allocated=0), "it asks for 0 processors"),
        ("x" * 5000, "5000 characters long"),
    ],
)
def test_broken_lines_are_named_with_their_number_and_the_reason(broken: str, said: str) -> None:
    trace = read_swf([*HEAD, line(number=1), broken, line(number=2)])
    assert [job.name for job in trace.jobs] == ["1", "2"]
    (found,) = trace.broken
    assert found.line == 5
    assert said in found.reason
    assert str(found).startswith("line 5: ")


@given(st.lists(st.text(st.characters(exclude_characters="\n\r"))))
def test_whatever_is_read_is_a_job_or_broken_or_nothing(lines: list[str]) -> None:
    trace = read_swf(lines)
    assert len(trace.jobs) + len(trace.broken) + trace.not_run <= len(lines)
    assert all(job.run_s > 0 and job.cpus > 0 for job in trace.jobs)


def test_a_packed_file_is_read_as_well(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.swf", tmp_path / "a.swf.gz"
    text = "\n".join([*HEAD, line()])
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_trace(plain) == read_trace(packed)


def test_files_that_are_no_traces_are_told_of(tmp_path: Path) -> None:
    empty, damaged, foreign = (tmp_path / name for name in ("empty", "damaged.gz", "foreign"))
    empty.write_text("; nothing\n")
    damaged.write_bytes(gzip.compress(b"1 2 3\n" * 1000)[:40])
    foreign.write_bytes(bytes(range(256)) * 10)
    for path, said in (
        (empty, "no job in it"),
        (damaged, "damaged"),
        (foreign, "broken"),
        (tmp_path / "none", "No such"),
    ):
        with pytest.raises(TraceError, match=said):
            read_trace(path)

"""Commands of tasks."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.programs.command import command, uses_mpi
from tidepool.lab.workload import Compute, Job, RunKernel, Sleep

PROGRAMS, RECORDS = PurePosixPath("/home/lab/programs"), PurePosixPath("/home/lab/records/t")


def test_each_program_has_its_arguments() -> None:
    jobs = [
        Job("a", 0, Sleep(1.5)),
        Job("b", 0, Compute(2), exit_code=3),
        Job("c", 0, RunKernel("ping_pong", (65536, 10)), tasks=2),
        Job("d", 0, RunKernel("stream")),
    ]
    assert [command(job, PROGRAMS, RECORDS) for job in jobs] == [
        ("/home/lab/programs/probe", "/home/lab/records/t", "a", "0", "sleep", "1.500000"),
        ("/home/lab/programs/probe", "/home/lab/records/t", "b", "3", "compute", "2.000000"),
        ("/home/lab/programs/ping_pong", "/home/lab/records/t", "c", "0", "65536", "10"),
        ("/home/lab/programs/stream", "/home/lab/records/t", "d", "0"),
    ]
    assert [uses_mpi(job) for job in jobs] == [False, False, True, False]


@given(st.floats(0, 1e6))
def test_seconds_are_written_as_c_reads_them(seconds: float) -> None:
    written = command(Job("a", 0, Sleep(seconds)), PROGRAMS, RECORDS)[-1]
    assert abs(float(written) - seconds) <= 1e-6
    assert set(written) <= set("0123456789.")

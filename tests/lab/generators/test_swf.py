"""Traces: what is taken of their lines, how it is scaled, and which lines are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.workload import Job, Sleep, Workload

HEAD = "; Version: 2.2\n; MaxNodes: 64\n; MaxProcs: 128\n;\n"


def line(number: int, submit: float, run: float, processors: int = 1, **said: float) -> str:
    """Return a line of the format; fields by their published numbers: ``f8``."""
    fields = [number, submit, -1, run, processors, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1]
    for name, value in said.items():
        fields[int(name.removeprefix("f")) - 1] = value
    return " ".join(f"{each:g}" for each in fields) + "\n"


def replayed(tmp_path: Path, text: str, **parameters: object) -> tuple[Job, ...]:
    path = tmp_path / "trace.swf"
    path.write_text(text)
    return make_workload("night", "swf", {"file": str(path)} | parameters, seed=1).jobs


def test_jobs_are_scaled_and_begin_with_the_first(tmp_path: Path) -> None:
    text = HEAD + line(7, 1000, 600, 128) + "\n" + line(8, 4000, 90, 16, f8=32, f9=7_200_000)
    one, other = replayed(tmp_path, text, time_scale=0.01, max_tasks=8)
    assert (one.name, one.submit_at_s, one.program, one.tasks, one.limit_s) == (
        "job-1",
        0.0,
        Sleep(6.0),
        8,
        120.0,
    )
    # 32 were asked for, so 32 it is; and a user's own limit.
    assert (other.submit_at_s, other.program, other.tasks, other.limit_s) == (30.0, Sleep(0.9), 2, 72_000.0)
    assert [job.tasks for job in replayed(tmp_path, text)] == [128, 32]


def test_jobs_that_never_ran_and_parts_of_jobs_are_left_out(tmp_path: Path) -> None:
    text = (
        line(1, 0, -1)
        + line(2, 1, 0)
        + line(3, 2, 5, -1)
        + line(4, 3, 5, f11=2)
        + line(5, 4, 5, f11=5)
        + line(6, 5, 7)
    )
    assert [job.submit_at_s for job in replayed(tmp_path, text, time_scale=1)] == [0.0, 1.0]


def test_a_part_of_a_trace_is_taken_also_compressed(tmp_path: Path) -> None:
    text = HEAD + "".join(line(n, 10 * n, n) for n in range(1, 30))
    path = tmp_path / "trace.swf.gz"
    path.write_bytes(gzip.compress(text.encode()))
    parameters = {"file": str(path), "first": 11, "number": 5, "time_scale": 1.0}
    made: Workload = make_workload("night", "swf", parameters, seed=1)
    assert [job.program for job in made.jobs] == [Sleep(float(n)) for n in range(11, 16)]
    assert [job.name for job in made.jobs] == [f"job-{n}" for n in range(1, 6)]


def test_jobs_wait_for_those_before_them_where_that_is_asked_for(tmp_path: Path) -> None:
    text = line(1, 0, 5) + line(2, 1, 5, f17=1) + line(3, 2, 5, f17=99)
    assert [job.after for job in replayed(tmp_path, text, dependencies=True)] == [(), ("job-1",), ()]
    assert [job.after for job in replayed(tmp_path, text)] == [(), (), ()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "1 2 3\n",
            "line 2: '1 2 3' is no job of the standard workload format: it has 3 fields, and a job has 18",
        ),
        (line(1, 0, 5).replace(" 5 ", " five "), "a field is no number"),
        (line(1, 0, -2), "its field 4 is -2, and only -1 and numbers from 0 to 1e+12 are allowed"),
        (line(1, 0, 5, f6=float("nan")), "its field 6 is nan"),
        (line(1, -1, 5), "fields 1 and 2"),
    ],
)
def test_lines_that_are_no_jobs_are_told_with_their_number(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(LabError, match=r"trace\.swf, line 2") as raised:
        replayed(tmp_path, "; a comment\n" + text)
    assert reason in str(raised.value)


def test_traces_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot be read: No such file"):
        make_workload("night", "swf", {"file": str(tmp_path / "none")}, seed=1)
    with pytest.raises(LabError, match="has no job number 2 that ran"):
        replayed(tmp_path, line(1, 0, 5), first=2)
    (tmp_path / "trace.gz").write_text("no gzip")
    with pytest.raises(LabError, match="cannot be read"):
        make_workload("night", "swf", {"file": str(tmp_path / "trace.gz")}, seed=1)
    with pytest.raises(LabError, match=r"night\.file: missing\. The trace"):
        make_workload("night", "swf", {}, seed=1)


FIELDS = st.lists(st.one_of(st.integers(-2, 50), st.floats(), st.just("x")), min_size=17, max_size=19)
LINES = st.lists(FIELDS.map(lambda fields: " ".join(map(str, fields))), max_size=3).map("\n".join)


@given(text=st.one_of(st.text(st.characters(codec="utf-8"), max_size=200), LINES))
def test_any_text_is_jobs_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "trace.swf"
    path.write_text(text, encoding="utf-8")
    refusal = ""
    jobs: tuple[Job, ...] = ()
    try:
        jobs = make_workload("night", "swf", {"file": str(path)}, seed=1).jobs
    except LabError as error:
        refusal = str(error)
    assert bool(jobs) != (str(path) in refusal)

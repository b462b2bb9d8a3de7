"""Programs as they really run: what their records say is what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tidepool.lab.errors import LabError
from tidepool.lab.outcome import ProcessRecord
from tidepool.lab.programs import SOURCES
from tidepool.lab.programs.build import build
from tidepool.lab.programs.command import command
from tidepool.lab.programs.records import clear_records, read_records, refuse_full
from tidepool.lab.workload import Compute, Job, RunKernel, Sleep

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which takes root")
WITHOUT_MPI = ("probe", "matrix", "stream")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    build(folder, WITHOUT_MPI)
    return folder


@pytest.fixture
def records(tmp_path: Path) -> Path:
    folder = tmp_path / "records"
    folder.mkdir()
    return folder


def run(
    argv: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=environment or {}, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_process_writes_when_it_began_and_ended_where_and_how(programs: Path, records: Path) -> None:
    began = time.time()
    done = run(command(Job("a", 0, Sleep(0.2), exit_code=3), programs, records))
    lasted = time.time() - began

    (process,) = read_records(records, began)["a"]

    assert (done.returncode, process.exit_code) == (3, 3), done.stderr
    assert process.ended_s is not None
    assert 0 <= process.started_s < process.ended_s <= lasted
    assert process.ended_s - process.started_s >= 0.2
    assert (process.rank, process.attempt, process.machine) == (0, 1, os.uname().nodename)
    assert set(process.cpus) == os.sched_getaffinity(0)


@pytest.mark.parametrize("ahead_s", [-7.0, 90.0])
def test_times_of_machines_with_clocks_of_their_own_are_those_of_the_host(
    programs: Path, records: Path, ahead_s: float
) -> None:
    began = time.time()
    for name in ("a", "b"):
        run(command(Job(name, 0, Sleep(0.2)), programs, records))
    here = read_records(records, began)
    for path in records.glob("*/*"):
        _as_of_a_clock_that_is_behind(path, ahead_s)

    for _ in range(2):  # who reads them changes nothing
        there = read_records(records, began, own_clocks=True)
        for name in ("a", "b"):
            (own,), (moved,) = here[name], there[name]
            assert moved.started_s == pytest.approx(own.started_s, abs=0.05)
            assert moved.ended_s == pytest.approx(own.ended_s, abs=0.05)


@is_root
def test_a_trial_whose_processes_had_no_room_for_records_is_told(programs: Path, records: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", records], check=True)
    try:
        trial = records / "trial"
        clear_records(trial)
        refuse_full(trial)
        assert not list(trial.iterdir())
        with suppress(OSError), (records / "other").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        assert run(command(Job("a", 0, Sleep(0)), programs, trial)).returncode == 73
        with pytest.raises(
            LabError, match=r"trial, where .* takes no more: No space left .*; free some space"
        ):
            refuse_full(trial)
        (records / "other").unlink()
        clear_records(trial)
        assert run(command(Job("a", 0, Sleep(0)), programs, trial)).returncode == 0
        refuse_full(trial)
    finally:
        subprocess.run(["umount", records], check=True)


def _as_of_a_clock_that_is_behind(path: Path, by_s: float) -> None:
    """Write a record as a machine would have whose clock is so many seconds behind; its file keeps its times."""
    by_ns, made = round(by_s * 1e9), path.stat()
    rank, start_ns, pid = path.name.split(".")
    lines = []
    for line in path.read_text().splitlines():
        words = line.split(" ")
        lines.append(f"end {int(words[1]) - by_ns} {words[2]}" if words[0] == "end" else line)
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, ns=(made.st_atime_ns, made.st_mtime_ns))
    path.rename(path.with_name(f"{rank}.{int(start_ns) - by_ns}.{pid}"))


def test_its_processors_are_those_that_it_may_run_on(programs: Path, records: Path) -> None:
    one = max(os.sched_getaffinity(0))
    run(["taskset", "--cpu-list", str(one), *command(Job("a", 0, Sleep(0)), programs, records)])
    assert read_records(records, 0)["a"][0].cpus == (one,)


def test_a_process_that_computes_has_had_its_processor_time(programs: Path, records: Path) -> None:
    before = os.times()
    run(command(Job("a", 0, Compute(0.3)), programs, records))
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert 0.29 <= used < 0.6  # counted in hundredths


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"SLURM_PROCID": "3"}, 3),
        ({"JOB_COMPLETION_INDEX": "2"}, 2),
        ({"FLUX_TASK_RANK": "1"}, 1),
        ({"PMIX_RANK": "5", "SLURM_PROCID": "0"}, 5),
        ({"OMPI_COMM_WORLD_RANK": "4", "JOB_COMPLETION_INDEX": "0"}, 4),
        ({}, 0),
    ],
)
def test_a_rank_is_what_the_scheduler_says(
    programs: Path, records: Path, environment: Mapping[str, str], rank: int
) -> None:
    run(command(Job("a", 0, Sleep(0)), programs, records), environment)
    assert [process.rank for process in read_records(records, 0)["a"]] == [rank]


@pytest.mark.parametrize("variable", ["SLURMD_NODENAME", "NODE_NAME"])
def test_a_machine_has_the_name_of_its_node(programs: Path, records: Path, variable: str) -> None:
    run(command(Job("a", 0, Sleep(0)), programs, records), {variable: "shared-1"})
    assert read_records(records, 0)["a"][0].machine == "shared-1"


def test_a_process_that_is_killed_has_begun_and_its_next_is_another_attempt(
    programs: Path, records: Path
) -> None:
    argv = command(Job("a", 0, Sleep(60)), programs, records)
    with subprocess.Popen(argv) as process:
        while not read_records(records, 0):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    run(command(Job("a", 0, Sleep(0)), programs, records))

    first, second = read_records(records, 0)["a"]

    assert (first.attempt, first.ended_s, first.exit_code) == (1, None, None)
    assert (second.attempt, second.exit_code) == (2, 0)
    assert first.started_s < second.started_s


def test_what_is_half_written_is_left_out_and_what_is_no_record_is_refused(records: Path) -> None:
    folder = records / "a"
    folder.mkdir()
    whole = "machine n-1\ncpus 0,3\nfigure copy_bytes_per_second 2.5e9\n"
    path = folder / "1.2500000000.77"
    path.write_text(f"{whole}end 3500000")
    expected = ProcessRecord(1, 1, "n-1", (0, 3), 0.5, None, None, {"copy_bytes_per_second": 2.5e9})
    assert read_records(records, 2.0)["a"] == (expected,)

    path.write_text(f"{whole}ended 5\n")
    with pytest.raises(LabError, match="'ended 5' is not understood"):
        read_records(records, 0)
    path.rename(folder / "core")
    with pytest.raises(LabError, match="is no record of a process"):
        read_records(records, 0)


def test_a_trial_without_records_has_none(tmp_path: Path) -> None:
    assert not read_records(tmp_path / "none", 0)


def test_a_product_of_matrices_is_measured(programs: Path, records: Path) -> None:
    # A size that is none of whole blocks.
    done = run(command(Job("a", 0, RunKernel("matrix", (150, 2))), programs, records))
    assert done.returncode == 0, done.stderr
    (process,) = read_records(records, 0)["a"]
    assert list(process.figures) == ["matrix_flops_per_second"]
    assert 1e7 < process.figures["matrix_flops_per_second"] < 1e12


def test_memory_is_measured(programs: Path, records: Path) -> None:
    done = run(command(Job("a", 0, RunKernel("stream", (200_000, 3))), programs, records))
    assert done.returncode == 0, done.stderr
    (process,) = read_records(records, 0)["a"]
    assert list(process.figures) == [
        f"{kernel}_bytes_per_second" for kernel in ("copy", "scale", "add", "triad")
    ]
    assert all(1e8 < value < 1e13 for value in process.figures.values())


@pytest.mark.parametrize("wrong", ["0", "-1", "many", "3x"])
def test_a_wrong_argument_is_told(programs: Path, records: Path, wrong: str) -> None:
    done = run([str(programs / "matrix"), str(records), "a", "0", wrong])
    assert (done.returncode, done.stderr) == (
        64,
        f"{programs}/matrix: argument 1 is {wrong}; a whole number above 0 is wanted\n",
    )


def test_records_that_cannot_be_written_are_told(programs: Path, tmp_path: Path) -> None:
    done = run(command(Job("a", 0, Sleep(0)), programs, tmp_path / "none"))
    assert (done.returncode, done.stderr) == (73, f"{tmp_path}/none/a: No such file or directory\n")


def test_what_is_built_is_not_built_again_unless_it_changed(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("probe.c", "record.h"):
        (sources / name).write_text((SOURCES / name).read_text())

    def built() -> int:
        build(tmp_path / "programs", ["probe"], sources=sources)
        return (tmp_path / "programs/probe").stat().st_ino

    first = built()
    assert built() == first
    with (sources / "probe.c").open("a") as source:
        source.write("/* another */\n")
    assert built() != first
    (sources / "probe.c").write_text("int main(void) { return nothing; }")
    with pytest.raises(LabError, match=r"(?s)does not compile.*nothing.* undeclared"):
        built()
    assert sorted(path.name for path in (tmp_path / "programs").iterdir()) == [".probe.sha256", "probe"]


def test_programs_of_mpi_need_its_headers(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="build the image debian-12-dev first"):
        build(tmp_path, ["ping_pong"])
    with pytest.raises(LabError, match="has no headers of Open MPI"):
        build(tmp_path, ["ping_pong"], mpi_root=tmp_path)

"""Slurm keeps the contract of schedulers, in both releases, and runs programs of MPI: on real machines, with real jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.golden import NEXT_CONVERGED
from tests.lab.schedulers.contract import LONG, Bench, ProgramsContract, job
from tests.lab.schedulers.slurm.testbeds import CPUS, MACHINES, slurm_testbed
from tests.toolchain import needs_kubernetes
from tidepool.lab.programs.build import MPI_IMAGE
from tidepool.lab.programs.records import read_records
from tidepool.lab.schedulers.slurm import KIND
from tidepool.lab.testbed import RECORDS, Testbed
from tidepool.lab.workload import Compute, RunKernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "local",
        *(versions.slurm(image) for image in (MPI_IMAGE, NEXT_CONVERGED)),
        versions.debian("openmpi-bin", "Open MPI", MPI_IMAGE),
    ),
]

#: Of each release one, which other tests have built.
IMAGES = {"22.05": MPI_IMAGE, "24.11": NEXT_CONVERGED}
RELEASES = ["22.05", pytest.param("24.11", marks=needs_kubernetes)]  # which the image has
#: Programs of MPI are linked with the Open MPI of the first, and shown with that alone.
OF_ITS_OWN_MPI = pytest.mark.parametrize("bench", ["22.05"], indirect=True, scope="module")
NODES = {"cpu-1", "cpu-2"}


@pytest.fixture(scope="module", params=RELEASES)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A trial that has begun; afterwards no job of it is left."""
    release = request.param
    folder = tmp_path_factory.mktemp("lab")
    with slurm_testbed(folder, IMAGES[release], slurm_version=release) as testbed:
        assert KIND.missing(testbed) == ()
        scheduler = KIND.open(testbed, {})
        assert scheduler.settings()["SLURM_VERSION"].startswith(release)
        records = RECORDS / "contract"
        here = testbed.here(records)
        here.mkdir()
        scheduler.end()
        scheduler.begin("slurm.contract.1", Path(records))
        yield Bench(scheduler, MACHINES, CPUS, lambda: read_records(here, 0.0))
        scheduler.submit([job("left-running", LONG), job("left-waiting", LONG, after=("left-running",))])
        # Whoever comes after one that was killed knows nothing of its jobs.
        KIND.open(testbed, {}).end()
        assert testbed.slurm.jobs() == ()
        _parameters_are_a_trials_own(testbed)


def _parameters_are_a_trials_own(testbed: Testbed) -> None:
    """Slurm's own defaults while a trial lasts, and then what the spec says; jobs run under both."""
    for parameters in ("", "batch_sched_delay=1,bf_interval=2"):
        own = KIND.open(testbed, {"SchedulerParameters": parameters})
        own.begin("slurm.own.1", Path(RECORDS))
        assert own.settings()["SchedulerParameters"] == (parameters or "(null)")
        own.submit([job("under-own")])
        bench = Bench(own, MACHINES, CPUS, dict)
        assert bench.until_ended("under-own")["under-own"].succeeded
        own.end()
        assert own.settings()["SchedulerParameters"].startswith("batch_sched_delay=0,")


class TestSlurm(ProgramsContract):
    """The contract, and beside it what is Slurm's own."""

    def test_it_has_all_features(self, bench: Bench) -> None:
        assert bench.scheduler.can == {"gang", "array", "dependencies", "priority", "preemption"}

    @OF_ITS_OWN_MPI
    def test_a_program_of_mpi_runs_over_the_nodes_and_is_measured(self, bench: Bench) -> None:
        jobs = [
            job(
                "ring", RunKernel("all_reduce", (4096, 5)), tasks=MACHINES, cpus_per_task=CPUS, memory_mib=200
            ),
            job(
                "pairs", RunKernel("ping_pong", (4096, 5)), tasks=MACHINES, cpus_per_task=CPUS, memory_mib=200
            ),
        ]
        bench.scheduler.submit(jobs)
        ended = bench.until_ended("ring", "pairs")
        for name in ("ring", "pairs"):
            assert ended[name].succeeded, ended[name]
            there = bench.processes()[name]
            # One on each: of two on a node one dies in `MPI_Init` once in a while (docs/adr/0073).
            assert sorted(process.rank for process in there) == [0, 1]
            assert {process.machine for process in there} == NODES
            (measured,) = [process for process in there if process.figures]
            assert measured.rank == 0
        assert measured.figures["one_way_seconds_at_4096"] > 0
        assert measured.figures["bandwidth_bytes_per_second_at_4096"] > 0

    @OF_ITS_OWN_MPI
    def test_ranks_that_do_not_meet_are_told(self, bench: Bench) -> None:
        bench.scheduler.submit([job("alone", RunKernel("ping_pong"))])
        assert not bench.until_ended("alone")["alone"].succeeded

    def test_a_job_that_waits_for_one_that_failed_ends_without_having_begun(self, bench: Bench) -> None:
        bench.scheduler.submit([job("bad", exit_code=1), job("never", after=("bad",))])
        assert not bench.until_ended("never")["never"].succeeded
        assert "never" not in bench.processes()

    def test_a_task_has_no_more_processors_than_it_asked_for(self, bench: Bench) -> None:
        names = [f"computes-{number}" for number in range(CPUS * MACHINES)]
        bench.scheduler.submit([job(name, Compute(0.5)) for name in names])
        bench.until_ended(*names)
        assert all(len(process.cpus) == 1 for name in names for process in bench.processes()[name])

    def test_its_times_are_told(self, bench: Bench) -> None:
        began = time.time()
        bench.scheduler.submit([job("times")])
        told = bench.until_ended("times")["times"].told
        assert list(told) == ["SubmitTime", "EligibleTime", "StartTime", "EndTime"]
        (process,) = bench.processes()["times"]
        assert process.ended_s is not None
        # It counts in whole seconds.
        assert began - 1 <= told["SubmitTime"] <= told["StartTime"] <= process.started_s
        assert process.started_s - told["StartTime"] < 5
        assert process.ended_s <= told["EndTime"] + 1

    def test_its_parts_are_its_daemons(self, bench: Bench) -> None:
        bench.scheduler.submit([job("seen", LONG)])
        # Slurm says RUNNING before its step is there.
        bench.until_started("seen")
        parts = bench.scheduler.parts()
        assert set(parts) == {"slurmctld", "slurmd", "slurmstepd"}
        assert len(parts["slurmd"]) == MACHINES
        bench.scheduler.cancel(["seen"])
        bench.until_ended("seen")

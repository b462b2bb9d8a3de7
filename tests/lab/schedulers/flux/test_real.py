"""Flux for real, where a person names one: the contract, and gangs of MPI.

With TIDEPOOL_RECORD_FLUX=1 what it answers is recorded, for `test_replayed.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.lab.schedulers.contract import Bench, SchedulerContract, job
from tests.lab.schedulers.flux.recordings import FOLDER, RECORD, Recorder
from tests.lab.schedulers.flux.testbeds import flux_testbed
from tests.whole.conftest import images  # noqa: F401 - a fixture
from tidepool.lab.programs.records import read_records
from tidepool.lab.schedulers.flux import KIND
from tidepool.lab.testbed import Testbed
from tidepool.lab.workload import RunKernel

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Recorded:
    """A bench whose Flux is asked through a recorder; ``records`` are here."""

    bench: Bench
    recorder: Recorder
    records: Path


@pytest.fixture(scope="module")
def testbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:  # noqa: F811
    with flux_testbed(tmp_path_factory.mktemp("flux"), images) as it:
        yield it


@pytest.fixture(scope="module")
def recorded(testbed: Testbed) -> Iterator[Recorded]:
    assert KIND.missing(testbed) == ()
    recorder = Recorder(testbed.controller)
    scheduler = KIND.open(replace(testbed, controller=recorder), {})
    records = testbed.records / "contract"
    here = testbed.here(records)
    here.mkdir()
    scheduler.begin("contract", Path(records))
    try:
        bench = Bench(
            scheduler,
            len(testbed.machines),
            testbed.cpus_per_machine,
            lambda: read_records(here, 0.0),
        )
        yield Recorded(bench, recorder, here)
    finally:
        scheduler.end()
        for machine in (*testbed.machines, "ctl"):
            assert not [name for name in testbed.pids(machine).values() if name.startswith("flux")], machine
        assert not list(testbed.home.glob(".lab/flux*"))


@pytest.fixture
def bench(recorded: Recorded, request: pytest.FixtureRequest) -> Iterator[Bench]:
    recorded.recorder.begin()
    yield recorded.bench
    if os.environ.get(RECORD):
        recorded.recorder.write(FOLDER / f"{request.node.name}.json", recorded.records)


class TestFlux(SchedulerContract):
    pass


def test_ranks_of_mpi_meet_across_machines(bench: Bench) -> None:
    bench.scheduler.submit([job("mpi", RunKernel("all_reduce", (1024, 20)), tasks=bench.all_cpus)])
    assert bench.until_ended("mpi")["mpi"].succeeded
    processes = bench.processes()["mpi"]
    assert sorted(process.rank for process in processes) == list(range(bench.all_cpus))
    assert len({process.machine for process in processes}) == bench.machines
    assert all(process.figures for process in processes if process.rank == 0)

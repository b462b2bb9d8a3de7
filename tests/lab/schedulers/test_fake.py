"""The scheduler of quick tests keeps the contract that real ones keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.lab.fake_scheduler import FakeScheduler, hurried
from tests.lab.schedulers.contract import Bench, SchedulerContract
from tidepool.lab.outcome import ProcessRecord
from tidepool.lab.programs.records import read_records


class TestFake(SchedulerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
        folder: Path = tmp_path_factory.mktemp("records")
        # Quicker than time, and not so quick that its clock leaves the tests' own behind.
        scheduler = FakeScheduler(hurried(0.25), machines=2, cpus=2)
        scheduler.begin("trial", folder)

        def processes() -> Mapping[str, Sequence[ProcessRecord]]:
            scheduler.advance()
            return read_records(folder, 0.0)

        yield Bench(scheduler, 2, 2, processes)
        scheduler.end()

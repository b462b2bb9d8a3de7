"""The contract against recorded answers of a real Flux: that the adapter asks what it asked, and understands what it was told."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.lab.schedulers import contract
from tests.lab.schedulers.contract import Bench, SchedulerContract
from tests.lab.schedulers.flux.recordings import FOLDER, Replay
from tidepool.lab.programs.records import read_records
from tidepool.lab.schedulers.flux.brokers import Brokers
from tidepool.lab.schedulers.flux.scheduler import FluxScheduler
from tidepool.lab.testbed import PROGRAMS, RECORDS


@dataclass
class Clock:
    """The time of a recording: it passes where somebody sleeps."""

    at: float

    def time(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    recording: Mapping[str, Any] = json.loads((FOLDER / f"{request.node.name}.json").read_text())
    for job, files in recording["processes"].items():
        (tmp_path / "records" / job).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / "records" / job / name).write_text(text)
    clock = Clock(recording["at"])
    monkeypatch.setattr(contract, "time", clock)
    brokers = Brokers(
        leader=Replay(recording["calls"]),
        machines={},
        cores=2,
        here=tmp_path / "flux",
        there=PurePosixPath("/home/.lab/flux"),
        names=lambda _: {os.getpid(): "flux-broker-0"},
        leader_machine="ctl",
    )
    scheduler = FluxScheduler(brokers, PROGRAMS, clock.sleep)
    scheduler.begin("contract", Path(RECORDS / "contract"))
    return Bench(scheduler, 2, 2, lambda: read_records(tmp_path / "records", 0.0))


class TestReplayedFlux(SchedulerContract):
    pass

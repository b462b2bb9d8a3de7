"""Frames have every single value once, and files that were exported are read again as what they were."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.lab.outcomes import campaign, outcome
from tidepool.lab.campaign import Trial
from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.results import frames
from tidepool.lab.results.store import Results

GANG = make_workload("gang", "gang", {"number": 4, "sizes": [2]}, seed=3)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """One scheduler's trials, and one disturbed trial of the other; warm-ups too."""
    results = Results.create(tmp_path / "results", campaign(workloads=("gang",), repeats=2), {}, cpus=4)
    for repeat in range(3):
        results.write(outcome(Trial("one", "gang", repeat), GANG), GANG)
    for repeat in range(2):
        results.write(outcome(Trial("two", "gang", repeat), GANG, disturbed="steal"), GANG)
    return results


def test_trials_are_told_with_what_became_of_them(results: Results) -> None:
    frame = frames.trials(results)
    assert frame.select("scheduler", "repeat", "status").sort("scheduler", "repeat", "status").rows() == [
        ("one", 1, "counts"),
        ("one", 2, "counts"),
        ("two", 1, "disturbed"),
        ("two", 1, "missing"),
        ("two", 2, "missing"),
    ]
    assert frame.filter(status="disturbed")["disturbed"].to_list() == ["steal"]


def test_every_value_of_trials_that_count_is_there_once(results: Results) -> None:
    assert len(frames.jobs(results)) == 2 * 4
    assert len(frames.processes(results)) == 2 * 4 * 2
    assert len(frames.usage(results)) == len(frames.host(results)) == 2 * 2
    for name, made_of in frames.FRAMES.items():
        frame = made_of(results)
        assert 0 not in frame["repeat"], name
        assert frame.columns[:3] == ["scheduler", "workload", "repeat"]
    waits = frames.jobs(results).select(pl.col("started_seconds") - pl.col("ready_seconds")).to_series()
    assert waits.to_list() == pytest.approx([0.51] * 8)
    figure = frames.figures(results).filter(measure="gang_skew_seconds")
    assert figure["unit"].to_list() == ["s", "s"]
    assert figure["value"].to_list() == pytest.approx([0.01, 0.01])


def test_exported_files_hold_the_frames(results: Results, tmp_path: Path) -> None:
    written = frames.export(results, tmp_path / "out")
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == sorted(each.name for each in written)
    for name, made_of in frames.FRAMES.items():
        frame = made_of(results)
        assert pl.read_parquet(tmp_path / "out" / f"{name}.parquet").equals(frame)
        assert pl.read_csv(tmp_path / "out" / f"{name}.csv", schema=frame.schema).equals(frame)
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot be written"):
        frames.export(results, tmp_path / "file")

"""The page of a campaign that was run twice: what holds, what does not, and what differs between the runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import schedulers
from bench.schedulers import SHOWN, page
from bench.schedulers_chart import write_chart
from bench.schedulers_values import read_values, schedulers_of, values_in_order, workloads_of, write_values
from tests.lab.report.campaigns import SCHEDULERS, MadeUp, made_up
from tests.repository import ROOT
from tidepool.lab.errors import LabError
from tidepool.lab.statistics.figures import Figures

pytest.importorskip("scipy", reason="scipy is not installed: scripts/setup installs it")


def two_runs(folder: Path, again: Mapping[str, MadeUp] = SCHEDULERS) -> tuple[Figures, Figures]:
    return values_in_order(made_up(folder / "one")), values_in_order(made_up(folder / "again", again))


def test_what_both_runs_show_holds_and_one_scheduler_does_not_differ_from_itself(tmp_path: Path) -> None:
    text = page(two_runs(tmp_path))
    # Two workloads, and both together.
    assert "| submit to start, median | 3 | 3 | 0 | 0 |" in text
    assert "contradicted:" not in text
    assert "Of 24 figures 0 differ between the runs" in text
    assert "Gang start skew" not in text, "no workload has one"


def test_each_median_has_its_interval_and_what_is_always_the_same_is_said_once(tmp_path: Path) -> None:
    text = page(two_runs(tmp_path))
    cells = re.findall(r"^\| (?:bag|array) \| [12] \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert cells
    for cell in (cell for row in cells for cell in row):
        median, *ends = (float(number.replace(",", "")) for number in re.findall(r"[\d.,]+", cell))
        assert not ends or ends[0] <= median <= ends[1]
    assert sum(" to " in cell for row in cells for cell in row) > len(cells)
    assert "### Jobs that did not end as they were to\n\n0 in all trials." in text


def test_beside_the_page_are_a_chart_and_every_single_value(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    write_chart(runs, tmp_path / "chart.svg")
    write_values(runs, tmp_path / "values.csv")
    assert (tmp_path / "chart.svg").read_text().startswith("<?xml")
    head, *rows = (line.split(",") for line in (tmp_path / "values.csv").read_text().splitlines())
    assert head[:4] == ["run", "scheduler", "workload", "repeat"]
    assert len(rows) == 2 * 2 * 2 * 5
    read = read_values(tmp_path / "values.csv")
    for written, again in zip(runs, read, strict=True):
        assert [*again] == [*written]
        for trial, values in written.items():
            assert again[trial] == pytest.approx(values, rel=1e-5)


def test_a_campaign_that_is_not_whole_has_no_page(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is not whole"):
        values_in_order(made_up(tmp_path / "killed", trials=5))


def test_the_page_is_made_anew_of_the_values_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tuple(made_up(tmp_path / name) for name in ("one", "again"))
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- figures -->\n<!-- end of figures -->\nafter\n")

    def write(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["schedulers", *words, "--write", str(path)])
        schedulers.main()
        return path.read_text()

    first = write(*(str(each.folder) for each in results))
    assert "### Makespan, s" in first
    (tmp_path / "page.svg").unlink()
    assert write() == first
    assert (tmp_path / "page.svg").exists()
    with pytest.raises(SystemExit):
        write(str(results[0].folder))


def test_the_published_tables_are_those_of_the_published_values() -> None:
    published = ROOT / "docs/benchmarks/schedulers.md"
    runs = read_values(published.with_suffix(".csv"))
    text = published.read_text()
    assert schedulers_of(runs[0]) == ["slurm", "kubernetes", "volcano", "kueue", "flux"]
    assert len(workloads_of(runs[0])) == 9
    for measure in (SHOWN[0], "scheduler_memory_bytes", "unexpected_jobs"):
        assert schedulers.table(runs, measure) in text


def test_what_the_second_run_says_the_other_way_round_is_named(tmp_path: Path) -> None:
    turned = dict(zip(SCHEDULERS, reversed([*SCHEDULERS.values()]), strict=True))
    text = page(two_runs(tmp_path, turned))
    assert "| submit to start, median | 3 | 0 | 0 | 3 |" in text
    assert "- contradicted: bag, makespan: slurm to kubernetes +" in text
    assert "- bag, makespan: run 1: slurm to run 2: slurm +" in text

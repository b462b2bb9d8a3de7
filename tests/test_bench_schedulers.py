"""The page of a campaign that was run twice: what holds, what does not, and what differs between the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.schedulers import page
from bench.schedulers_chart import write_chart, write_values
from tests.lab.report.campaigns import SCHEDULERS, made_up

pytest.importorskip("scipy", reason="scipy is not installed: scripts/setup installs it")


def test_what_both_runs_show_holds_and_one_scheduler_does_not_differ_from_itself(tmp_path: Path) -> None:
    text = page((made_up(tmp_path / "one"), made_up(tmp_path / "again")))
    # Two workloads, and both together.
    assert "| submit to start, median | 3 | 3 | 0 | 0 |" in text
    assert "contradicted:" not in text
    assert "Of 24 figures 0 differ between the runs" in text
    assert "Gang start skew" not in text, "no workload has one"


def test_beside_the_page_are_a_chart_and_every_single_value(tmp_path: Path) -> None:
    runs = made_up(tmp_path / "one"), made_up(tmp_path / "again")
    write_chart(runs, tmp_path / "chart.svg")
    write_values(runs, tmp_path / "values.csv")
    assert (tmp_path / "chart.svg").read_text().startswith("<?xml")
    head, *rows = (line.split(",") for line in (tmp_path / "values.csv").read_text().splitlines())
    assert head[:4] == ["run", "scheduler", "workload", "repeat"]
    campaign = runs[0].campaign
    assert len(rows) == 2 * len(campaign.schedulers) * len(campaign.workloads) * campaign.repeats
    assert all(float(row[head.index("makespan_seconds")]) > 0 for row in rows)


def test_what_the_second_run_says_the_other_way_round_is_named(tmp_path: Path) -> None:
    turned = dict(zip(SCHEDULERS, reversed([*SCHEDULERS.values()]), strict=True))
    text = page((made_up(tmp_path / "one"), made_up(tmp_path / "again", turned)))
    assert "| submit to start, median | 3 | 0 | 0 | 3 |" in text
    assert "- contradicted: bag, makespan: slurm to kubernetes +" in text
    assert "- bag, makespan: one: slurm to again: slurm +" in text

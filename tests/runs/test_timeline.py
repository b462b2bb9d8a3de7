"""The chart of a run: well-formed SVG, a bar for each phase and each job that ran, in their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from xml.etree import ElementTree as ET

from tests.runs.test_page import AT, RUN
from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.record import Run, RunJob
from tidepool.runs.timeline import timeline

_SVG = "{http://www.w3.org/2000/svg}"


def bars(run: Run) -> list[tuple[str, float, float]]:
    """Return the bars' titles, where they begin, and how long they are."""
    drawn = ET.fromstring(timeline(run))
    return [
        (rect[0].text or "", float(rect.get("x", "")), float(rect.get("width", "")))
        for rect in drawn.iter(f"{_SVG}rect")
    ]


def job(name: str, begins_s: int, ends_s: int) -> RunJob:
    times = {"Start": begins_s, "End": ends_s}
    said = {key: (AT + timedelta(seconds=each)).isoformat() for key, each in times.items()}
    return RunJob(name, 1, "succeeded", accounting=FrozenDict({**said, "NodeList": "cpu-<1>"}))


def test_bars_are_where_they_were_in_time() -> None:
    began = {"checked": AT, "up": AT + timedelta(seconds=10), "done": AT + timedelta(seconds=100)}
    run = replace(
        RUN,
        began=FrozenDict(began),
        ended=AT + timedelta(seconds=100),
        jobs=(job("a", 20, 60), job("b<", 60, 100), RunJob("never", 3, "cancelled")),
    )
    checked, up, first, second = bars(run)
    assert [checked[0], up[0], first[0]] == ["checked", "up", "succeeded on cpu-<1>"]
    assert abs(up[2] / checked[2] - 9) < 0.1
    assert abs(first[1] + first[2] - second[1]) < 0.2
    assert abs(second[1] + second[2] - (up[1] + up[2])) < 0.2


def test_of_thousands_of_jobs_some_are_drawn_and_of_nothing_nothing() -> None:
    run = replace(RUN, jobs=tuple(job(f"j{i}", i, i + 1) for i in range(5000)))
    assert len(bars(run)) < 100
    assert timeline(replace(RUN, began=FrozenDict({"checked": AT}), jobs=(), ended=None)) == ""

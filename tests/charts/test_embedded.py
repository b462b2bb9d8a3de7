"""Drawings within a page: well formed, in the page's colours, with names of their own, and the same every time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.charts import FAINT, INK
from tidepool.charts.boxes import Panel, boxes_figure
from tidepool.charts.embedded import embedded
from tidepool.charts.gantt import Bar, Gantt, gantt_figure, merged
from tidepool.charts.levels import Levels, levels_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def boxes() -> Figure:
    return boxes_figure(
        [
            Panel("wait <s>", [("a", [1.0, 2.0, 4.0]), ("b", [2.0])]),
            Panel("far", [("a", [1.0]), ("b", [900.0])]),
        ],
        {"a": "#0072b2", "b": "#e69f00"},
    )


def gantt() -> Figure:
    bars = [Bar(0, 0, 5, "succeeded"), Bar(1, 1, 1, "failed"), Bar(1, 2, 3, "succeeded")]
    kinds = {"succeeded": "#0072b2", "failed": "#d55e00", "killed": "#cc79a7"}
    return gantt_figure([Gantt("slurm", ("m-0 0", "m-0 1"), bars), Gantt("none ran", (), ())], kinds)


def levels() -> Figure:
    return levels_figure(
        [Levels("a", [[1, 2], [0, 2, 1]]), Levels("b", [[]])],
        0.5,
        4,
        "busy processors",
        {"a": "#0072b2", "b": "#e69f00"},
    )


@pytest.mark.parametrize("draw", [boxes, gantt, levels])
def test_it_stands_in_a_page(draw: Callable[[], Figure]) -> None:
    drawing = embedded(draw, "Waits & runs")
    assert drawing == embedded(draw, "Waits & runs")
    text = drawing.in_page("d1")
    root = ElementTree.fromstring(text)
    assert root.find("title") is not None
    assert root.findtext("title") == "Waits & runs"
    assert root.get("aria-labelledby") == "d1-title"
    ids = [each.get("id", "d1-") for each in root.iter()]
    assert all(each.startswith("d1-") for each in ids)
    wanted = set(re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text))
    assert {one or other for one, other in wanted} <= set(ids)
    assert "http" not in text
    assert INK not in text
    assert FAINT not in text
    assert ElementTree.fromstring(drawing.svg.encode()).tag.endswith("svg")


def test_texts_are_texts() -> None:
    assert "slurm" in [
        each.text for each in ElementTree.fromstring(embedded(gantt, "").in_page("d")).iter("text")
    ]


def test_only_kinds_that_are_drawn_are_in_the_legend() -> None:
    text = embedded(gantt, "").svg
    assert "failed" in text
    assert "killed" not in text


spans = st.tuples(st.integers(0, 3), st.floats(0, 100), st.floats(0, 5), st.sampled_from("ab"))


@given(st.lists(spans, max_size=60), st.floats(0, 3))
def test_bars_drawn_as_one_cover_all_and_are_few(
    found: list[tuple[int, float, float, str]], near: float
) -> None:
    bars = [Bar(row, begins, begins + lasts, kind) for row, begins, lasts, kind in found]
    for kind in "ab":
        drawn = [*merged(bars, kind, near)]
        for bar in bars:
            if bar.kind == kind:
                assert any(
                    row == bar.row and first <= bar.begins_s and bar.ends_s <= last
                    for row, first, last in drawn
                )
        if near > 0:
            # Two next to each other span more than that.
            assert all(
                len([one for one in drawn if one[0] == row]) <= 2 * (105 / near + 1) for row in range(4)
            )
        else:
            assert (
                sum(last - first for _, first, last in drawn)
                <= sum(bar.ends_s - bar.begins_s for bar in bars) + 1e-6
            )

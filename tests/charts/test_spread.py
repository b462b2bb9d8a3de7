"""The chart of a sweep: the same bytes each time, every run in it, and what has no run is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidepool.charts import DrawingError
from tidepool.charts.spread import Panel, write_spread_chart

PANELS = [
    Panel("time, s", {"2": [10.0, 12.0, 11.0], "4": [6.0], "8": []}),
    Panel("efficiency", {"2": [0.5, 0.6, 0.4], "4": [0.3], "8": []}),
]


def test_the_same_runs_give_the_same_bytes_and_those_without_any_are_named(tmp_path: Path) -> None:
    one, two, png = (tmp_path / name for name in ("one.svg", "two.svg", "one.png"))
    write_spread_chart(PANELS, "cpus", one, png, title="physics")
    write_spread_chart(PANELS, "cpus", two, title="physics")
    assert one.read_bytes() == two.read_bytes()
    assert png.read_bytes().startswith(b"\x89PNG")
    without = tmp_path / "without.svg"
    write_spread_chart([Panel("time, s", {"2": [10.0], "4": [6.0]})], "cpus", without)
    assert "#d55e00" in one.read_text()
    assert "#d55e00" not in without.read_text()


def test_where_no_run_has_succeeded_nothing_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(DrawingError, match="no run has succeeded"):
        write_spread_chart([Panel("time, s", {"2": []})], "cpus", tmp_path / "a.svg")
    assert not [*tmp_path.iterdir()]

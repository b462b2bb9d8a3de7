"""The chart: what is refused, that its bytes are the same each time, and that what happened is in it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidepool.charts import DrawingError
from tidepool.charts.fleets import Series, write_chart
from tidepool.scaling.decision import Phase
from tidepool.scaling.ports import Sample

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_BUSY, _IDLE = "#0072b2", "#56b4e9"


def _samples(*nodes: Mapping[Phase, int], usd_per_hour: float = 0) -> list[Sample]:
    return [
        Sample(_BEGIN + timedelta(seconds=place), place, 1, each, usd_per_hour)
        for place, each in enumerate(nodes)
    ]


def test_the_same_samples_give_the_same_bytes_of_svg_and_a_png(tmp_path: Path) -> None:
    series = Series("queue", _samples({Phase.BUSY: 1}, {Phase.BUSY: 2, Phase.IDLE: 1}))
    one, two, png = (tmp_path / name for name in ("one.svg", "two.svg", "one.png"))
    write_chart([series], one, png, title="A wave")
    write_chart([series], two, title="A wave")
    assert one.read_bytes() == two.read_bytes()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert _BUSY in one.read_text()
    assert _IDLE in one.read_text()


def test_phases_that_never_were_are_not_in_it(tmp_path: Path) -> None:
    write_chart([Series("queue", _samples({Phase.BUSY: 1}, {}))], tmp_path / "a.svg")
    assert _IDLE not in (tmp_path / "a.svg").read_text()


def test_costs_have_a_part_of_their_own_where_there_are_any(tmp_path: Path) -> None:
    for name, usd_per_hour in (("free.svg", 0.0), ("dear.svg", 3.0)):
        write_chart([Series("queue", _samples({}, {}, usd_per_hour=usd_per_hour))], tmp_path / name)
    free, dear = ((tmp_path / name).read_text().count('id="axes_') for name in ("free.svg", "dear.svg"))
    assert (free, dear) == (2, 3)


def test_a_peak_of_one_sample_in_thousands_is_seen(tmp_path: Path) -> None:
    quiet = _samples(*[{Phase.IDLE: 1}] * 5000)
    peak = [*quiet[:2500], Sample(quiet[2500].at, 9, 0, {Phase.BUSY: 50}), *quiet[2501:]]
    write_chart([Series("queue", peak)], tmp_path / "peak.svg")
    assert _BUSY in (tmp_path / "peak.svg").read_text().partition("axes_2")[2]


def test_series_are_drawn_beside_each_other(tmp_path: Path) -> None:
    series = [Series(name, _samples({Phase.BUSY: 1}, {Phase.BUSY: 1})) for name in ("queue", "backlog")]
    write_chart(series, tmp_path / "two.svg")
    assert (tmp_path / "two.svg").read_text().count('id="axes_') == 4


@pytest.mark.parametrize(
    ("series", "path", "said"),
    [
        ([Series("queue", [])], "a.svg", "nothing to draw"),
        ([], "a.svg", "nothing to draw"),
        ([Series("queue", _samples({}))], "a.pdf", "suffix"),
        ([Series("queue", _samples({}))], "nowhere/a.png", "cannot be written"),
    ],
    ids=["no samples", "no series", "another format", "no folder"],
)
def test_what_cannot_be_drawn_is_told(tmp_path: Path, series: list[Series], path: str, said: str) -> None:
    with pytest.raises(DrawingError, match=said):
        write_chart(series, tmp_path / path)

"""A sweep's comparison as people and programs read it: a page of HTML, panels of a chart, a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from tidepool.charts.spread import Panel
from tidepool.html import document, table
from tidepool.runs.sweeps.comparison import MEASURES, Comparison, Measure, PointResult, Spread

#: Drawn, where there is anything of them: the cost, and node hours where nothing has a price.
_DRAWN: Final = ("time", "jobs", "cost", "efficiency")
_INSTEAD: Final = {"cost": "node hours"}


def sweep_page(found: Comparison, chart: str = "") -> str:
    """Return the page of a sweep. ``chart`` is where its chart is, from here; links to runs are relative to the sweep's folder."""
    sweep = found.sweep
    asked = f"Asked for by {escape(sweep.by)} on {sweep.at:%Y-%m-%d %H:%M:%S} UTC, on stack {escape(sweep.stack)}."
    image = (f'<img src="{escape(chart)}" alt="time, cost and efficiency of each run">',) if chart else ()
    return document(
        sweep.id,
        (
            f"<p>{asked} Figures are the median of runs that succeeded, and the least and the most of them.</p>",
            *image,
            *table("Points", columns(found), rows_of(found)),
            *table("Not succeeded", ("run", *sweep.varied, "", ""), _amiss(found), link=_link),
            *table("Differs, though not varied", ("", "values"), _differs(found)),
            *table("Runs", ("run", *sweep.varied, "outcome"), _runs(found), link=_link),
        ),
    )


def columns(found: Comparison) -> Sequence[str]:
    """Return the columns of `rows_of`: what is varied, how many runs succeeded, and each measure with its unit."""
    return (*found.sweep.varied, "runs", *map(with_unit, found.measures))


def rows_of(found: Comparison) -> Iterable[Sequence[str]]:
    """Yield a row for each point: medians, with the least and the most behind them where they are not all the same."""
    for each in found.points:
        values = (str(value) for value in each.point.values.values())
        yield (*values, f"{each.succeeded} of {each.runs}", *(_cell(each, one) for one in found.measures))


def panels(found: Comparison) -> Sequence[Panel]:
    """Return the panels of its chart: time, cost and efficiency, by point."""
    there = {each.name for each in found.measures}
    names = {name if name in there else _INSTEAD.get(name, name) for name in _DRAWN} & there
    return [
        Panel(
            with_unit(measure),
            {
                each.point.label: each.measures[measure.name].values if measure.name in each.measures else ()
                for each in found.points
            },
        )
        for measure in MEASURES
        if measure.name in names
    ]


def to_document(found: Comparison) -> Mapping[str, Any]:
    """Return it as `--json` shows it."""
    sweep = found.sweep
    point_of = {each.id: each.point for each in sweep.runs}
    return {
        "sweep": sweep.id,
        "varied": list(sweep.varied),
        "points": [
            {
                "values": dict(each.point.values),
                "runs": each.runs,
                "succeeded": each.succeeded,
                **{_key(one): _spread(each.measures.get(one.name)) for one in MEASURES},
            }
            for each in found.points
        ],
        "runs": [
            {
                "run": id,
                "values": dict(sweep.points[point_of[id]].values),
                "outcome": run.outcome if run else "",
                "phase": run.phase if run else "",
                "because": run.because if run else "",
                **{_key(one): one.of(run) if run and not run.is_under_way else None for one in MEASURES},
            }
            for id, run in found.runs.items()
        ],
        "differs": {path: list(values) for path, values in found.differs.items()},
    }


def figure_of(value: float) -> str:
    """Return a figure with three digits that say something: ``0.0123``, ``4.5``, ``1234``."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def with_unit(measure: Measure) -> str:
    """Return the name of a measure with its unit, where it has one."""
    return f"{measure.name}, {measure.unit}" if measure.unit else measure.name


def _cell(point: PointResult, measure: Measure) -> str:
    spread = point.measures.get(measure.name)
    if spread is None:
        return "-"
    least, most = figure_of(spread.least), figure_of(spread.most)
    return figure_of(spread.median) + (f" ({least} to {most})" if least != most else "")


def _amiss(found: Comparison) -> Iterable[Sequence[str]]:
    for point, id, run in found.amiss:
        text = "not begun" if run is None else run.because or run.text
        outcome = "" if run is None else run.outcome or run.phase
        yield (id, *map(str, point.values.values()), outcome, text)


def _runs(found: Comparison) -> Iterable[Sequence[str]]:
    for each in found.sweep.runs:
        run = found.runs[each.id]
        values = map(str, found.sweep.points[each.point].values.values())
        yield (each.id, *values, "" if run is None else run.outcome or run.phase)


def _differs(found: Comparison) -> Iterable[Sequence[str]]:
    for path, values in found.differs.items():
        yield path, ", ".join(value or "(none)" for value in values)


def _link(id: str) -> str:
    return f"../../{id}/index.html"


def _key(measure: Measure) -> str:
    name = measure.name.replace(" ", "_").lower()
    return f"{name}_{measure.unit.lower()}" if measure.unit and measure.unit != "h" else name


def _spread(spread: Spread | None) -> Mapping[str, float] | None:
    return None if spread is None else {"median": spread.median, "least": spread.least, "most": spread.most}

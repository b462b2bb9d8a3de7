"""Figures of a campaign: medians with their intervals, box plots of single values, and what differs by more than noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidepool.charts.boxes import Panel, boxes_figure
from tidepool.charts.embedded import embedded
from tidepool.lab.report.elements import Element, Figure, Folded, Table, Text
from tidepool.lab.report.words import figure, interval, listed, scale_of
from tidepool.lab.statistics.comparison import RATE, SMALLEST, Difference
from tidepool.lab.statistics.figures import Figures
from tidepool.lab.statistics.intervals import LEVEL, median_interval
from tidepool.lab.statistics.measure import MEASURES, Measure, measure_of

#: By measure, and in it by scheduler, the value of each repeat.
Values = Mapping[str, Mapping[str, Sequence[float]]]
#: Figures of kernels by size are many, and tables have them all.
_MOST_PANELS: Final = 18


def values_of(figures: Figures, workload: str) -> Values:
    """Return the figures of a workload, in the order of reports: those of all workloads first."""
    found: dict[str, dict[str, list[float]]] = {}
    for trial in sorted(figures, key=lambda each: each.repeat):
        if trial.workload == workload:
            for name, value in figures[trial].items():
                found.setdefault(name, {}).setdefault(trial.scheduler, []).append(value)
    order = {name: at for at, name in enumerate(MEASURES)}
    return {name: found[name] for name in sorted(found, key=lambda name: order.get(name, len(order)))}


def medians(workload: str, values: Values, schedulers: Sequence[str], so_far: str = "") -> Table:
    """Return the table of a workload: a row for each figure, its median with the interval for each scheduler."""
    return Table(
        f"{workload}: medians, in brackets the interval of {LEVEL:.0%} confidence{so_far}",
        ("figure", "better", *schedulers),
        [
            (label, measure_of(name).better, *(_cell(scaled.get(one, ())) for one in schedulers))
            for name, each in values.items()
            for label, scaled in (_scaled(name, each),)
        ],
    )


def box_plots(
    workload: str, values: Values, schedulers: Sequence[str], colours: Mapping[str, str]
) -> Iterator[Element]:
    """Yield the drawing of a workload's figures, those left out in which all values are the same."""
    drawn = {
        name: each
        for name, each in values.items()
        if len({one for found in each.values() for one in found}) > 1
    }
    panels = [
        Panel(label, [(one, scaled[one]) for one in schedulers if one in scaled])
        for label, scaled in (_scaled(name, drawn[name]) for name in [*drawn][:_MOST_PANELS])
    ]
    if not panels:
        return
    rest = len(drawn) - len(panels)
    more = f" {rest} more are in the tables alone." if rest else ""
    yield Figure(
        embedded(
            lambda: boxes_figure(panels, colours), f"{workload}: single values of each figure by scheduler"
        ),
        f"{workload}: a dot is a repeat. A box holds the middle half, its line and the figure above are the median.{more}",
        Table(
            "",
            ("figure", "scheduler", "values, by repeat"),
            [
                (panel.title, one, "  ".join(map(figure, found)))
                for panel in panels
                for one, found in panel.values
            ],
        ),
    )


def answers(found: Sequence[Difference], measures: Sequence[str]) -> Table:
    """Return the table of a campaign's answers: for each workload its schedulers, the best first, and what is more than noise."""
    rows = []
    for workload in dict.fromkeys(each.workload for each in found):
        for name in measures:
            of_it = [each for each in found if each.workload == workload and each.measure == name]
            if of_it:
                rows.append((workload, *_answer(measure_of(name), of_it)))
    return Table("Answer", ("workload", "figure", "medians, the best first", "more than noise"), rows)


def differences(found: Sequence[Difference]) -> Iterator[Element]:
    """Yield for each workload which figures of two schedulers differ by more than noise, and how that was decided."""
    yield Text(
        f"{len(found):,} figures of two schedulers each were compared, repeat by repeat, by a permutation test that is corrected for all "
        f"of them: were there no difference at all, one would be shown here with a probability of at most {RATE:.0%}. "
        f"Differences below {SMALLEST:.0%} are not called so. No difference shown is no proof that there is none."
    )
    for workload in dict.fromkeys(each.workload for each in found):
        of_it = [each for each in found if each.workload == workload]
        shown = [each for each in of_it if each.is_better is not None]
        others = [each for each in of_it if each.is_better is None]
        tables = [difference_table("More than noise", shown), difference_table("No difference shown", others)]
        tables = [Table(each.title, each.columns[1:], [row[1:] for row in each.rows]) for each in tables]
        yield Folded(
            f"{workload}: {len(shown)} of {len(of_it)} differ by more than noise",
            [each for each in tables if each.rows],
        )


def difference_table(title: str, found: Sequence[Difference]) -> Table:
    """Return differences as a table, figure by figure."""
    order = {name: at for at, name in enumerate(dict.fromkeys(each.measure for each in found))}
    rows = []
    for each in sorted(found, key=lambda each: order[each.measure]):
        label, scaled = _scaled(each.measure, {"left": (each.left_median,), "right": (each.right_median,)})
        rows.append(
            (
                *(
                    each.workload,
                    label,
                    each.left,
                    figure(scaled["left"][0]),
                    each.right,
                    figure(scaled["right"][0]),
                ),
                _change(each, each.change),
                "-"
                if each.low is None or each.high is None
                else f"{_change(each, each.low)} to {_change(each, each.high)}",
                "<0.001" if each.p_value < 0.001 else f"{each.p_value:.3f}",
                verdict(each),
            )
        )
    columns = (
        "workload",
        "figure",
        "of",
        "median",
        "and of",
        "median",
        "change",
        f"interval, {LEVEL:.0%}",
        "p",
        "the second is",
    )
    return Table(title, columns, rows)


def verdict(each: Difference) -> str:
    """Return the verdict with what it means: ``lower, better``."""
    if each.is_better is None:
        return each.verdict
    return f"{each.verdict}, {'better' if each.is_better else 'worse'}"


def heading(measure: Measure, unit: str) -> str:
    """Return a figure's label with its unit."""
    return f"{measure.label}, {unit}" if unit else measure.label


def _answer(measure: Measure, found: Sequence[Difference]) -> tuple[str, str, str]:
    of = {
        name: value
        for each in found
        for name, value in ((each.left, each.left_median), (each.right, each.right_median))
    }
    unit, scale = scale_of(measure.unit, of.values())
    order = sorted(of, key=lambda name: of[name] if measure.better == "lower" else -of[name])
    said = ", ".join(f"{name} {figure(of[name] * scale)}" for name in order)
    better = {
        (each.right, each.left) if each.is_better else (each.left, each.right)
        for each in found
        if each.is_better is not None
    }
    best, *others = order
    beaten = [name for name in others if (best, name) in better]
    if len(beaten) == len(others):
        return heading(measure, unit), said, f"{best} is better than {listed(others)}"
    unclear = listed([name for name in others if name not in beaten])
    rest = f"; {best} is better than {listed(beaten)}" if beaten else ""
    return heading(measure, unit), said, f"no difference is shown between {best} and {unclear}{rest}"


def _scaled(name: str, values: Mapping[str, Sequence[float]]) -> tuple[str, Mapping[str, Sequence[float]]]:
    """Return a figure's label, and its values in the unit that stands there."""
    measure = measure_of(name)
    unit, scale = scale_of(measure.unit, (one for each in values.values() for one in each))
    return heading(measure, unit), {key: [one * scale for one in each] for key, each in values.items()}


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "-"
    found = median_interval(values)
    return (
        figure(found.median)
        if found.low is None or found.high is None
        else interval(found.median, found.low, found.high)
    )


def _change(each: Difference, value: float) -> str:
    return f"{value:+.1%}" if each.is_ratio else f"{'+' if value > 0 else ''}{figure(value)}"

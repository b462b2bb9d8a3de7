"""`compare` and `compare_schedulers`: what differs between two campaigns, or two schedulers, by more than noise.

Repeats are blocks: in one, both sides run the same jobs, and where they are schedulers of one campaign, within minutes. So it is
differences in the same repeat that count. docs/laboratory-figures.md says how it is decided, and why so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tidepool.lab.errors import LabError
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.figures import Figures, figures_of
from tidepool.lab.statistics.intervals import LEVEL
from tidepool.lab.statistics.max_test import adjusted_p_values
from tidepool.lab.statistics.measure import measure_of

RATE: Final = 0.05
"""How probable one false difference is, or several, among all of a comparison."""
SMALLEST: Final = 0.01
"""Share of a figure below which a difference is not called one, however clear: it would be another on another day."""

ALL_WORKLOADS: Final = "all workloads"
"""Stands for a workload where a figure's change is the mean of those of all workloads: noise of each is smaller in it."""

Verdict = Literal["higher", "lower", "no difference shown"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure on two sides.

    Attributes:
        left: name of the one side; ``right`` of the other.
        workload: in which it was measured, or `ALL_WORKLOADS`.
        measure: its name.
        left_median: of all repeats; ``right_median`` likewise. Of all workloads the geometric mean of theirs, or the mean.
        is_ratio: whether the change is a share of the left figure, 0.1 for 10 % more; otherwise it is in the figure's own unit, for there
            are values of 0.
        change: from left to right, by the mean of blocks: of their ratios the geometric one.
        low: lower end of the change's confidence interval, of this figure alone; ``high`` is the upper one. None with one repeat.
        p_value: corrected for all figures of the comparison.
        verdict: what right is, compared with left.
    """

    left: str
    right: str
    workload: str
    measure: str
    left_median: float
    right_median: float
    is_ratio: bool
    change: float
    low: float | None
    high: float | None
    p_value: float
    verdict: Verdict

    @property
    def is_better(self) -> bool | None:
        """Return whether right is the better side; None where no difference is shown."""
        if self.verdict == "no difference shown":
            return None
        return self.verdict == measure_of(self.measure).better


def compare_schedulers(
    results: Results, one: str, other: str, measures: Collection[str] = ()
) -> tuple[Difference, ...]:
    """Return all figures that two schedulers of a campaign both have, and whether ``other`` differs from ``one``.

    Args:
        results: the whole campaign.
        one: the scheduler that is compared with.
        other: the one that is compared.
        measures: names of those that are asked for, which has to be said before they are seen: fewer show smaller differences. All
            without them.

    Raises:
        LabError: the campaign is not whole, or has no such scheduler.
    """
    for scheduler in (one, other):
        if scheduler not in results.campaign.schedulers:
            raise LabError(
                f"{results.campaign.name} has no scheduler {scheduler}; it has {', '.join(results.campaign.schedulers)}"
            )
    _require_whole(results)
    figures = figures_of(results)
    return _decided(_columns((one, one, figures), (other, other, figures), measures))


def compare_all_schedulers(results: Results, measures: Collection[str] = ()) -> tuple[Difference, ...]:
    """Return the same of each two schedulers of a campaign, corrected for all of them together.

    Raises:
        LabError: the campaign is not whole.
    """
    _require_whole(results)
    return compare_each_two(figures_of(results), results.campaign.schedulers, measures)


def compare_each_two(
    figures: Figures, schedulers: Sequence[str], measures: Collection[str] = ()
) -> tuple[Difference, ...]:
    """Return the same of figures of a whole campaign, wherever they are from."""
    return _decided(
        [
            column
            for one, other in combinations(schedulers, 2)
            for column in _columns((one, one, figures), (other, other, figures), measures)
        ]
    )


def compare(left: Results, right: Results, measures: Collection[str] = ()) -> tuple[Difference, ...]:
    """Return all figures that two campaigns both have of the same scheduler and the same workload, and whether ``right`` differs.

    Workloads of one name whose parameters differ are not compared: `changed_workloads` names them.

    Raises:
        LabError: one of the two is not whole, or they have nothing in common.
    """
    _require_whole(left)
    _require_whole(right)
    changed = changed_workloads(left, right)
    left_figures, right_figures = (
        {trial: each for trial, each in figures_of(results).items() if trial.workload not in changed}
        for results in (left, right)
    )
    common = [each for each in left.campaign.schedulers if each in right.campaign.schedulers]
    found = compare_figures(
        (left.campaign.name, left_figures), (right.campaign.name, right_figures), common, measures
    )
    if not found:
        raise LabError(
            f"{left.campaign.name} and {right.campaign.name} have no scheduler with a workload of the same parameters in common; "
            f"compare campaigns of one laboratory's file{': ' + ', '.join(changed) + ' changed' if changed else ''}"
        )
    return found


def compare_figures(
    left: tuple[str, Figures],
    right: tuple[str, Figures],
    schedulers: Sequence[str],
    measures: Collection[str] = (),
) -> tuple[Difference, ...]:
    """Return the same of figures of two whole campaigns with the same workloads, wherever they are from; each has its campaign's name."""
    (left_name, left_figures), (right_name, right_figures) = left, right
    return _decided(
        [
            column
            for scheduler in schedulers
            for column in _columns(
                (f"{left_name}: {scheduler}", scheduler, left_figures),
                (f"{right_name}: {scheduler}", scheduler, right_figures),
                measures,
            )
        ]
    )


def changed_workloads(left: Results, right: Results) -> tuple[str, ...]:
    """Return the names that both campaigns have, of workloads whose kind or parameters are not the same in both."""
    names = [each for each in left.campaign.workloads if each in right.campaign.workloads]
    both = {name: (left.workload(name, 1), right.workload(name, 1)) for name in names}
    return tuple(
        name
        for name, (one, other) in both.items()
        if (one.kind, one.parameters) != (other.kind, other.parameters)
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """One figure on both sides; differences are right less left in each repeat, of logarithms where it is a ratio."""

    left: str
    right: str
    workload: str
    measure: str
    left_median: float
    right_median: float
    is_ratio: bool
    differences: NDArray[np.float64]


def _require_whole(results: Results) -> None:
    if not results.is_whole:
        raise LabError(
            f"the campaign {results.campaign.name} in {results.folder} is not whole: {len(results.missing())} trials are missing; "
            "go on with it by `tidepool lab run`"
        )


_Side = tuple[str, str, Figures]


def _columns(left: _Side, right: _Side, measures: Collection[str]) -> list[_Column]:
    """Return the figures that both sides have in each repeat that both have, and those of all workloads together."""
    (left_name, left_scheduler, left_figures), (right_name, right_scheduler, right_figures) = left, right
    of_left, of_right = (
        _by_workload(left_scheduler, left_figures),
        _by_workload(right_scheduler, right_figures),
    )
    found: list[_Column] = []
    workloads = [each for each in of_left if each in of_right]
    for workload in workloads:
        repeats = sorted(of_left[workload].keys() & of_right[workload].keys())
        for measure in of_left[workload][repeats[0]] if repeats else ():
            if measures and measure not in measures:
                continue
            sides = [[of[workload][repeat].get(measure) for repeat in repeats] for of in (of_left, of_right)]
            one, other = ([each for each in side if each is not None] for side in sides)
            if len(one) == len(other) == len(repeats):
                found.append(
                    _column(left_name, right_name, workload, measure, np.array(one), np.array(other))
                )
    together = [
        [each for each in found if each.measure == name]
        for name in dict.fromkeys(each.measure for each in found)
    ]
    return found + [_together(each) for each in together if len(each) == len(workloads) > 1]


def _column(
    left: str, right: str, workload: str, measure: str, one: NDArray[np.float64], other: NDArray[np.float64]
) -> _Column:
    is_ratio = bool((one > 0).all() and (other > 0).all())
    differences = np.log(other) - np.log(one) if is_ratio else other - one
    return _Column(
        left, right, workload, measure, float(np.median(one)), float(np.median(other)), is_ratio, differences
    )


def _together(columns: Sequence[_Column]) -> _Column:
    """Return a figure of all workloads, by repeat: what disturbs a whole repeat is not taken for several that agree."""
    first = columns[0]
    medians = np.array([(each.left_median, each.right_median) for each in columns])
    left_median, right_median = (
        np.exp(np.log(medians).mean(axis=0)) if first.is_ratio else medians.mean(axis=0)
    )
    differences = np.mean([each.differences for each in columns], axis=0)
    return replace(
        first,
        workload=ALL_WORKLOADS,
        left_median=float(left_median),
        right_median=float(right_median),
        differences=differences,
    )


def _by_workload(scheduler: str, figures: Figures) -> Mapping[str, Mapping[int, Mapping[str, float]]]:
    found: dict[str, dict[int, Mapping[str, float]]] = {}
    for trial, of_trial in figures.items():
        if trial.scheduler == scheduler:
            found.setdefault(trial.workload, {})[trial.repeat] = of_trial
    return found


def _decided(columns: Sequence[_Column]) -> tuple[Difference, ...]:
    if not columns:
        return ()
    p_values = adjusted_p_values(np.column_stack([each.differences for each in columns]))
    return tuple(
        _difference(column, float(p_value)) for column, p_value in zip(columns, p_values, strict=True)
    )


def _difference(column: _Column, p_value: float) -> Difference:
    differences = column.differences
    middle = float(differences.mean())
    low: float | None = None
    high: float | None = None
    if (blocks := len(differences)) > 1:
        half = float(stats.t.ppf((1 + LEVEL) / 2, blocks - 1) * differences.std(ddof=1) / np.sqrt(blocks))
        low, high = middle - half, middle + half
    if column.is_ratio:
        middle, low, high = float(np.expm1(middle)), _share(low), _share(high)
    scale = 1.0 if column.is_ratio else abs(column.left_median)
    is_shown = p_value <= RATE and abs(middle) >= SMALLEST * scale
    verdict: Verdict = ("higher" if middle > 0 else "lower") if is_shown else "no difference shown"
    return Difference(
        left=column.left,
        right=column.right,
        workload=column.workload,
        measure=column.measure,
        left_median=column.left_median,
        right_median=column.right_median,
        is_ratio=column.is_ratio,
        change=middle,
        low=low,
        high=high,
        p_value=p_value,
        verdict=verdict,
    )


def _share(logarithm: float | None) -> float | None:
    return None if logarithm is None else float(np.expm1(logarithm))

"""Runs over time: how many processors were held, and Gantt charts of each run, by machine and processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidepool.charts.embedded import embedded
from tidepool.charts.gantt import gantt_figure
from tidepool.charts.levels import Levels, levels_figure
from tidepool.lab.report.elements import Element, Figure, Folded, Table
from tidepool.lab.report.occupancy import COLOURS, gantt_of, levels_of
from tidepool.lab.report.runs import Run, machines_of
from tidepool.lab.report.words import figure

#: How many steps of time a drawing of levels has.
_STEPS: Final = 240


def utilization(
    cpus: int, schedulers: Sequence[str], by_workload: Mapping[str, Sequence[Run]], colours: Mapping[str, str]
) -> Iterator[Element]:
    """Yield for each workload how many processors were held over time; ``cpus`` are all that there are."""
    for name, runs in by_workload.items():
        yield _utilization(name, cpus, schedulers, runs, colours)


def gantts(runs: Sequence[Run], by_workload: Mapping[str, Sequence[Run]]) -> Iterator[Element]:
    """Yield the Gantt charts of each workload: its first repeat open, the others folded."""
    machines = machines_of(runs)
    for name, of_it in by_workload.items():
        repeats = sorted({run.outcome.repeat for run in of_it})
        for repeat in repeats:
            drawn = _gantt(name, repeat, [run for run in of_it if run.outcome.repeat == repeat], machines)
            yield drawn if repeat == repeats[0] else Folded(f"{name}, repeat {repeat}", [drawn])


def _utilization(
    workload: str, cpus: int, schedulers: Sequence[str], runs: Sequence[Run], colours: Mapping[str, str]
) -> Figure:
    step_s = max(run.outcome.lasted_s for run in runs) / _STEPS or 1.0
    levels = {(run.outcome.scheduler, run.outcome.repeat): levels_of(run, step_s) for run in runs}
    by_scheduler = {name: [each for (of, _), each in levels.items() if of == name] for name in schedulers}
    panels = [Levels(name, repeats) for name, repeats in by_scheduler.items() if repeats]
    return Figure(
        embedded(
            lambda: levels_figure(panels, step_s, cpus, "processors held", colours),
            f"{workload}: processors that processes held, over time, by scheduler",
        ),
        f"{workload}: processors that processes held. The area is the median of repeats, each line is one; dashed is all that there are.",
        Table(
            "",
            ("scheduler", "repeat", *(f"{tenth}0 % of the time" for tenth in range(1, 11))),
            [(name, str(repeat), *_tenths(each)) for (name, repeat), each in sorted(levels.items())],
        ),
    )


def _gantt(workload: str, repeat: int, runs: Sequence[Run], machines: Sequence[str]) -> Figure:
    panels = [gantt_of(run, machines) for run in runs]
    return Figure(
        embedded(
            lambda: gantt_figure(panels, COLOURS),
            f"{workload}, repeat {repeat}: each process on its processor, by scheduler",
        ),
        f"{workload}, repeat {repeat}: each process, on the processor that it had. Spans too short to be told apart are drawn as one.",
        Table(
            "",
            ("scheduler", "processor", "processes", "of them killed", "first start, s", "last end, s"),
            [
                (
                    run.outcome.scheduler,
                    row,
                    str(len(bars)),
                    str(sum(bar.kind == "killed" for bar in bars)),
                    figure(min(bar.begins_s for bar in bars)),
                    figure(max(bar.ends_s for bar in bars)),
                )
                for run, panel in zip(runs, panels, strict=True)
                for at, row in enumerate(panel.rows)
                if (bars := [bar for bar in panel.bars if bar.row == at and bar.kind != "machine away"])
            ],
        ),
    )


def _tenths(levels: Sequence[float]) -> Iterator[str]:
    """Means of ten equal spans."""
    for tenth in range(10):
        part = levels[
            len(levels) * tenth // 10 : max(len(levels) * tenth // 10 + 1, len(levels) * (tenth + 1) // 10)
        ]
        yield figure(sum(part) / len(part)) if part else "-"

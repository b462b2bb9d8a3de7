"""Write the page of a campaign that was run twice: its figures, what they say of schedulers, and whether the second run says so too.

    python -m bench.schedulers results/lab/schedulers results/lab/again --write docs/benchmarks/schedulers.md
    python -m bench.schedulers --write docs/benchmarks/schedulers.md     # anew, of the single values that are beside it

Beside the page are a chart (.svg) and the single values (.csv), of which it is made. What is compared is named here, before any campaign: fewer questions
show smaller differences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.page import add_page_option
from bench.schedulers_chart import write_chart
from bench.schedulers_values import (
    read_values,
    schedulers_of,
    values_in_order,
    values_of,
    workloads_of,
    write_values,
)
from tidepool.lab.report.words import figure, interval, scale_of
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.comparison import Difference, compare_each_two, compare_figures
from tidepool.lab.statistics.figures import Figures
from tidepool.lab.statistics.intervals import LEVEL, median_interval
from tidepool.lab.statistics.measure import measure_of

COMPARED: Final = (
    "submit_to_start_seconds",
    "priority_submit_to_start_seconds",
    "gang_skew_seconds",
    "makespan_seconds",
    "scheduler_cpu_seconds",
    "unexpected_jobs",
)
SHOWN: Final = (
    "submit_to_start_seconds",
    "priority_submit_to_start_seconds",
    "turnaround_seconds",
    "bounded_slowdown",
    "launch_seconds_at_1",
    "launch_seconds_at_2",
    "launch_seconds_at_4",
    "gang_skew_seconds",
    "makespan_seconds",
    "throughput_jobs_per_second",
    "utilization",
    "scheduler_cpu_seconds",
    "scheduler_memory_bytes",
    "api_requests",
    "unexpected_jobs",
)
_LAUNCHES: Final = (
    "Launches are of the repeats in which jobs of that size found processors free; one value has no interval."
)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A difference that the first run shows, and what the second says of it."""

    first: Difference
    second: Difference

    @property
    def outcome(self) -> str:
        """``holds``, ``not shown again`` or ``contradicted``."""
        if self.second.verdict == self.first.verdict:
            return "holds"
        return "not shown again" if self.second.is_better is None else "contradicted"


def conclusions(first: Sequence[Difference], second: Sequence[Difference]) -> Iterator[Conclusion]:
    """Pair what the first run shows with what the second says."""
    again = {(each.left, each.right, each.workload, each.measure): each for each in second}
    for each in first:
        other = again.get((each.left, each.right, each.workload, each.measure))
        if each.is_better is not None and other is not None:
            yield Conclusion(each, other)


def page(runs: Sequence[Figures]) -> str:
    """Return the figures of both runs as Markdown."""
    first, second = (compare_each_two(each, schedulers_of(each), COMPARED) for each in runs)
    found = [*conclusions(first, second)]
    repeats = max(trial.repeat for trial in runs[0])
    return "\n\n".join(
        [
            f"{repeats} repeats in each run: medians, in brackets the interval of {LEVEL:.0%} confidence. {_LAUNCHES}",
            *filter(None, (table(runs, measure) for measure in SHOWN)),
            "### Whether it holds when it is run again",
            _summary(found, len(first)),
            *filter(None, (_noted(found), _between(runs))),
        ]
    )


def table(runs: Sequence[Figures], measure: str) -> str:
    """Return the table of a measure; a sentence where all trials have the same value, nothing where none has one."""
    values = [values_of(run, measure) for run in runs]
    singles = {one for of_run in values for each in of_run.values() for one in each}
    if not singles:
        return ""
    known = measure_of(measure)
    unit, scale = scale_of(known.unit, singles)
    title = f"### {known.label[0].upper()}{known.label[1:]}{f', {unit}' if unit else ''}"
    if len(singles) == 1:
        return f"{title}\n\n{figure(*singles)} in all trials."
    schedulers = schedulers_of(runs[0])
    rows = [f"| workload | run | {' | '.join(schedulers)} |", f"|---|---|{'---:|' * len(schedulers)}"]
    for workload in workloads_of(runs[0]):
        for run, own in enumerate(values, 1):
            cells = [_cell(own.get((scheduler, workload), ()), scale) for scheduler in schedulers]
            if any(cells):
                rows.append(f"| {workload} | {run} | {' | '.join(cells)} |")
    return "\n".join([title, "", *rows])


def _cell(values: Sequence[float], scale: float) -> str:
    """Return a median with its interval; empty without values."""
    if not values:
        return ""
    found = median_interval([each * scale for each in values])
    if found.low is None or found.high is None:
        return figure(found.median)
    return interval(found.median, found.low, found.high)


def _summary(found: Sequence[Conclusion], asked: int) -> str:
    lines = [
        f"Of {asked} comparisons of two schedulers the first run shows {len(found)} differences, at a rate of 5 % for any false one among all.",
        "",
        "| measure | differences | hold | not shown again | contradicted |",
        "|---|---:|---:|---:|---:|",
    ]
    for measure in COMPARED:
        own = [each.outcome for each in found if each.first.measure == measure]
        if own:
            counts = [own.count(outcome) for outcome in ("holds", "not shown again", "contradicted")]
            lines.append(f"| {measure_of(measure).label} | {len(own)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def _noted(found: Sequence[Conclusion]) -> str:
    """Return those that do not hold, each by its name; empty where all do."""
    return "\n".join(
        f"- {each.outcome}: {_of(each.first)}: {each.first.left} to {each.first.right} {_change(each.first)}, then {_change(each.second)}"
        for each in found
        if each.outcome != "holds"
    )


def _between(runs: Sequence[Figures]) -> str:
    """Say what differs between the runs: one scheduler with itself, where nothing should."""
    first, second = zip(("run 1", "run 2"), runs, strict=True)
    found = compare_figures(first, second, schedulers_of(runs[0]), COMPARED)
    shown = [each for each in found if each.is_better is not None]
    said = [
        f"Of {len(found)} figures {len(shown)} differ between the runs, scheduler by scheduler, by more than noise."
    ]
    said += [f"- {_of(each)}: {each.left} to {each.right} {_change(each)}" for each in shown]
    return "\n".join(said)


def _of(difference: Difference) -> str:
    return f"{difference.workload}, {measure_of(difference.measure).label}"


def _change(difference: Difference) -> str:
    change = f"{difference.change:+.0%}" if difference.is_ratio else f"{difference.change:+.3g}"
    return f"{change} (p {difference.p_value:.3f})"


def main() -> None:
    """Read both campaigns, or the values of them, and write or print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="*",
        help="folders of results: of a whole campaign, and of the same one, run again; none for the values beside the page",
    )
    add_page_option(parser)
    given = parser.parse_args()
    if len(given.runs) not in ((0, 2) if given.write else (2,)):
        parser.error("name the results of both runs, or a page by --write that has its values beside it")
    runs = tuple(values_in_order(Results.open(folder)) for folder in given.runs)
    if not given.write:
        print(page(runs))
        return
    values = given.write.path.with_suffix(".csv")
    if runs:
        write_values(runs, values)
    runs = read_values(values)
    given.write.write(page(runs))
    write_chart(runs, given.write.path.with_suffix(".svg"))


if __name__ == "__main__":
    main()

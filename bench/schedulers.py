"""Write the page of a campaign that was run twice: its figures, what they say of schedulers, and whether the second run says so too.

    python -m bench.schedulers results/lab/schedulers results/lab/again --write docs/benchmarks/schedulers.md

Beside the page are a chart (.svg) and the single values (.csv). The measures are named here, before any campaign: fewer questions show smaller differences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.engine import machine
from bench.page import add_page_option
from bench.schedulers_chart import values_of, write_chart, write_values
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.comparison import Difference, compare, compare_all_schedulers
from tidepool.lab.statistics.measure import measure_of

MEASURES: Final = (
    "submit_to_start_seconds",
    "priority_submit_to_start_seconds",
    "gang_skew_seconds",
    "makespan_seconds",
    "scheduler_cpu_seconds",
    "unexpected_jobs",
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


def page(runs: tuple[Results, Results]) -> str:
    """Return the figures as Markdown."""
    first, second = (compare_all_schedulers(each, MEASURES) for each in runs)
    found = [*conclusions(first, second)]
    return "\n\n".join(
        [
            f"{machine()}. {runs[0].campaign.repeats} repeats in each run; medians of the first run, and of the second behind the stroke.",
            *filter(None, (_table(runs, measure) for measure in MEASURES)),
            "### Whether it holds when it is run again",
            _summary(found, len(first)),
            *filter(None, (_noted(found), _between(runs))),
        ]
    )


def _table(runs: tuple[Results, Results], measure: str) -> str:
    """Return the table of a measure; empty where no workload has it."""
    schedulers = runs[0].campaign.schedulers
    known = measure_of(measure)
    head = [
        f"### {known.label[0].upper()}{known.label[1:]}{f', {known.unit}' if known.unit else ''}",
        "",
        f"| workload | {' | '.join(schedulers)} |",
        f"|---|{'---:|' * len(schedulers)}",
    ]
    values = [{pair: median(each) for pair, each in values_of(run, measure).items()} for run in runs]
    rows = []
    for workload in runs[0].campaign.workloads:
        cells = [
            " / ".join(f"{own[scheduler, workload]:.3g}" for own in values if (scheduler, workload) in own)
            for scheduler in schedulers
        ]
        if any(cells):
            rows.append(f"| {workload} | {' | '.join(cells)} |")
    return "\n".join([*head, *rows]) if rows else ""


def _summary(found: Sequence[Conclusion], asked: int) -> str:
    lines = [
        f"Of {asked} comparisons of two schedulers the first run shows {len(found)} differences, at a rate of 5 % for any false one among all.",
        "",
        "| measure | differences | hold | not shown again | contradicted |",
        "|---|---:|---:|---:|---:|",
    ]
    for measure in MEASURES:
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


def _between(runs: tuple[Results, Results]) -> str:
    """Say what differs between the runs: one scheduler with itself, where nothing should."""
    found = compare(*runs, MEASURES)
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
    """Read both campaigns, and write or print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=Path, help="folder of results of a whole campaign")
    parser.add_argument("second", type=Path, help="that of the same campaign, run again")
    add_page_option(parser)
    given = parser.parse_args()
    runs = Results.open(given.first), Results.open(given.second)
    figures = page(runs)
    if given.write:
        given.write.write(figures)
        write_chart(runs, given.write.path.with_suffix(".svg"))
        write_values(runs, given.write.path.with_suffix(".csv"))
    else:
        print(figures)


if __name__ == "__main__":
    main()

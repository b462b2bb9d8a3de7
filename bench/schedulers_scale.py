"""Schedulers with simulated nodes: how throughput and time to start fall with nodes and with the queue's length.

Slurm runs a slurmd for each node, Kubernetes has nodes that kwok plays; all in namespaces of their own, so that nothing is left.
One after the other: each scheduler with each number of nodes is a process of its own.

    sudo python bench/schedulers_scale.py --nodes 100,1000 --schedulers slurm,kubernetes
    sudo python bench/schedulers_scale.py --nodes 100,1000,5000 --write docs/benchmarks/schedulers_scale.md

Beside the page are the single values (.csv), the clusters (_clusters.csv) and the chart (.svg). What was measured before and is not
measured anew stays in them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.engine import machine  # noqa: E402
from bench.page import add_page_option  # noqa: E402
from tidepool.lab.errors import LabError  # noqa: E402
from tidepool.lab.scale.chart import write_chart  # noqa: E402
from tidepool.lab.scale.launches import ClusterFacts, Launch, read_rows, without, write_rows  # noqa: E402
from tidepool.lab.scale.measure import lacking, measured  # noqa: E402
from tidepool.lab.scale.plan import CHOICES, Plan, choice  # noqa: E402
from tidepool.lab.scale.summary import clusters_table, figures_table, points  # noqa: E402


def _numbers(text: str) -> list[int]:
    numbers = [int(number) for number in text.split(",")]
    if any(number < 1 for number in numbers):
        raise ValueError
    return sorted(set(numbers))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nodes", type=_numbers, default="100,1000,5000", help="numbers, with commas between them"
    )
    parser.add_argument(
        "--pending", type=_numbers, default="100,1000,5000", help="lengths of the queue, likewise"
    )
    parser.add_argument(
        "--schedulers",
        default="slurm,kubernetes,volcano",
        help=f"of {', '.join(CHOICES)}, with commas between them",
    )
    parser.add_argument("--rounds", type=int, default=5, help="that are kept; one more warms up")
    parser.add_argument("--burst", type=int, default=200, help="jobs that are submitted together, each round")
    parser.add_argument(
        "--singles", type=int, default=10, help="jobs that are submitted one after the other, each round"
    )
    parser.add_argument("--ready", type=float, default=900.0, help="seconds that nodes may take to be ready")
    add_page_option(parser)
    return parser.parse_args()


def measure(plan: Plan) -> tuple[list[Launch], list[ClusterFacts]]:
    """Measure; what could not be had is in the facts."""
    began = time.monotonic()
    rows = list(measured(plan))
    launches = [row for row in rows if isinstance(row, Launch)]
    facts = [row for row in rows if isinstance(row, ClusterFacts)]
    end = "".join(f": {each.lack}" for each in facts if each.lack)
    took_s = time.monotonic() - began
    print(f"{plan.scheduler}, {plan.nodes:,} nodes: {took_s:.0f} s{end}", file=sys.stderr, flush=True)
    return launches, facts


def report(launches: Sequence[Launch], facts: Sequence[ClusterFacts], options: argparse.Namespace) -> str:
    """Return the figures as Markdown."""
    versions = dict.fromkeys(
        f"{each.scheduler}: {each.versions}; {each.settings}" for each in facts if each.versions
    )
    what = f"{options.rounds} rounds of {options.singles} single jobs and a burst of {options.burst}"
    return "\n\n".join(
        (
            f"{time.strftime('%Y-%m-%d')}, {machine()}. {what}; medians with their 95 % intervals.",
            figures_table(points(launches)),
            clusters_table(facts),
            "\n".join(f"- {line}" for line in versions),
        )
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """Single values and clusters, as files beside the page have them."""

    page: Path

    def read(self) -> tuple[tuple[Launch, ...], tuple[ClusterFacts, ...]]:
        return read_rows(self._values, Launch), read_rows(self._clusters, ClusterFacts)

    def put(self, plan: Plan, launches: Sequence[Launch], facts: Sequence[ClusterFacts]) -> None:
        """Keep what was measured by a plan instead of what was before, and draw the chart anew."""
        anew = [(plan.scheduler, plan.nodes)]
        before, clusters = self.read()
        launches = [*without(before, anew), *launches]
        write_rows(self._values, launches, Launch)
        facts = [*without(clusters, anew), *facts]
        write_rows(self._clusters, sorted(facts, key=lambda each: (each.scheduler, each.nodes)), ClusterFacts)
        if found := points(launches):
            write_chart(found, self.page.with_suffix(".svg"))

    @property
    def _values(self) -> Path:
        return self.page.with_suffix(".csv")

    @property
    def _clusters(self) -> Path:
        return self.page.with_name(f"{self.page.stem}_clusters.csv")


def main() -> None:
    """Measure, print, and write page, chart and single values; those of each plan when it has ended."""
    options = _options()
    names = options.schedulers.split(",")
    try:
        if lacks := dict.fromkeys(lack for name in names for lack in lacking(choice(name))):
            raise LabError("\n".join(lacks))
        launches: list[Launch] = []
        facts: list[ClusterFacts] = []
        for name, nodes in itertools.product(names, options.nodes):
            plan = Plan(
                name, nodes, options.pending, options.rounds, options.burst, options.singles, options.ready
            )
            found, cluster = measure(plan)
            launches += found
            facts += cluster
            if options.write:
                kept = Kept(options.write.path)
                kept.put(plan, found, cluster)
                options.write.write(report(*kept.read(), options))
        print(report(launches, facts, options))
    except LabError as mistake:
        sys.exit(str(mistake))


if __name__ == "__main__":
    main()

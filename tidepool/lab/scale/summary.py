"""Figures of launches: jobs a second, seconds from submission; and the tables of a page. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidepool.lab.scale.launches import BURST, SINGLE, ClusterFacts, Launch
from tidepool.lab.statistics.intervals import Interval, median_interval


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of one scheduler, by nodes and by the queue's length.

    Attributes:
        started_per_s: by burst, jobs through the seconds from the first submission to the last start.
        decided_per_s: likewise to the last decision.
        wait_s: by single job, from submission to start. ``wait_p95_s`` is what all but a twentieth waited at most.
        decision_s: by single job, from submission to decision.
    """

    scheduler: str
    nodes: int
    pending: int
    started_per_s: Interval
    decided_per_s: Interval
    wait_s: Interval
    wait_p95_s: float
    decision_s: Interval


def points(launches: Iterable[Launch]) -> tuple[Point, ...]:
    """Return a point for each scheduler, number of nodes and queue of which there are bursts and single jobs."""
    by_point: dict[tuple[str, int, int], list[Launch]] = defaultdict(list)
    for each in launches:
        by_point[each.scheduler, each.nodes, each.pending].append(each)
    found = []
    for (scheduler, nodes, pending), those in sorted(by_point.items()):
        bursts = _by_round(each for each in those if each.way == BURST)
        singles = [each for each in those if each.way == SINGLE]
        if not bursts or not singles:
            continue
        waits = [each.started_s - each.submitted_s for each in singles]
        found.append(
            Point(
                scheduler,
                nodes,
                pending,
                started_per_s=median_interval(
                    [_rate(of, [x.started_s for x in of]) for of in bursts.values()]
                ),
                decided_per_s=median_interval(
                    [_rate(of, [x.decided_s for x in of]) for of in bursts.values()]
                ),
                wait_s=median_interval(waits),
                wait_p95_s=float(np.percentile(waits, 95)),
                decision_s=median_interval([each.decided_s - each.submitted_s for each in singles]),
            )
        )
    return tuple(found)


def _by_round(launches: Iterable[Launch]) -> Mapping[int, Sequence[Launch]]:
    found: dict[int, list[Launch]] = defaultdict(list)
    for each in launches:
        found[each.round].append(each)
    return found


def _rate(burst: Sequence[Launch], ends: Sequence[float]) -> float:
    return len(burst) / (max(ends) - min(each.submitted_s for each in burst))


def figures_table(found: Sequence[Point]) -> str:
    """Return the points as a table of Markdown: medians with their intervals."""
    head = (
        "| scheduler | nodes | pending | jobs/s to started | jobs/s to decided | start, ms | p95, ms | decision, ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    )
    return "\n".join(
        (
            *head,
            *(
                f"| {each.scheduler} | {each.nodes:,} | {each.pending:,} | {_cell(each.started_per_s)} "
                f"| {_cell(each.decided_per_s)} | {_cell(each.wait_s, 1e3)} | {each.wait_p95_s * 1e3:.0f} "
                f"| {_cell(each.decision_s, 1e3)} |"
                for each in found
            ),
        )
    )


def _cell(interval: Interval, factor: float = 1.0) -> str:
    middle = f"{interval.median * factor:.0f}"
    if interval.low is None or interval.high is None:
        return middle
    return f"{middle} ({interval.low * factor:.0f} to {interval.high * factor:.0f})"


def clusters_table(facts: Sequence[ClusterFacts]) -> str:
    """Return what the simulated clusters took as a table of Markdown, and below it what could not be had."""
    lines = [
        "| scheduler | nodes | ready | until all ready, s | memory a node, MiB | the scheduler's, MiB | load |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {each.scheduler} | {each.nodes:,} | {each.ready:,} | {each.start_s:.1f} | {each.node_mib:.2f} "
            f"| {each.scheduler_mib:.0f} | {each.load:.1f} |"
            for each in facts
        ),
    ]
    lacks = [f"- {each.scheduler}, {each.nodes:,} nodes: {each.lack}" for each in facts if each.lack]
    return "\n".join([*lines, *([""] if lacks else []), *lacks])

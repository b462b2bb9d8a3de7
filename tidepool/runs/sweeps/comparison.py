"""Comparison of a sweep's runs: time, cost and efficiency at each point, their spread, and what differs. Pure.

All of it is of the runs' records, so it can be made again when no cluster is there any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.spec_reading import read_spec
from tidepool.runs.record import Run
from tidepool.runs.sweeps.sweep import Point, Sweep

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a run that has succeeded; None where its record does not tell."""

    name: str
    unit: str
    of: Callable[[Run], float | None]


def run_s(run: Run) -> float | None:
    """Return the seconds from its order to its end."""
    return None if run.ended is None else (run.ended - run.order.at).total_seconds()


def jobs_s(run: Run) -> float | None:
    """Return the seconds from the first job's start to the last one's end, as Slurm counted them."""
    times = [job.accounting for job in run.jobs if job.accounting]
    if not times:
        return None
    first = min(datetime.fromisoformat(each["Start"]) for each in times)
    return (max(datetime.fromisoformat(each["End"]) for each in times) - first).total_seconds()


def cpu_s(run: Run) -> float | None:
    """Return the CPU seconds that its jobs had, by Slurm's CPUTimeRAW."""
    times = [float(job.accounting["CPUTimeRAW"]) for job in run.jobs if job.accounting]
    return sum(times) if times else None


def cost_usd(run: Run) -> float | None:
    """Return the cost of its machines by the prices of the spec; None where it has none."""
    return run.cost.usd or None


def node_hours(run: Run) -> float | None:
    """Return the hours of its nodes, without the cluster's own machines."""
    hours = [each for fleet, each in run.cost.node_hours.items() if fleet]
    return sum(hours) if hours else None


def efficiency(run: Run) -> float | None:
    """Return which part of its nodes' CPU time its jobs had, from 0 to 1: the rest was boot, waiting and CPUs left free."""
    used = cpu_s(run)
    spec = read_spec(run.order.spec)
    cpus = {fleet.name: fleet.shape.cpus for fleet in spec.fleets}
    cpus |= {pool.name: pool.shape.cpus for pool in spec.pools}
    there = sum(hours * cpus.get(fleet, 0) for fleet, hours in run.cost.node_hours.items())
    return None if used is None or not there else used / (there * _HOUR_S)


MEASURES: Final = (
    Measure("time", "s", run_s),
    Measure("jobs", "s", jobs_s),
    Measure("cost", "USD", cost_usd),
    Measure("node hours", "h", node_hours),
    Measure("CPU time", "s", cpu_s),
    Measure("efficiency", "", efficiency),
)


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a measure over the runs of a point."""

    median: float
    least: float
    most: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PointResult:
    """The results of a point: its runs, how many succeeded, and the measures of those, by name."""

    point: Point
    runs: int
    succeeded: int
    measures: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a sweep. ``runs`` are by id, None where one was not begun; ``differs`` has values that were not varied, by path."""

    sweep: Sweep
    points: tuple[PointResult, ...]
    runs: Mapping[str, Run | None]
    differs: Mapping[str, tuple[str, ...]]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Return those that any point has."""
        return tuple(each for each in MEASURES if any(each.name in one.measures for one in self.points))

    @property
    def amiss(self) -> Iterator[tuple[Point, str, Run | None]]:
        """The runs that did not succeed, or have not ended: the point, the id, and the run where it was begun."""
        for each in self.sweep.runs:
            run = self.runs[each.id]
            if run is None or run.outcome != "succeeded" or run.is_under_way:
                yield self.sweep.points[each.point], each.id, run

    @property
    def is_whole(self) -> bool:
        """All runs have succeeded."""
        return not any(True for _ in self.amiss)


def compare(sweep: Sweep, runs: Mapping[str, Run | None]) -> Comparison:
    """Compare the runs of a sweep. ``runs`` has all of them, by id."""
    points = []
    for number, point in enumerate(sweep.points):
        of_it = [runs[each.id] for each in sweep.runs if each.point == number]
        good = [run for run in of_it if run is not None and _has_succeeded(run)]
        measures = {each.name: found for each in MEASURES if (found := _spread(each, good)) is not None}
        points.append(PointResult(point, len(of_it), len(good), FrozenDict(measures)))
    good_runs = [run for run in runs.values() if run is not None and _has_succeeded(run)]
    return Comparison(sweep, tuple(points), FrozenDict(runs), _differing(sweep, good_runs))


def _has_succeeded(run: Run) -> bool:
    return run.outcome == "succeeded" and not run.is_under_way


def _spread(measure: Measure, runs: Sequence[Run]) -> Spread | None:
    values = tuple(value for run in runs if (value := measure.of(run)) is not None)
    return Spread(median(values), min(values), max(values), values) if values else None


def _differing(sweep: Sweep, runs: Sequence[Run]) -> Mapping[str, tuple[str, ...]]:
    """Return what differs between runs and was not varied: in their specs, or the images that their nodes had."""
    told = [dict(_flat(run.order.spec)) | {f"image {k}": v for k, v in run.images.items()} for run in runs]
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted({path for each in told for path in each}):
        values = {str(each.get(path, "")) for each in told}
        if len(values) > 1 and not any(path == one or path.startswith(f"{one}.") for one in sweep.varied):
            found[path] = tuple(sorted(values))
    return FrozenDict(found)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values of a spec with their paths, entries of lists by their names."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            # A run has its name, its network and its subnets to itself.
            if key != "subnet" and (path or key not in ("name", "network")):
                yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            name = inner.get("name", i) if isinstance(inner, Mapping) else i
            yield from _flat(inner, f"{path}.{name}")
    else:
        yield path, value

"""`Measure`: what a figure is called, its unit, and which way is better. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from tidepool.lab.errors import LabError

Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a trial.

    Attributes:
        name: with its unit, as columns are called.
        unit: as axes are: ``s``, ``B/s``; empty where it is a ratio.
        better: which way is better.
        label: for people.
    """

    name: str
    unit: str
    better: Better
    label: str


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Measure("submit_to_start_seconds", "s", "lower", "submit to start, median"),
            Measure("submit_to_start_seconds_p95", "s", "lower", "submit to start, 95th percentile"),
            Measure(
                "priority_submit_to_start_seconds",
                "s",
                "lower",
                "submit to start of jobs with priority, median",
            ),
            Measure("turnaround_seconds", "s", "lower", "turnaround, median"),
            Measure("bounded_slowdown", "", "lower", "bounded slowdown, mean"),
            Measure("makespan_seconds", "s", "lower", "makespan"),
            Measure("throughput_jobs_per_second", "1/s", "higher", "throughput, jobs"),
            Measure("utilization", "", "higher", "utilization"),
            Measure("gang_skew_seconds", "s", "lower", "gang start skew, median"),
            Measure("restarts", "", "lower", "restarts of jobs"),
            Measure("unexpected_jobs", "", "lower", "jobs that did not end as they were to"),
            Measure("scheduler_cpu_seconds", "s", "lower", "scheduler's CPU time"),
            Measure("scheduler_memory_bytes", "B", "lower", "scheduler's memory, peak"),
            Measure("api_requests", "", "lower", "API requests"),
            Measure("energy_joules", "J", "lower", "energy of the package"),
        )
    }
)
"""Measures of all workloads, in the order of reports. Those by size, and those of kernels, `measure_of` knows by their names."""

_BY_SIZE: Final = "launch_seconds_at_"
_UNITS: Final[Mapping[str, tuple[str, Better]]] = MappingProxyType(
    {
        "bytes_per_second": ("B/s", "higher"),
        "flops_per_second": ("FLOP/s", "higher"),
        "seconds": ("s", "lower"),
    }
)
_FIGURE: Final = re.compile(rf"(?P<what>.+)_(?P<unit>{'|'.join(_UNITS)})(_at_(?P<bytes>\d+))?")
_SIZES: Final = ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def measure_of(name: str) -> Measure:
    """Return the measure of this name: one of the table, of jobs of a size, or of a kernel.

    A kernel's figure has its unit in its name, ``copy_bytes_per_second``, and with it which way is better; behind that it may have
    the size of its messages: ``one_way_seconds_at_1024``.

    Raises:
        LabError: the name has no unit that is known.
    """
    if name in MEASURES:
        return MEASURES[name]
    if name.startswith(_BY_SIZE):
        tasks = name.removeprefix(_BY_SIZE)
        return Measure(name, "s", "lower", f"launch of {tasks} {'task' if tasks == '1' else 'tasks'}, median")
    found = _FIGURE.fullmatch(name)
    if not found:
        raise LabError(
            f"the figure {name} has no unit in its name: end it with one of {', '.join(_UNITS)}, and _at_BYTES behind that"
        )
    unit, better = _UNITS[found["unit"]]
    label = found["what"].replace("_", " ")
    return Measure(name, unit, better, f"{label}, {_size(int(found['bytes']))}" if found["bytes"] else label)


def launch_name(tasks: int) -> str:
    """Return the name of the measure of how long jobs of so many tasks take to launch."""
    return f"{_BY_SIZE}{tasks}"


def _size(of_bytes: int) -> str:
    scale, unit = next(
        ((scale, unit) for scale, unit in _SIZES if of_bytes >= scale and not of_bytes % scale), _SIZES[-1]
    )
    return f"{of_bytes // scale} {unit}"

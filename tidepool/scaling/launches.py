"""Launches of nodes by phase: what is known of one from all sides, and its report: rows, CSV, quantiles. Pure, but for streams.

```
 asked -> making -> image | firmware -> loader -> kernel -> initrd -> units -> slurmd -> in service
 asked -> resuming ---------------------------------------------------------> slurmd -> in service
 the scaler's own    its infrastructure's, and its machine's: told when it is up
```
A phase lasts until the next one that is known begins, so the phases of a launch are as long as the launch.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TextIO

from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion.report import quantile
from tidepool.infrastructures.boot_times import BOOT_PHASES, LAUNCH_PHASES, BootTimes, LaunchPhase
from tidepool.scaling.ports import LaunchRecord

#: Infrastructures tell whole seconds, by a clock of their own.
_BLUR: Final = timedelta(seconds=2)
#: The table's columns, and what each says.
COLUMNS: Final[Mapping[str, str]] = FrozenDict(
    {
        "node": "the node",
        "fleet": "its fleet",
        "infrastructure": "where its machine is",
        "asked": "when it was asked for, in UTC",
        "total_s": "from then until Slurm had it in service",
        "asked_s": "until an `up` began to make it",
        "making_s": "until its machine is there, as its infrastructure tells or the scaler saw",
        "resuming_s": "of a machine that was suspended, in place of its boot: until slurmd was started anew",
        "image_s": "of a machine that boots no kernel, until its first process ran: scheduled, its image fetched",
        "firmware_s": "of a machine that boots, until its loader began; until its kernel where the firmware does not say",
        "loader_s": "until its kernel began",
        "kernel_s": "until its initrd began; until its units where it has none",
        "initrd_s": "until its root's first process ran",
        "units_s": "from then until slurmd was started",
        "slurmd_s": "from then until Slurm had it in service",
        "first_job_s": "from then until a job ran on it",
    }
)


@dataclass(frozen=True, slots=True)
class Row:
    """One launch, in seconds. Phases that nobody can tell of are missing."""

    record: LaunchRecord
    total_s: float
    phases: Mapping[LaunchPhase, float]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Times of a phase in launches of one infrastructure, in seconds."""

    infrastructure: str
    phase: str
    count: int
    p50: float
    p90: float
    p99: float
    longest: float


def phases_began(
    asked: datetime,
    making: datetime | None,
    made: datetime | None,
    boot: Mapping[LaunchPhase, datetime],
    registered: datetime,
    *,
    is_resumed: bool = False,
) -> Mapping[LaunchPhase, datetime]:
    """Return when each phase of a launch began, in their order, none before the one before it.

    ``made`` is when its infrastructure had the machine, as that says; ``boot`` what the machine says. What was before
    there was an `up` is of a host that was there before; of a machine that ``is_resumed`` all but its slurmd. What contradicts what is known better is left out.
    """
    began: dict[LaunchPhase, datetime] = {"asked": asked}
    if making is not None and making <= registered:
        began["resuming" if is_resumed else "making"] = max(asked, making)
    earliest = max(began.values())
    phases = ("slurmd",) if is_resumed else BOOT_PHASES
    told: dict[LaunchPhase, datetime] = {
        phase: boot[phase] for phase in phases if phase in boot and earliest <= boot[phase] <= registered
    }
    if made is not None and (phase := _after_made(boot, told)) is not None:
        latest = min(told.values(), default=registered)
        if earliest - _BLUR <= made <= latest + _BLUR:
            began[phase] = min(max(made, earliest), latest)
    last = earliest
    for phase in LAUNCH_PHASES:
        if phase in told and told[phase] >= last:
            began[phase] = last = told[phase]
    return FrozenDict({phase: began[phase] for phase in LAUNCH_PHASES if phase in began})


def _after_made(
    boot: Mapping[LaunchPhase, datetime], told: Mapping[LaunchPhase, datetime]
) -> LaunchPhase | None:
    """The phase that begins when the machine is there; None where that is known better, or is long ago."""
    if "kernel" not in boot:
        return "image"
    return "firmware" if "kernel" in told and "firmware" not in told else None


def boot_began(times: BootTimes, at: datetime) -> Mapping[LaunchPhase, datetime]:
    """Return when phases of a boot began whose ages were asked for at ``at``."""
    return FrozenDict({phase: at - timedelta(seconds=age) for phase, age in times.ages.items()})


def rows(launches: Iterable[LaunchRecord]) -> list[Row]:
    """Return the rows of launches, in the order in which they were asked for."""
    found = []
    for record in sorted(launches, key=lambda each: (each.since, each.node)):
        known = [phase for phase in LAUNCH_PHASES if phase in record.began]
        ends = [*(record.began[phase] for phase in known[1:]), record.registered]
        phases = {phase: _seconds(record.began[phase], end) for phase, end in zip(known, ends, strict=True)}
        found.append(Row(record, _seconds(record.since, record.registered), FrozenDict(phases)))
    return found


def write_table(found: Iterable[Row], stream: TextIO) -> None:
    """As CSV, with a line of `COLUMNS` first."""
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in found:
        record = row.record
        job_s = None if record.first_job is None else _seconds(record.registered, record.first_job)
        table.writerow(
            [
                record.node,
                record.fleet,
                record.infrastructure,
                record.since.isoformat(timespec="milliseconds"),
                f"{row.total_s:.3f}",
                *(_written(row.phases.get(phase)) for phase in LAUNCH_PHASES),
                _written(job_s),
            ]
        )


def quantiles(found: Sequence[Row]) -> list[Quantiles]:
    """Return for each infrastructure each phase and the whole (``total``)."""
    table = []
    for infrastructure in sorted({row.record.infrastructure for row in found}):
        of_it = [row for row in found if row.record.infrastructure == infrastructure]
        for phase in (*LAUNCH_PHASES, "total"):
            times = sorted(times_of(of_it, phase))
            if times:
                p50, p90, p99 = (quantile(times, part) for part in (0.5, 0.9, 0.99))
                table.append(Quantiles(infrastructure, phase, len(times), p50, p90, p99, times[-1]))
    return table


def times_of(found: Sequence[Row], phase: str) -> list[float]:
    """Return the times of a phase, or of the whole (``total``), of those rows that tell of it."""
    if phase == "total":
        return [row.total_s for row in found]
    return [seconds for row in found for name, seconds in row.phases.items() if name == phase]


def _seconds(first: datetime, last: datetime) -> float:
    """Clocks may be set back meanwhile."""
    return max(0.0, (last - first).total_seconds())


def _written(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"

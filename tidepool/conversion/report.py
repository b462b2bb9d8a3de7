"""Times of conversions, phase by phase: as rows, as CSV, and as quantiles for each direction. Pure, but for streams."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TextIO

from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion.next_step import SAID
from tidepool.conversion.record import Conversion, Phase

#: The phases in which time passes, in their order.
PHASES: Final[tuple[Phase, ...]] = (
    "asked",
    "holding",
    "emptying",
    "leaving",
    "imaging",
    "joining",
    "restoring",
)
#: Steps within phases: what each begins after, and the mark or phase that it ends with.
STEPS: Final[Mapping[str, tuple[str, str]]] = FrozenDict(
    {
        "begin": ("asked", "asked/driven"),
        "hold": ("holding", "holding/held"),
        "lose": ("leaving", "leaving/lost"),
        "forget": ("leaving/lost", "leaving/forgotten"),
        "image": ("imaging", "imaging/imaged"),
        "boot": ("imaging/imaged", "joining"),
        "prepare": ("joining", "joining/prepared"),
        "take": ("joining/prepared", "joining/taken"),
        "serve": ("joining/taken", "done"),
    }
)
#: What the best published way takes, which makes machines anew.
THESIS: Final = (
    "Beside them, a thesis on Cluster API and Metal3, which images the machine anew: 183.91 s from Kubernetes to Slurm, "
    "145.17 s to deprovision"
)

#: The table's columns, and what each says.
COLUMNS: Final[Mapping[str, str]] = FrozenDict(
    {
        "id": "the journal's number",
        "node": "the machine",
        "pool": "its pool",
        "direction": "`slurm -> kubernetes`, `kubernetes -> slurm`; `none -> slurm` for a first role",
        "mode": "`graceful` or `forced`, as it was at the end",
        "by": "who ordered it: `person`, `scaler`, `up`",
        "outcome": "`done`, `stopped` (it is what it was), `failed`",
        "ordered": "when, in UTC",
        "total_s": "from the order to the end",
        "driven_s": "from when somebody began to carry it out to the end",
        **{f"{phase}_s": f"in the phase `{phase}`; empty where it was not in it" for phase in PHASES},
        "begin_step_s": "of `asked`: until somebody began to carry it out",
        "hold_step_s": "of `holding`: to drain or to cordon",
        "lose_step_s": "of `leaving`: to stop the old role's services, and shred its credentials",
        "forget_step_s": "of `leaving`: for the old side to forget the machine",
        "image_step_s": "of `imaging`: to stop the machine, give it a disk of the new role's image, and start it",
        "boot_step_s": "of `imaging`: from then until it answers",
        "prepare_step_s": "of `joining`: for the new side to be ready for the machine",
        "take_step_s": "of `joining`: to put the credentials there, and start the services",
        "serve_step_s": "of `joining`: from then until the new side gives the machine work",
        "work": "how many jobs and pods ran there",
        "taken_away": "how many of them were requeued, cancelled, evicted or killed",
        "text": "what it came to, in words",
    }
)


@dataclass(frozen=True, slots=True)
class Row:
    """One conversion that has ended. Seconds; what was not is missing from the mappings."""

    conversion: Conversion
    direction: str
    total_s: float
    driven_s: float
    phases: Mapping[str, float]
    steps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Times of a phase in the conversions of one direction that arrived, in seconds."""

    direction: str
    phase: str
    count: int
    p50: float
    p90: float
    p99: float
    longest: float


def direction(conversion: Conversion) -> str:
    """``slurm -> kubernetes``."""
    return f"{conversion.leaves or 'none'} -> {conversion.order.to}"


def rows(conversions: Iterable[Conversion]) -> list[Row]:
    """Return the rows of conversions that have ended, in the order in which they were ordered."""
    found = []
    for conversion in sorted(conversions, key=lambda each: each.id):
        if conversion.ended is None:
            continue
        began = {"asked": conversion.order.at, **conversion.began}
        marks = {**began, conversion.phase: conversion.ended}
        # Those that began at the same moment are in the order of phases.
        in_turn = sorted((phase for phase in PHASES if phase in began), key=lambda phase: began[phase])
        ends = [*(began[name] for name in in_turn[1:]), conversion.ended]
        found.append(
            Row(
                conversion,
                direction(conversion),
                _seconds(conversion.order.at, conversion.ended),
                _seconds(began.get("asked/driven", conversion.order.at), conversion.ended),
                FrozenDict(
                    {name: _seconds(began[name], end) for name, end in zip(in_turn, ends, strict=True)}
                ),
                FrozenDict(
                    {
                        step: _seconds(marks[first], marks[last])
                        for step, (first, last) in STEPS.items()
                        if first in marks and last in marks
                    }
                ),
            )
        )
    return found


def write_table(found: Iterable[Row], stream: TextIO) -> None:
    """As CSV, with a line of `COLUMNS` first."""
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in found:
        order, work = row.conversion.order, row.conversion.work
        table.writerow(
            [
                row.conversion.id,
                order.node,
                order.pool,
                row.direction,
                "forced" if order.is_forced or "emptying/forced" in row.conversion.began else "graceful",
                order.by,
                row.conversion.phase,
                order.at.isoformat(timespec="milliseconds"),
                f"{row.total_s:.3f}",
                f"{row.driven_s:.3f}",
                *(_written(row.phases.get(phase)) for phase in PHASES),
                *(_written(row.steps.get(step)) for step in STEPS),
                len(work),
                sum(each.fate not in ("runs", "ended") for each in work),
                row.conversion.text,
            ]
        )


def quantiles(found: Sequence[Row]) -> list[Quantiles]:
    """Return for each direction each phase and the whole (``total``), over the conversions that are ``done``."""
    table = []
    done = [row for row in found if row.conversion.phase == "done"]
    for way in sorted({row.direction for row in done}):
        of_it = [row for row in done if row.direction == way]
        for phase in (*PHASES, "total"):
            times = sorted(
                row.total_s if phase == "total" else row.phases[phase]
                for row in of_it
                if phase == "total" or phase in row.phases
            )
            if times:
                p50, p90, p99 = (quantile(times, part) for part in (0.5, 0.9, 0.99))
                table.append(Quantiles(way, phase, len(times), p50, p90, p99, times[-1]))
    return table


def quantile(times: Sequence[float], part: float) -> float:
    """Return the value below which ``part`` of the ordered ``times`` are; between two, in proportion."""
    place = part * (len(times) - 1)
    low = int(place)
    high = min(low + 1, len(times) - 1)
    return times[low] + (times[high] - times[low]) * (place - low)


def said_way(way: str) -> str:
    """A direction for people: ``Slurm to Kubernetes``."""
    leaves, _, to = way.partition(" -> ")
    names: dict[str, str] = {"none": "no role", "slurm": SAID["slurm"], "kubernetes": SAID["kubernetes"]}
    return f"{names[leaves]} to {names[to]}"


def _seconds(first: datetime, last: datetime) -> float:
    """Clocks may be set back meanwhile."""
    return max(0.0, (last - first).total_seconds())


def _written(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"

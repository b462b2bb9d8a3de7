"""Phases of provisioning in one form for all that make machines ready: launches on every infrastructure, and conversions. Pure, but for streams.

A launch makes a machine, a conversion gives one another role. Both come by the same phases, as far as they have them:
``before`` (asked for and made; or the old role left), ``image``, ``kernel`` (firmware to the root's first process), ``services``, ``join``.
What each is made of is told by `tidepool.scaling.launches` and `tidepool.conversion.report`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TextIO

from tidepool.charts.boxes import Panel
from tidepool.cluster.frozen import FrozenDict
from tidepool.conversion import report as conversions
from tidepool.scaling import launches

Phase = Literal["before", "image", "kernel", "services", "join"]
PHASES: Final[tuple[Phase, ...]] = ("before", "image", "kernel", "services", "join")
#: Okabe's and Ito's; no two neighbours have one.
COLOURS: Final[Mapping[str, str]] = FrozenDict(
    {
        "before": "#999999",
        "image": "#f0e442",
        "kernel": "#56b4e9",
        "services": "#009e73",
        "join": "#e69f00",
        "total": "#0072b2",
    }
)
#: So many samples of a kind are wanted before its quantiles are believed.
WANTED: Final = 200
#: Which phases of a launch each is; ``before`` is what is left.
_OF_LAUNCHES: Final[Mapping[Phase, tuple[str, ...]]] = FrozenDict(
    {
        "image": ("image",),
        "kernel": ("firmware", "loader", "kernel", "initrd"),
        "services": ("units", "resuming"),
        "join": ("slurmd",),
    }
)
#: Which steps of a conversion each is.
_OF_CONVERSIONS: Final[Mapping[Phase, tuple[str, ...]]] = FrozenDict(
    {"image": ("image",), "kernel": ("boot",), "services": ("prepare", "take"), "join": ("serve",)}
)
#: The table's columns, and what each says.
COLUMNS: Final[Mapping[str, str]] = FrozenDict(
    {
        "kind": "`launch`, or the conversion's direction: `slurm -> kubernetes`",
        "infrastructure": "where the machine is",
        "stack": "its stack",
        "node": "the machine's node",
        "began": "when it was asked for, in UTC",
        "total_s": "from then until it was in service",
        "before_s": "until it was made, or had left its old role",
        "image_s": "until its first process ran from an image that was fetched; or until it had another disk",
        "kernel_s": "from firmware to the root's first process, as far as it boots; of conversions until it answers",
        "services_s": "until the role's services were started",
        "join_s": "from then until Slurm or Kubernetes had it in service",
    }
)


@dataclass(frozen=True, slots=True)
class Provisioning:
    """One machine that was made ready, in seconds; phases that it has not, or that nobody can tell of, are missing."""

    kind: str
    infrastructure: str
    stack: str
    node: str
    began: datetime
    total_s: float
    phases: Mapping[Phase, float]

    @property
    def group(self) -> str:
        """The group that it is counted with: ``launch on libvirt``, ``slurm -> kubernetes on local``."""
        return f"{self.kind} on {self.infrastructure}" if self.infrastructure else self.kind


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Times of a phase, or of the whole (``total``), in seconds."""

    group: str
    phase: str
    count: int
    p50: float
    p90: float
    p99: float
    longest: float


def of_launches(stack: str, rows: Iterable[launches.Row]) -> Iterator[Provisioning]:
    """Yield launches that came up."""
    for row in rows:
        phases = _phases(
            row.total_s, {str(name): seconds for name, seconds in row.phases.items()}, _OF_LAUNCHES
        )
        record = row.record
        yield Provisioning(
            "launch", record.infrastructure, stack, record.node, record.since, row.total_s, phases
        )


def of_conversions(
    stack: str, rows: Iterable[conversions.Row], infrastructure_of: Callable[[str], str]
) -> Iterator[Provisioning]:
    """Yield conversions that arrived. ``infrastructure_of`` says where the machines of a pool are; empty where nobody knows any more."""
    for row in rows:
        if row.conversion.phase == "done":
            order = row.conversion.order
            phases = _phases(row.total_s, row.steps, _OF_CONVERSIONS)
            where = infrastructure_of(order.pool)
            yield Provisioning(row.direction, where, stack, order.node, order.at, row.total_s, phases)


def write_table(found: Iterable[Provisioning], stream: TextIO) -> None:
    """As CSV, with a line of `COLUMNS` first."""
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(COLUMNS)
    for each in found:
        seconds = (f"{each.phases[phase]:.3f}" if phase in each.phases else "" for phase in PHASES)
        began = each.began.isoformat(timespec="milliseconds")
        table.writerow(
            [each.kind, each.infrastructure, each.stack, each.node, began, f"{each.total_s:.3f}", *seconds]
        )


def quantiles(found: Sequence[Provisioning]) -> list[Quantiles]:
    """Return for each group each phase that it has, and the whole."""
    table = []
    for panel in panels(found):
        for name, times in panel.values:
            p50, p90, p99 = (conversions.quantile(sorted(times), part) for part in (0.5, 0.9, 0.99))
            table.append(Quantiles(panel.title, name, len(times), p50, p90, p99, max(times)))
    return table


def panels(found: Sequence[Provisioning]) -> list[Panel]:
    """Return the panels of its box plots: one for each group, titled by it, in it the times of each phase and of the whole."""
    groups: dict[str, list[Provisioning]] = {}
    for each in found:
        groups.setdefault(each.group, []).append(each)
    return [Panel(name, [*_times(groups[name])]) for name in sorted(groups)]


def _times(found: Sequence[Provisioning]) -> Iterator[tuple[str, Sequence[float]]]:
    for phase in PHASES:
        if times := [each.phases[phase] for each in found if phase in each.phases]:
            yield phase, times
    yield "total", [each.total_s for each in found]


def _phases(
    total_s: float, seconds: Mapping[str, float], parts: Mapping[Phase, tuple[str, ...]]
) -> Mapping[Phase, float]:
    """Sum up what each phase is made of; ``before`` is the rest, so that they are together as long as the whole."""
    found: dict[Phase, float] = {
        phase: sum(seconds[name] for name in names if name in seconds)
        for phase, names in parts.items()
        if any(name in seconds for name in names)
    }
    return FrozenDict({"before": max(0.0, total_s - sum(found.values())), **found})

"""Single values: when a job was submitted, given a node and started; and what is known of the cluster. Pure, but for files of CSV."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tidepool.lab.errors import LabError

SINGLE: Final = "single"
"""Way of a job that was submitted when the one before it had ended."""
BURST: Final = "burst"
"""Way of jobs that were submitted together."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A job that was measured. Times are seconds since the epoch, all of one clock.

    Attributes:
        pending: how many other jobs waited all the while.
        round: counts from 1; rounds that warm up are not kept.
        submitted_s: before its submission began.
        decided_s: the scheduler gave it a node.
        started_s: its process ran; on nodes that run no processes, its status said so.
    """

    scheduler: str
    nodes: int
    pending: int
    round: int
    way: str
    job: int
    submitted_s: float
    decided_s: float
    started_s: float


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A simulated cluster that was measured, or as much of it as there could be.

    Attributes:
        ready: how many of its nodes came to take jobs.
        start_s: from the first node's start until all were ready.
        node_mib: memory of what plays one node; pages that are shared are counted once.
        scheduler_mib: memory of the scheduler's daemons, with full queues.
        load: of the host when measuring began, by its one-minute average: other work disturbs figures.
        lack: why not all of it could be had; empty where it could.
    """

    scheduler: str
    nodes: int
    ready: int
    start_s: float
    node_mib: float
    scheduler_mib: float
    load: float
    versions: str
    settings: str
    lack: str


_Row = TypeVar("_Row", Launch, ClusterFacts)


def write_rows(path: Path, rows: Sequence[Launch] | Sequence[ClusterFacts], kind: type[Any]) -> None:
    """Write rows as CSV; times by the tenth of a millisecond."""
    names = [field.name for field in dataclasses.fields(kind)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            values = [getattr(row, name) for name in names]
            writer.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in values])


def read_rows(path: Path, kind: type[_Row]) -> tuple[_Row, ...]:
    """Return the rows of a file that `write_rows` wrote; none where there is no file.

    Raises:
        LabError: it is not such a file.
    """
    if not path.exists():
        return ()
    with path.open(newline="") as file:
        try:
            return tuple(row_of(row, kind) for row in csv.DictReader(file))
        except (KeyError, TypeError, ValueError) as error:
            raise LabError(f"{path} does not hold {kind.__name__} rows: {error}; move it away") from error


def row_of(values: Mapping[str, Any], kind: type[_Row]) -> _Row:
    """Return a row of its values by name, as text or as they are."""
    read: Mapping[str, type] = {"int": int, "float": float, "str": str}
    return kind(**{each.name: read[str(each.type)](values[each.name]) for each in dataclasses.fields(kind)})


def without(rows: Iterable[_Row], measured: Iterable[tuple[str, int]]) -> tuple[_Row, ...]:
    """Return the rows of clusters, by scheduler and number of nodes, that were not measured anew."""
    anew = frozenset(measured)
    return tuple(row for row in rows if (row.scheduler, row.nodes) not in anew)

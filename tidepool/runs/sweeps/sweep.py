"""A sweep: which values are varied, and the runs of each of their combinations. Frozen, and kept beside the results."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tidepool.cluster.frozen import frozen
from tidepool.cluster.spec_changes import Change

#: The version of the document, which is in it.
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Variation:
    """Values that one path of the spec has in turn."""

    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values, by path, and the spec that has them."""

    values: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return what differs from other points: ``cpus=4``; the last words of paths where those are enough to tell them apart."""
        return ", ".join(
            f"{name}={value}"
            for name, value in zip(short_names([*self.values]), self.values.values(), strict=True)
        )


@dataclass(frozen=True, slots=True)
class SweepRun:
    """A run of a sweep: of which of its points, by number from 0."""

    id: str
    point: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep of a workload on stack ``stack``. ``workload`` is its document; ``at_once`` is 0 for as many as have room."""

    id: str
    at: datetime
    by: str
    stack: str
    workload: Mapping[str, Any]
    points: tuple[Point, ...]
    runs: tuple[SweepRun, ...]
    keep_on_failure_s: int = 0
    at_once: int = 0

    @property
    def varied(self) -> tuple[str, ...]:
        """The paths of what is varied."""
        return tuple(self.points[0].values)


def combinations(variations: Sequence[Variation]) -> tuple[tuple[Change, ...], ...]:
    """Return all combinations of values, the last path changing fastest."""
    each = [[Change(one.path, value) for value in one.values] for one in variations]
    return tuple(itertools.product(*each))


def repeated(points: int, repeat: int, new_id: Callable[[], str]) -> tuple[SweepRun, ...]:
    """Return the runs of so many points, each ``repeat`` times: all points once, then all again, so what drifts meets all alike."""
    return tuple(SweepRun(new_id(), point) for _ in range(repeat) for point in range(points))


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the paths by their last words, as many as tell each from the others."""
    split = [path.split(".") for path in paths]

    def name(words: list[str]) -> str:
        for count in range(1, len(words)):
            last = words[-count:]
            if sum(other[-count:] == last for other in split) == 1:
                return ".".join(last)
        return ".".join(words)

    return [name(words) for words in split]


def to_json(sweep: Sweep) -> str:
    """Write it as a document, whose keys are the fields' names."""
    document = {"format": FORMAT, **asdict(sweep), "at": sweep.at.astimezone(UTC).isoformat()}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def from_json(text: str) -> Sweep:
    """Read what `to_json` wrote.

    Raises:
        ValueError: it is none, or of a newer release.
    """
    try:
        found = json.loads(text)
        if found.pop("format") != FORMAT:
            raise ValueError("it is of another release")
        return Sweep(
            **{
                **found,
                "at": datetime.fromisoformat(found["at"]),
                "workload": frozen(found["workload"]),
                "points": tuple(
                    Point(frozen(point["values"]), frozen(point["spec"])) for point in found["points"]
                ),
                "runs": tuple(SweepRun(**run) for run in found["runs"]),
            }
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"it is no record of a sweep: {error}") from error

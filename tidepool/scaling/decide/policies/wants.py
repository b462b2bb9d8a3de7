"""Requests of policies: nodes that are there however empty the queue is, how the queue is served, and caps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidepool.cluster.frozen import FrozenDict

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()


class Floor(NamedTuple):
    """At least so many nodes of a fleet, and why. ``is_spare``: so many beside those that jobs have or get.

    ``is_for_ever``: the budget sets aside what they cost until the end of the month.
    """

    fleet: str
    nodes: int
    reason: str
    is_spare: bool = False
    is_for_ever: bool = False


@dataclass(frozen=True, slots=True)
class Wants:
    """Requests of one policy, or of all together."""

    #: Whether nodes are made for jobs; if so, all at once, or as few as have it done within ``horizon_s``.
    serves_jobs: bool = False
    horizon_s: int | None = None
    floors: tuple[Floor, ...] = ()
    #: By account, how many nodes its jobs may have.
    caps: Mapping[str, int] = field(default_factory=lambda: _NOTHING)

"""Jobs that ask for the same, and where they were put."""

from __future__ import annotations

from typing import NamedTuple

from tidepool.scaling.decide.allowance import Grant
from tidepool.scaling.decide.demand.layout import Layout, Part
from tidepool.scaling.decide.packing.bins import Option
from tidepool.scaling.decide.packing.launch_limits import Purpose


class Placement(NamedTuple):
    """``per_set`` jobs run on each of these sets of nodes. ``rank`` is the latest of the nodes' (`bins`)."""

    rank: int
    per_set: int
    sets: list[tuple[str, ...]]

    @property
    def jobs(self) -> int:
        """Return how many jobs these are."""
        return self.per_set * len(self.sets)


class Group(NamedTuple):
    """Jobs that ask for the same: for each component (one, but for heterogeneous jobs) the layouts it can have.

    ``size`` orders groups: how much of a node they take, and of how many. ``fresh``: only nodes that no job has
    anything of will do.
    """

    components: tuple[tuple[Layout, ...], ...]
    purpose: Purpose
    size: tuple[float, int] = (0, 0)
    fresh: bool = False

    @property
    def alike(self) -> tuple[Layout, ...]:
        """The layouts, where all nodes of a job are alike, and any that fit will do; else none."""
        (layouts, *others) = self.components
        simple = not others and all(
            len(layout.parts) == 1 and not layout.parts[0].names and not layout.in_a_row for layout in layouts
        )
        return layouts if simple else ()


def options(layout: Layout, part: Part) -> list[Option]:
    """The fleets of whose nodes a part may be."""
    return [Option(fleet, need, layout.sole) for fleet, need in part.needs]


def both(one: Grant | None, other: Grant) -> Grant:
    """Return the grant with what is in the way in either; a backoff where one of them is, for that ends by itself."""
    if one is None or not one.reason or one.reason == other.reason:
        return other
    reason = f"{one.reason}; {other.reason}" if other.reason else one.reason
    return Grant(0, reason, "setback" if "setback" in (one.standing, other.standing) else "limit")

"""Growing: all that waits, onto what is there, what is coming, what can be undrained, and then onto new nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidepool.scaling.allowance import Allowance
from tidepool.scaling.decision import Launch, Undrain, Waiting
from tidepool.scaling.memory import Memory
from tidepool.scaling.phase import Phase
from tidepool.scaling.world import World


@dataclass(frozen=True, slots=True)
class Growth:
    """What is to be made for the jobs that wait."""

    #: One for each fleet and reason; names are in order.
    launches: tuple[Launch, ...]
    undrains: tuple[Undrain, ...]
    #: Every job that is pending, by its id; of an array, the record's.
    waiting: Mapping[int, Waiting]
    #: Nodes that are there or coming (not those of ``launches``) and that jobs that wait will run on: not to be
    #: drained. Of several that would do it is as few as possible.
    needed: frozenset[str]
    #: For `Memory.has_room_since`.
    has_room_since: Mapping[int, datetime]


def grow(
    world: World,
    memory: Memory,
    phases: Mapping[str, Phase],
    allowance: Allowance,
    *,
    horizon_s: int | None = None,
) -> Growth:
    """Nodes for all jobs that wait, in one step, by priority; a job of several nodes gets all of them or none.

    Args:
        world: what was seen.
        memory: of it, set-backs of fleets and of nodes, and since when there has been room for jobs.
        phases: of every node that is more than a slot, in the words of the ledger; others are absent.
        allowance: what limits and budget allow to launch.
        horizon_s: None gives every job nodes at once (`queue`). A number of seconds lets jobs follow one another on
            a node as long as their time limits end within it (`backlog`).
    """
    raise NotImplementedError

"""The state of the leader between two turns."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.act.act import Batch
from tidepool.scaling.act.conversions import Moves
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Intent, Kept, UpOutcome


@dataclass(slots=True)
class Running:
    """An `up`, and what it is for."""

    future: Future[UpOutcome]
    batch: Batch | Moves


@dataclass(slots=True)
class State:
    """The state of the leader; the journal has all of it."""

    desired: Mapping[str, HostSet]
    memory: Memory
    power_up: frozenset[str]
    power_down: frozenset[str]
    #: Intents of the last holder that have no result. They are carried out as if they were just decided.
    inherited: tuple[Intent, ...] = ()
    pending: list[Intent] = field(default_factory=list)
    running: Running | None = None
    #: The last `up` was of roles: if others wait, they are next.
    has_moved: bool = False
    #: Since when Kubernetes is to be looked at once more, for machines that are to move.
    moves_since_s: float | None = None
    version: str = ""
    kept_at_s: float = 0.0
    kept: Kept | None = None

    def to_kept(self) -> Kept:
        """Return what the next daemon has to know."""
        return Kept(self.desired, self.memory, self.power_up, self.power_down)

"""What is known of a stack's scaler at one moment: all that `watch` and `why` are worked out of. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision
from tidepool.scaling.ports import Intent, Journal, Lease, Look, Pause, Sample, Trouble

#: So many actions are shown at most.
_INTENTS: Final = 100
#: Points of the charts of the last while: the newest one is shown.
_SAMPLES_S: Final = 120


@dataclass(frozen=True, slots=True)
class Record:
    """What the journal of ``stack`` said at ``now``, whose zone is the one that times are told in.

    ``is_afresh`` says that ``look`` is no daemon's: it was observed and decided at this moment, and nothing done.
    ``intents`` are the last that were written down, the newest first; ``open_intents`` all without a result.
    """

    stack: str
    now: datetime
    leader: Lease | None = None
    pause: Pause | None = None
    look: Look | None = None
    intents: tuple[Intent, ...] = ()
    open_intents: tuple[Intent, ...] = ()
    sample: Sample | None = None
    trouble: Trouble | None = None
    is_afresh: bool = False

    @property
    def runs(self) -> bool:
        """Whether a daemon has the lease."""
        return self.leader is not None and self.leader.is_held and self.leader.until > self.now

    @property
    def decision(self) -> Decision | None:
        """The newest."""
        return self.look.decision if self.look else None

    @property
    def state(self) -> ClusterState | None:
        """What was seen last, where it was not too large to be kept."""
        return self.look.state if self.look else None

    @property
    def spec(self) -> ClusterSpec | None:
        """The spec that the newest decision was made with."""
        return self.look.spec if self.look else None

    def decided_afresh(self, state: ClusterState, decision: Decision) -> Record:
        """With what was observed and decided now in place of a daemon's look."""
        now = max(self.now, state.at.astimezone(self.now.tzinfo))
        return replace(self, now=now, look=Look(0, state.spec, decision, state), is_afresh=True)


def read_record(journal: Journal, stack: str, now: datetime) -> Record:
    """What `watch` shows, read of ``journal``.

    Raises:
        JournalError: it cannot be read.
    """
    samples = journal.samples(since=now - timedelta(seconds=_SAMPLES_S))
    return Record(
        stack=stack,
        now=now,
        leader=journal.leader(),
        pause=journal.paused(),
        look=journal.last_look(),
        intents=journal.intents(limit=_INTENTS),
        open_intents=journal.open_intents(),
        sample=samples[-1] if samples else None,
        trouble=journal.trouble(),
    )


def fleet_of(node: str) -> str:
    """The fleet of a node, as its name tells it; the name itself where it tells none."""
    try:
        return fleet_and_number(node)[0]
    except ValueError:
        return node


def by_fleet(names: Mapping[str, object]) -> dict[str, list[str]]:
    """The keys of ``names``, which are nodes, by their fleets."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(fleet_of(name), []).append(name)
    return found

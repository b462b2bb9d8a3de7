"""Figures of how long jobs waited, how long idle nodes stayed, how many machines were started: from what was written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from demo.workload import Stamp
from tidepool.scaling.decision import Launch, Remove
from tidepool.scaling.ports import Intent


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds, from the least to the most."""

    name: str
    seconds: tuple[float, ...]

    def percentile(self, part: float) -> float:
        """The least of them that so much (0 to 1) of them does not exceed."""
        return self.seconds[max(0, ceil(part * len(self.seconds)) - 1)]


@dataclass(frozen=True, slots=True)
class Times:
    """``waited`` is of all small tasks; ``made`` of those whose node was launched after they were submitted."""

    waited: Spread
    made: Spread
    gone: Spread
    machines: int


def times(
    stamps: Iterable[tuple[float, Stamp]], ends: Mapping[str, Sequence[float]], intents: Iterable[Intent]
) -> Times:
    """Return the figures of the table.

    Args:
        stamps: of each small task, when it was submitted, and what it said. All times are in seconds since the epoch.
        ends: by node, when jobs ended there.
        intents: all of the scaler's since the demo began.
    """
    done = [each for each in intents if each.result == "done"]
    launched = sorted(
        (each.at.timestamp(), node)
        for each in done
        if isinstance(each.action, Launch)
        for node in each.action.nodes
    )
    removed = [
        (each.ended.timestamp(), node)
        for each in done
        if isinstance(each.action, Remove) and each.ended
        for node in each.action.nodes
    ]
    told = [(submitted_s, stamp) for submitted_s, stamp in stamps]
    made_at = {
        stamp: max(
            (at_s for at_s, node in launched if node == stamp.node and at_s <= stamp.began_s), default=0.0
        )
        for _, stamp in told
    }
    gone = []
    for gone_s, node in removed:
        if before := [end_s for end_s in ends.get(node, ()) if end_s <= gone_s]:
            gone.append(gone_s - max(before))
    return Times(
        _spread("pending -> running", (stamp.began_s - submitted_s for submitted_s, stamp in told)),
        _spread(
            "  with a node made for it",
            (stamp.began_s - submitted_s for submitted_s, stamp in told if made_at[stamp] >= submitted_s),
        ),
        _spread("idle -> gone", gone),
        len(launched),
    )


def _spread(name: str, seconds: Iterable[float]) -> Spread:
    return Spread(name, tuple(sorted(seconds)))

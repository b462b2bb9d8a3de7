"""What a person is told when something did not work, and what Pulumi then has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidepool.infrastructure import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructure.causes import Cause
from tidepool.provider.values import Plain


class Refusal(Exception):
    """It is not done. The text is for a person: what, where, what is allowed, the remedy."""


@dataclass
class Unfinished(Exception):
    """Something was made, but it is not as it should be: Pulumi keeps it, and the next `up` goes on from there."""

    id: str
    reason: str
    outputs: Mapping[str, Plain] = field(default_factory=dict)
    cause: Cause | None = None

    def __str__(self) -> str:
        return self.reason


def cause_of(error: BaseException) -> Cause | None:
    """Of which kind a failure is, for who decides what to do next; None where it may be any."""
    match error:
        case Unfinished():
            return error.cause
        case InsufficientCapacity():
            return "capacity"
        case Transient():
            return "transient"
        case Permanent():
            return "permanent"
    # Those that can be raised are imported by then; who starts up does not wait for them.
    from tidepool.local.errors import BadSpec, BootFailed, InUse, TimedOut

    if isinstance(error, BootFailed | TimedOut):
        return "boot"
    return "permanent" if isinstance(error, BadSpec | InUse) else None

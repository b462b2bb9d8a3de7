"""The record of a conversion: who ordered it, how far it is, and its outcome. Frozen; the journal keeps it.

```
 asked --> holding --> emptying --> leaving --> joining --> done
   |          |            |   (point of no  |     |
   |          |            |     return)     |     |  deadline
   |          +------------+-----------------+-----+------------> restoring --> stopped: it is what it was
   |            cancelled, or a deadline                              | deadline
   +--> stopped: cancelled, or not to be moved                        +--> failed: the next order mends it
```
See docs/conversions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import AtDeadline, Role

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()

Phase = Literal[
    "asked", "holding", "emptying", "leaving", "joining", "restoring", "done", "stopped", "failed"
]
#: A conversion in one of these has come to its end.
ENDED: Final[frozenset[Phase]] = frozenset({"done", "stopped", "failed"})
#: Until the end of these it can be cancelled.
CANCELLABLE: Final[frozenset[Phase]] = frozenset({"asked", "holding", "emptying"})


@dataclass(frozen=True, slots=True)
class Order:
    """A machine is to have the role ``to``. ``by`` is who says so (``person``, ``scaler``, ``up``), ``reason`` why.

    A graceful one waits for what runs there until ``deadline_s`` seconds after it began, then does ``at_deadline``. A
    forced one requeues jobs and kills pods at once, and tells their owners. A machine that a person drained or cordoned
    is moved by orders of a ``person`` only.
    """

    node: str
    pool: str
    to: Role
    at: datetime
    by: str
    reason: str
    is_forced: bool = False
    deadline_s: float = 3600
    at_deadline: AtDeadline = "stop"


@dataclass(frozen=True, slots=True)
class Work:
    """Something that ran on a machine, and what became of it: a job (``4711``) or a pod (``default/web-0``).

    ``name`` is empty where a side says that there is work and does not list it: it is waited for, and that is all.
    """

    kind: Literal["job", "pod"]
    name: str
    owner: str
    fate: Literal["runs", "ended", "requeued", "cancelled", "evicted", "killed"] = "runs"
    #: What it waits for, or who was told: ``budget web allows no eviction``, ``runs until 2026-11-22 14:00``.
    text: str = ""

    @property
    def title(self) -> str:
        """``job 4711``, ``pod default/web-0``; ``a job`` where it has no name."""
        return f"{self.kind} {self.name}" if self.name else f"a {self.kind}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """One conversion. ``id`` is the journal's; ``leaves`` the role that the machine had, None where it had none."""

    id: int
    order: Order
    leaves: Role | None
    phase: Phase
    #: When each phase began, the present one too; within phases, when steps were done (``joining/taken``); and since when
    #: somebody drives it without a break (``driver/since``).
    began: Mapping[str, datetime] = field(default_factory=lambda: _NOTHING)
    ended: datetime | None = None
    #: Who asked to cancel it.
    cancel_by: str = ""
    #: Why it goes back, or went: who cancelled it, or which deadline passed and over what.
    back_because: str = ""
    #: What holds it up, or what it came to, in words.
    text: str = ""
    work: tuple[Work, ...] = ()
    #: Which process drives it, and until when it is taken to be alive.
    driver: str = ""
    driver_until: datetime | None = None

    @property
    def is_under_way(self) -> bool:
        """It has not come to its end."""
        return self.phase not in ENDED

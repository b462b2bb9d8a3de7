"""The record of a conversion: who ordered it, how far it is, its deadlines, and its outcome. Frozen; the journal keeps it.

```
 asked --> holding --> emptying --> leaving --> imaging --> joining --> done
   |          |            |   (point of no  |   (another   |     |
   |          |            |     return)     |    image)    |     |  deadline
   |          +------------+-----------------+--------------+-----+---> restoring --> stopped: it is what it was
   |            cancelled, or a deadline                                    | deadline
   +--> stopped: cancelled, or not to be moved                              +--> failed: the next order repairs it
```
Where the machine's image has both roles, `leaving` is followed by `joining`.
See docs/conversions.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import AtDeadline, Role

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()

Phase = Literal[
    "asked",
    "holding",
    "emptying",
    "leaving",
    "imaging",
    "joining",
    "restoring",
    "done",
    "stopped",
    "failed",
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
        return self.phase not in ENDED


def newest(conversions: Iterable[Conversion]) -> tuple[Conversion, ...]:
    """Return all that are under way, and of each machine the newest that has ended and the newest that is done.

    ``conversions``: the newest first.
    """
    found: list[Conversion] = []
    ended: set[str] = set()
    done: set[str] = set()
    for each in conversions:
        node = each.order.node
        if each.is_under_way or node not in ended or (each.phase == "done" and node not in done):
            found.append(each)
        if not each.is_under_way:
            ended.add(node)
        if each.phase == "done":
            done.add(node)
    return tuple(found)


def observed_now(conversion: Conversion, there: Iterable[Work]) -> tuple[Work, ...]:
    """The record after a look: ``there`` runs, until it has ended; what ran before and is not there has gone.

    What went without a word of who took it away has ended by itself, or was evicted as it was asked; where force was
    used, its owner had been told before, by one who was cut off. What was waited for without a name, and has gone, was
    nobody's in particular: it leaves no line.
    """
    now = {_key(each): replace(each, fate="runs") for each in there}
    kept = []
    for each in conversion.work:
        if _key(each) in now:
            # One that was taken away is there until it has ended.
            still = now.pop(_key(each))
            kept.append(still if each.fate == "runs" else each)
        elif each.fate != "runs":
            kept.append(each)
        elif each.name:
            kept.append(_gone(each, by_force="emptying/forced" in conversion.began))
    return (*kept, *now.values())


def given_up(conversion: Conversion, there: Iterable[Work]) -> tuple[Work, ...]:
    """The record where nobody waits any more: what of ``there`` is on its way will end all the same."""
    waited = {_key(each) for each in conversion.work if each.fate == "runs"}
    return reported(conversion, (each for each in there if each.fate != "runs" and _key(each) in waited))


def reported(conversion: Conversion, done: Iterable[Work]) -> tuple[Work, ...]:
    """The record after something was taken away: what became of each, as it was said."""
    fates = {_key(each): each for each in done}
    kept = [fates.pop(_key(each), each) for each in conversion.work]
    return (*kept, *fates.values())


def _gone(work: Work, *, by_force: bool) -> Work:
    if by_force:
        return replace(work, fate="ended", text="it was to be taken away by force, and is gone")
    return replace(work, fate="ended" if work.kind == "job" else "evicted", text="")


def _key(work: Work) -> tuple[str, str]:
    return work.kind, work.name


def written(conversion: Conversion) -> str:
    """Write all that is not in a column of its own as JSON."""
    order = conversion.order
    return json.dumps(
        {
            "to": order.to,
            "by": order.by,
            "reason": order.reason,
            "at": order.at.isoformat(),
            "deadline_s": order.deadline_s,
            "at_deadline": order.at_deadline,
            "leaves": conversion.leaves,
            "began": {name: at.isoformat() for name, at in conversion.began.items()},
            "back_because": conversion.back_because,
            "text": conversion.text,
            "work": [[each.kind, each.name, each.owner, each.fate, each.text] for each in conversion.work],
        },
        separators=(",", ":"),
    )


def read(row: Mapping[str, Any]) -> Conversion:
    """A row of the table.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    body = json.loads(row["body"])
    order = Order(
        node=row["node"],
        pool=row["pool"],
        to=body["to"],
        at=datetime.fromisoformat(body["at"]),
        by=body["by"],
        reason=body["reason"],
        is_forced=bool(row["is_forced"]),
        deadline_s=body["deadline_s"],
        at_deadline=body["at_deadline"],
    )
    return Conversion(
        id=row["id"],
        order=order,
        leaves=body["leaves"],
        phase=row["phase"],
        began=FrozenDict({name: datetime.fromisoformat(at) for name, at in body["began"].items()}),
        ended=_moment(row["ended"]),
        cancel_by=row["cancel_by"],
        back_because=body["back_because"],
        text=body["text"],
        work=tuple(Work(*each) for each in body["work"]),
        driver=row["driver"],
        driver_until=_moment(row["driver_until"]),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


#: Seconds, and the phase that comes when they are over. `emptying` of a graceful conversion has its order's own.
DEADLINES: Final[Mapping[Phase, tuple[float, Phase]]] = FrozenDict(
    {
        "asked": (60.0, "stopped"),
        "holding": (60.0, "restoring"),
        "emptying": (120.0, "restoring"),
        "leaving": (120.0, "restoring"),
        # A machine boots in it, which firmware alone may take minutes for.
        "imaging": (600.0, "restoring"),
        "joining": (120.0, "restoring"),
        "restoring": (240.0, "failed"),
    }
)
#: A machine that a side has not heard of for so long, in seconds, since it took its role, begins once more.
SECOND_TRY_S: Final = 40.0
#: An order that nobody has begun to carry out for so long, in seconds, gives way to another one.
UNBEGUN_S: Final = 60.0


def longest_s(order: Order, *, by_image: bool = False) -> float:
    """After how many seconds a conversion has ended, whatever happens, that one process drives from its beginning.

    One ``by_image`` may boot the machine twice: to the new role, and back.
    """
    imaging_s, _ = DEADLINES["imaging"]
    others_s = sum(seconds for seconds, _ in DEADLINES.values()) - imaging_s
    return others_s + (2 * imaging_s if by_image else 0.0) + order.deadline_s


def deadline(conversion: Conversion) -> datetime | None:
    """When the present phase is over. None: it has ended, or nobody has begun it."""
    since = counted_from(conversion)
    if since is None:
        return None
    if conversion.phase == "emptying" and "emptying/forced" not in conversion.began:
        return patience_ends(conversion)
    seconds, _ = DEADLINES[conversion.phase]
    if conversion.phase == "restoring" and returns_by_image(conversion):
        seconds += DEADLINES["imaging"][0]
    return since + timedelta(seconds=seconds)


def returns_by_image(conversion: Conversion) -> bool:
    """Return whether the machine, to be what it was, is given the image again that it had."""
    return "imaging" in conversion.began and conversion.leaves not in (None, conversion.order.to)


def counted_from(conversion: Conversion) -> datetime | None:
    """Since when the present phase's time runs: since it began, or since somebody goes on who was not there before.

    The patience with work is since the conversion began to hold, whoever was there meanwhile.
    """
    began, phase = conversion.began, conversion.phase
    driven = began.get("driver/since")
    if phase not in DEADLINES or driven is None:
        return None
    if phase == "emptying":
        if "emptying/forced" not in began:
            return began.get("holding", conversion.order.at)
        return max(began["emptying/forced"], driven)
    return max(began.get(phase, driven), driven)


def patience_ends(conversion: Conversion) -> datetime:
    """Until when work is waited for: so long after the conversion began."""
    began = conversion.began.get("holding", conversion.order.at)
    return began + timedelta(seconds=conversion.order.deadline_s)


def uses_force(conversion: Conversion, now: datetime) -> bool:
    """Return whether what runs there is taken away: ordered so, or the deadline is over and the pool's policy says so."""
    order = conversion.order
    return (
        order.is_forced
        or "emptying/forced" in conversion.began
        or (order.at_deadline == "force" and now >= patience_ends(conversion))
    )

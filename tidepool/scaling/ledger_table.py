"""The table of the ledger: how Slurm, infrastructure and Pulumi's state see a node, and what that comes to.

Rows are read from the top, and the first that fits holds. Every combination has one; tests go through them all.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from tidepool.scaling.phase import Phase


class Seen(StrEnum):
    """How Slurm has a node."""

    UNLISTED = "not listed"
    SLOT = "slot"
    #: Powered down by Slurm's power saving; being powered up.
    OFF = "powered down"
    BOOTING = "powering up"
    UP = "up"
    #: Drained with a reason of the scaler's, or of the provider's.
    OURS = "drained by us"
    #: Drained, set down, reserved, in maintenance, rebooting: somebody else's.
    THEIRS = "somebody's"
    #: It does not respond, and Slurm has not given it up yet.
    SILENT = "not responding"
    DOWN = "down"
    #: It registered with less than its shape.
    UNFIT = "unfit"
    #: A state that says nothing.
    STRANGE = "strange"


class Power(StrEnum):
    """How the infrastructure has its machine."""

    RUNNING = "running"
    STOPPED = "stopped"
    NOT_LISTED = "not listed"
    UNKNOWN = "unknown"


class Record(StrEnum):
    """What Pulumi's state has of it."""

    NONE = "nothing"
    MACHINE = "machine"
    BOTH = "machine and node"
    PENDING = "cut off"
    UNKNOWN = "unknown"


class Order(StrEnum):
    """What was asked for, and whether its time is over."""

    NONE = "nothing"
    UNDER_WAY = "under way"
    LAUNCH = "launch"
    LATE_LAUNCH = "late launch"
    UP = "up"
    LATE_UP = "late up"
    #: The last `up` could not make it, and it is left alone for a while.
    FAILED = "failed"


class Todo(StrEnum):
    """What is to be done about it."""

    NOTHING = "nothing"
    #: Something was asked for and has time still, or more has to be known first.
    WAIT = "wait"
    #: Jobs may have it, and when it is idle for long enough it is drained.
    SERVE = "serve"
    #: Jobs may have it, and it stays, for something cannot be seen.
    KEEP = "keep"
    #: Take it into the wish.
    ADOPT = "adopt"
    #: Make it, with a deadline.
    MAKE = "make"
    MEND = "mend"
    DRAIN = "drain"
    #: Undrain it when a job needs it; remove it when it is empty.
    LEAVE = "leave"
    REMOVE = "remove"
    #: It leaves the wish, and nothing is there that an `up` could take away.
    DROP = "drop"
    #: Remove it, count it as a failure of its fleet, and take another name for a while.
    REPLACE = "replace"
    SWEEP = "sweep"
    FORGET = "forget"
    #: Tell Slurm's power saving that it does not come.
    FAIL = "fail"


class Cell(NamedTuple):
    """One combination."""

    seen: Seen
    jobs: bool
    power: Power
    record: Record
    wished: bool
    order: Order


class Row(NamedTuple):
    """Combinations that come to the same. Of ``phase``, IDLE with jobs is BUSY, DRAINED with jobs DRAINING."""

    seen: frozenset[Seen]
    jobs: frozenset[bool]
    power: frozenset[Power]
    record: frozenset[Record]
    wished: frozenset[bool]
    order: frozenset[Order]
    phase: Phase
    todo: Todo
    why: str

    def fits(self, cell: Cell) -> bool:
        """Whether ``cell`` is one of them."""
        return all(value in values for value, values in zip(cell, self[:6], strict=True))


_EITHER: Final = (True, False)
_GONE: Final = (Power.STOPPED, Power.NOT_LISTED)
_MACHINE: Final = (Power.RUNNING, Power.STOPPED)
_LISTABLE: Final = (Power.RUNNING, Power.STOPPED, Power.NOT_LISTED)
_SOME: Final = (Record.MACHINE, Record.BOTH, Record.PENDING)
_READABLE: Final = (Record.NONE, *_SOME)
_NOT_THERE: Final = (Seen.UNLISTED, Seen.SLOT, Seen.OFF, Seen.BOOTING)
_NOT_UP: Final = (*_NOT_THERE, Seen.SILENT, Seen.DOWN)
_NOT_UNDER_WAY: Final = tuple(order for order in Order if order is not Order.UNDER_WAY)
#: Of what is not wished, a launch means nothing.
_AT_REST: Final = (Order.NONE, Order.LAUNCH, Order.LATE_LAUNCH, Order.LATE_UP, Order.FAILED)


def _row(
    phase: Phase,
    todo: Todo,
    why: str,
    *,
    seen: tuple[Seen, ...] = tuple(Seen),
    jobs: bool | None = None,
    power: tuple[Power, ...] = tuple(Power),
    record: tuple[Record, ...] = tuple(Record),
    wished: bool | None = None,
    order: tuple[Order, ...] = tuple(Order),
) -> Row:
    return Row(
        frozenset(seen),
        frozenset(_EITHER if jobs is None else (jobs,)),
        frozenset(power),
        frozenset(record),
        frozenset(_EITHER if wished is None else (wished,)),
        frozenset(order),
        phase,
        todo,
        why,
    )


_STRANGE: Final = (
    _row(Phase.UNKNOWN, Todo.NOTHING, "Slurm does not say how it is", seen=(Seen.STRANGE,)),
    _row(
        Phase.UNKNOWN,
        Todo.WAIT,
        "Slurm has a job on it, and says that it is not there",
        seen=(Seen.UNLISTED, Seen.SLOT, Seen.OFF),
        jobs=True,
    ),
)

_THEIRS: Final = (
    _row(
        Phase.HELD,
        Todo.ADOPT,
        "somebody holds it, and it is recorded: it stays",
        seen=(Seen.THEIRS,),
        record=_SOME,
        wished=False,
    ),
    _row(Phase.HELD, Todo.NOTHING, "somebody holds it: it is theirs", seen=(Seen.THEIRS,)),
)

_WISHED: Final = (
    # Up
    _row(
        Phase.ILL,
        Todo.REMOVE,
        "its machine stopped; what ran on it begins anew elsewhere",
        seen=(Seen.UP, Seen.OURS, Seen.SILENT),
        power=(Power.STOPPED,),
        record=_READABLE,
        wished=True,
        order=(Order.NONE, Order.UP, Order.LATE_UP, Order.FAILED),
    ),
    _row(
        Phase.IDLE,
        Todo.SERVE,
        "in service",
        seen=(Seen.UP,),
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.BOTH,),
        wished=True,
    ),
    _row(
        Phase.IDLE,
        Todo.MEND,
        "in service, and not recorded as it should be",
        seen=(Seen.UP,),
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.NONE, Record.MACHINE, Record.PENDING),
        wished=True,
        order=(Order.NONE, Order.LATE_LAUNCH, Order.LATE_UP),
    ),
    _row(
        Phase.IDLE,
        Todo.KEEP,
        "in service; more has to be seen before it may go",
        seen=(Seen.UP,),
        wished=True,
    ),
    # Drained by us
    _row(
        Phase.DRAINED,
        Todo.LEAVE,
        "drained by the scaler",
        seen=(Seen.OURS,),
        power=_LISTABLE,
        record=_READABLE,
        wished=True,
        order=_NOT_UNDER_WAY,
    ),
    _row(
        Phase.DRAINED,
        Todo.KEEP,
        "drained by the scaler; more has to be seen before it may go",
        seen=(Seen.OURS,),
        wished=True,
    ),
    # Too small
    _row(
        Phase.ILL,
        Todo.REPLACE,
        "it registered with less than its shape",
        seen=(Seen.UNFIT,),
        jobs=False,
        power=_LISTABLE,
        record=_READABLE,
        wished=True,
        order=_NOT_UNDER_WAY,
    ),
    _row(Phase.ILL, Todo.WAIT, "it registered with less than its shape", seen=(Seen.UNFIT,), wished=True),
    # On its way
    _row(
        Phase.LAUNCHING,
        Todo.WAIT,
        "it is being made",
        seen=_NOT_UP,
        wished=True,
        order=(Order.UNDER_WAY, Order.LAUNCH),
    ),
    _row(
        Phase.ILL,
        Todo.FAIL,
        "it is not up in time, and Slurm has a job waiting on it",
        seen=(Seen.BOOTING,),
        jobs=True,
        wished=True,
        order=(Order.LATE_LAUNCH, Order.LATE_UP, Order.FAILED),
    ),
    _row(
        Phase.ILL,
        Todo.DROP,
        "it could not be made",
        seen=_NOT_THERE,
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
        wished=True,
        order=(Order.FAILED,),
    ),
    _row(
        Phase.ILL,
        Todo.REMOVE,
        "it could not be made, and what is there of it goes",
        seen=_NOT_UP,
        jobs=False,
        power=_LISTABLE,
        record=_READABLE,
        wished=True,
        order=(Order.FAILED,),
    ),
    _row(
        Phase.LAUNCHING,
        Todo.MAKE,
        "nothing of it was begun in time; it is asked for again",
        seen=(Seen.UNLISTED, Seen.SLOT),
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
        wished=True,
        order=(Order.LATE_LAUNCH, Order.LATE_UP),
    ),
    _row(
        Phase.ILL,
        Todo.REPLACE,
        "it is not up in time",
        seen=_NOT_UP,
        jobs=False,
        power=_LISTABLE,
        record=_READABLE,
        wished=True,
        order=(Order.LATE_LAUNCH,),
    ),
    _row(
        Phase.ILL,
        Todo.REPLACE,
        "it was mended, and is not up in time",
        seen=(Seen.UNLISTED, Seen.SLOT, Seen.BOOTING),
        jobs=False,
        power=_LISTABLE,
        record=_READABLE,
        wished=True,
        order=(Order.LATE_UP,),
    ),
    # Powered down by Slurm
    _row(
        Phase.LEAVING,
        Todo.REMOVE,
        "Slurm has powered it down",
        seen=(Seen.OFF,),
        jobs=False,
        power=_LISTABLE,
        record=_READABLE,
        wished=True,
    ),
    # Wished, and not there
    _row(
        Phase.LAUNCHING,
        Todo.MAKE,
        "it should be there, and is not",
        seen=(Seen.UNLISTED, Seen.SLOT, Seen.BOOTING),
        record=_READABLE,
        wished=True,
        order=(Order.NONE,),
    ),
    _row(
        Phase.ILL,
        Todo.WAIT,
        "it is not up in time, and Slurm was told so",
        seen=(Seen.BOOTING,),
        jobs=True,
        wished=True,
        order=(Order.UP,),
    ),
    _row(
        Phase.LAUNCHING,
        Todo.WAIT,
        "it is being made again",
        seen=(Seen.UNLISTED, Seen.SLOT, Seen.BOOTING),
        wished=True,
        order=(Order.UP,),
    ),
    # Dead, or thought to be
    _row(
        Phase.ILL,
        Todo.REMOVE,
        "it is down, and its machine does not run",
        seen=(Seen.DOWN,),
        jobs=False,
        power=_GONE,
        record=_READABLE,
        wished=True,
    ),
    _row(
        Phase.ILL,
        Todo.REMOVE,
        "it is down, and its machine stopped",
        seen=(Seen.DOWN,),
        jobs=True,
        power=(Power.STOPPED,),
        record=_READABLE,
        wished=True,
    ),
    _row(
        Phase.ILL,
        Todo.MEND,
        "it is down, and its machine runs",
        seen=(Seen.DOWN,),
        jobs=False,
        power=(Power.RUNNING,),
        record=_READABLE,
        wished=True,
        order=(Order.NONE,),
    ),
    _row(
        Phase.ILL,
        Todo.REPLACE,
        "it is down, and mending did not help",
        seen=(Seen.DOWN,),
        jobs=False,
        power=(Power.RUNNING,),
        record=_READABLE,
        wished=True,
        order=(Order.LATE_UP,),
    ),
    _row(
        Phase.ILL,
        Todo.WAIT,
        "it is down; it is being mended, or more has to be seen",
        seen=(Seen.DOWN,),
        wished=True,
    ),
    _row(
        Phase.ILL,
        Todo.WAIT,
        "it does not respond; Slurm will say whether it is down",
        seen=(Seen.SILENT,),
        wished=True,
    ),
    _row(
        Phase.UNKNOWN,
        Todo.WAIT,
        "it should be there, and too little can be seen",
        seen=_NOT_THERE,
        wished=True,
    ),
)

_NOT_WISHED: Final = (
    _row(Phase.LEAVING, Todo.WAIT, "it is being taken away", wished=False, order=(Order.UNDER_WAY,)),
    _row(
        Phase.LEAVING,
        Todo.WAIT,
        "it is to be taken away",
        wished=False,
        record=(*_SOME, Record.UNKNOWN),
        order=(Order.UP,),
    ),
    # In service, or at work
    _row(
        Phase.IDLE,
        Todo.ADOPT,
        "recorded and in service: it stays",
        seen=(Seen.UP,),
        record=_SOME,
        wished=False,
    ),
    _row(
        Phase.DRAINED,
        Todo.ADOPT,
        "recorded and at work: it stays until its jobs have ended",
        seen=(Seen.OURS,),
        jobs=True,
        record=_SOME,
        wished=False,
    ),
    _row(
        Phase.ILL,
        Todo.ADOPT,
        "recorded, and it does not respond",
        seen=(Seen.SILENT,),
        record=_SOME,
        wished=False,
    ),
    # Recorded, and should go
    _row(
        Phase.LEAVING,
        Todo.MEND,
        "it should be gone, and is recorded still",
        seen=(*_NOT_THERE, Seen.OURS, Seen.DOWN, Seen.UNFIT),
        jobs=False,
        power=_LISTABLE,
        record=_SOME,
        wished=False,
        order=_AT_REST,
    ),
    _row(
        Phase.LEAVING,
        Todo.WAIT,
        "it should be gone, and more has to be seen",
        record=_SOME,
        wished=False,
    ),
    # Of no record
    _row(
        Phase.STRAY,
        Todo.DRAIN,
        "no record knows it, and it takes jobs",
        seen=(Seen.UP,),
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.NONE,),
        wished=False,
    ),
    _row(
        Phase.STRAY,
        Todo.SWEEP,
        "no record knows its machine, and it runs nothing",
        seen=(*_NOT_THERE, Seen.OURS, Seen.DOWN, Seen.UNFIT),
        jobs=False,
        power=_MACHINE,
        record=(Record.NONE,),
        wished=False,
    ),
    _row(
        Phase.STRAY,
        Todo.WAIT,
        "no record knows its machine, and it may run jobs",
        power=_MACHINE,
        record=(Record.NONE,),
        wished=False,
    ),
    _row(
        Phase.LEAVING,
        Todo.FORGET,
        "it is gone, and Slurm knows it still",
        seen=(Seen.OURS, Seen.DOWN, Seen.UNFIT),
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
        wished=False,
    ),
    _row(
        Phase.ABSENT,
        Todo.NOTHING,
        "a slot",
        seen=_NOT_THERE,
        power=(Power.NOT_LISTED, Power.UNKNOWN),
        record=(Record.NONE, Record.UNKNOWN),
        wished=False,
    ),
    _row(
        Phase.IDLE,
        Todo.KEEP,
        "in service; more has to be seen before it may go",
        seen=(Seen.UP,),
        wished=False,
    ),
    _row(Phase.UNKNOWN, Todo.WAIT, "too little can be seen", wished=False),
)

ROWS: Final[tuple[Row, ...]] = (*_STRANGE, *_THEIRS, *_WISHED, *_NOT_WISHED)

_WITH_JOBS: Final = {Phase.IDLE: Phase.BUSY, Phase.DRAINED: Phase.DRAINING}


@cache
def row(cell: Cell) -> Row:
    """The row that holds for ``cell``, with its phase as jobs make it."""
    found = next(each for each in ROWS if each.fits(cell))
    return found._replace(phase=_WITH_JOBS.get(found.phase, found.phase)) if cell.jobs else found

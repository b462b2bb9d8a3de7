"""The table of the ledger: how Slurm, infrastructure and Pulumi's state see a node, and what that comes to.

Rows are read from the top, and the first that fits holds. Every combination has one; tests go through them all.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final

from tidepool.scaling.decide.reconcile_words import Cell, Order, Power, Record, Row, Seen, Todo
from tidepool.scaling.phase import Phase

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
    desired: bool | None = None,
    order: tuple[Order, ...] = tuple(Order),
) -> Row:
    return Row(
        frozenset(seen),
        frozenset(_EITHER if jobs is None else (jobs,)),
        frozenset(power),
        frozenset(record),
        frozenset(_EITHER if desired is None else (desired,)),
        frozenset(order),
        phase,
        todo,
        why,
    )


_desired = partial(_row, desired=True)
_not_desired = partial(_row, desired=False)
#: What is surely seen: without it nothing is taken away.
_sure = partial(_desired, power=_LISTABLE, record=_READABLE)

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
        desired=False,
    ),
    _row(Phase.HELD, Todo.NOTHING, "somebody holds it: it is theirs", seen=(Seen.THEIRS,)),
)

_DESIRED: Final = (
    # Up
    _desired(
        Phase.ILL,
        Todo.REMOVE,
        "its machine stopped; what ran on it begins anew elsewhere",
        seen=(Seen.UP, Seen.OURS, Seen.SILENT),
        power=(Power.STOPPED,),
        record=_READABLE,
        order=(Order.NONE, Order.UP, Order.LATE_UP, Order.FAILED),
    ),
    _desired(
        Phase.IDLE,
        Todo.SERVE,
        "in service",
        seen=(Seen.UP,),
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.BOTH,),
    ),
    _desired(
        Phase.IDLE,
        Todo.REPAIR,
        "in service, and not recorded as it should be",
        seen=(Seen.UP,),
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.NONE, Record.MACHINE, Record.PENDING),
        order=(Order.NONE, Order.LATE_LAUNCH, Order.LATE_UP),
    ),
    _desired(
        Phase.IDLE,
        Todo.KEEP,
        "in service; more has to be seen before it may go",
        seen=(Seen.UP,),
    ),
    # Drained by us
    _sure(
        Phase.DRAINED,
        Todo.LEAVE,
        "drained by the scaler",
        seen=(Seen.OURS,),
        order=_NOT_UNDER_WAY,
    ),
    _desired(
        Phase.DRAINED,
        Todo.KEEP,
        "drained by the scaler; more has to be seen before it may go",
        seen=(Seen.OURS,),
    ),
    # Too small
    _sure(
        Phase.ILL,
        Todo.REPLACE,
        "it is not fit for jobs",
        seen=(Seen.UNFIT,),
        jobs=False,
        order=_NOT_UNDER_WAY,
    ),
    _desired(Phase.ILL, Todo.WAIT, "it is not fit for jobs", seen=(Seen.UNFIT,)),
    # On its way
    _desired(
        Phase.LAUNCHING,
        Todo.WAIT,
        "it is being made",
        seen=_NOT_UP,
        order=(Order.UNDER_WAY, Order.LAUNCH),
    ),
    _desired(
        Phase.ILL,
        Todo.FAIL,
        "it is not up in time, and Slurm has a job waiting on it",
        seen=(Seen.BOOTING,),
        jobs=True,
        order=(Order.LATE_LAUNCH, Order.LATE_UP, Order.FAILED),
    ),
    _desired(
        Phase.ILL,
        Todo.DROP,
        "it could not be made",
        seen=_NOT_THERE,
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
        order=(Order.FAILED,),
    ),
    _sure(
        Phase.ILL,
        Todo.REMOVE,
        "it could not be made, and what is there of it goes",
        seen=_NOT_UP,
        jobs=False,
        order=(Order.FAILED,),
    ),
    _desired(
        Phase.LAUNCHING,
        Todo.MAKE,
        "nothing of it was begun in time; it is asked for again",
        seen=(Seen.UNLISTED, Seen.SLOT),
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
        order=(Order.LATE_LAUNCH, Order.LATE_UP),
    ),
    _sure(
        Phase.ILL,
        Todo.REPLACE,
        "it is not up in time",
        seen=_NOT_UP,
        jobs=False,
        order=(Order.LATE_LAUNCH,),
    ),
    _sure(
        Phase.ILL,
        Todo.REPLACE,
        "it was mended, and is not up in time",
        seen=(Seen.UNLISTED, Seen.SLOT, Seen.BOOTING),
        jobs=False,
        order=(Order.LATE_UP,),
    ),
    # Powered down by Slurm
    _sure(
        Phase.LEAVING,
        Todo.REMOVE,
        "Slurm has powered it down",
        seen=(Seen.OFF,),
        jobs=False,
    ),
    # Wished, and not there
    _desired(
        Phase.LAUNCHING,
        Todo.MAKE,
        "it should be there, and is not",
        seen=(Seen.UNLISTED, Seen.SLOT, Seen.BOOTING),
        record=_READABLE,
        order=(Order.NONE,),
    ),
    _desired(
        Phase.ILL,
        Todo.WAIT,
        "it is not up in time, and Slurm was told so",
        seen=(Seen.BOOTING,),
        jobs=True,
        order=(Order.UP,),
    ),
    _desired(
        Phase.LAUNCHING,
        Todo.WAIT,
        "it is being made again",
        seen=(Seen.UNLISTED, Seen.SLOT, Seen.BOOTING),
        order=(Order.UP,),
    ),
    # Dead, or thought to be
    _desired(
        Phase.ILL,
        Todo.REMOVE,
        "it is down, and its machine does not run",
        seen=(Seen.DOWN,),
        jobs=False,
        power=_GONE,
        record=_READABLE,
    ),
    _desired(
        Phase.ILL,
        Todo.REMOVE,
        "it is down, and its machine stopped",
        seen=(Seen.DOWN,),
        jobs=True,
        power=(Power.STOPPED,),
        record=_READABLE,
    ),
    _desired(
        Phase.ILL,
        Todo.REPAIR,
        "it is down, and its machine runs",
        seen=(Seen.DOWN,),
        jobs=False,
        power=(Power.RUNNING,),
        record=_READABLE,
        order=(Order.NONE,),
    ),
    _desired(
        Phase.ILL,
        Todo.REPLACE,
        "it is down, and mending did not help",
        seen=(Seen.DOWN,),
        jobs=False,
        power=(Power.RUNNING,),
        record=_READABLE,
        order=(Order.LATE_UP,),
    ),
    _desired(
        Phase.ILL,
        Todo.WAIT,
        "it is down; it is being mended, or more has to be seen",
        seen=(Seen.DOWN,),
    ),
    _desired(
        Phase.ILL,
        Todo.WAIT,
        "it does not respond; Slurm will say whether it is down",
        seen=(Seen.SILENT,),
    ),
    _desired(
        Phase.UNKNOWN,
        Todo.WAIT,
        "it should be there, and too little can be seen",
        seen=_NOT_THERE,
    ),
)

_NOT_DESIRED: Final = (
    _not_desired(Phase.LEAVING, Todo.WAIT, "it is being taken away", order=(Order.UNDER_WAY,)),
    _not_desired(
        Phase.LEAVING,
        Todo.WAIT,
        "it is to be taken away",
        record=(*_SOME, Record.UNKNOWN),
        order=(Order.UP,),
    ),
    # In service, or at work
    _not_desired(
        Phase.IDLE,
        Todo.ADOPT,
        "recorded and in service: it stays",
        seen=(Seen.UP,),
        record=_SOME,
    ),
    _not_desired(
        Phase.DRAINED,
        Todo.ADOPT,
        "recorded and at work: it stays until its jobs have ended",
        seen=(Seen.OURS,),
        jobs=True,
        record=_SOME,
    ),
    _not_desired(
        Phase.ILL,
        Todo.ADOPT,
        "recorded, and it does not respond",
        seen=(Seen.SILENT,),
        record=_SOME,
    ),
    # Recorded, and should go
    _not_desired(
        Phase.LEAVING,
        Todo.REPAIR,
        "it should be gone, and is recorded still",
        seen=(*_NOT_THERE, Seen.OURS, Seen.DOWN, Seen.UNFIT),
        jobs=False,
        power=_LISTABLE,
        record=_SOME,
        order=_AT_REST,
    ),
    _not_desired(
        Phase.LEAVING,
        Todo.WAIT,
        "it should be gone, and more has to be seen",
        record=_SOME,
    ),
    # Of no record
    _not_desired(
        Phase.STRAY,
        Todo.DRAIN,
        "no record knows it, and it takes jobs",
        seen=(Seen.UP,),
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.STRAY,
        Todo.DELETE_ORPHAN,
        "no record knows its machine, and it runs nothing",
        seen=(*_NOT_THERE, Seen.OURS, Seen.DOWN, Seen.UNFIT),
        jobs=False,
        power=_MACHINE,
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.STRAY,
        Todo.WAIT,
        "no record knows its machine, and it may run jobs",
        power=_MACHINE,
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.LEAVING,
        Todo.RELEASE_SLOT,
        "it is gone, and Slurm knows it still",
        seen=(Seen.OURS, Seen.DOWN, Seen.UNFIT),
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.ABSENT,
        Todo.NOTHING,
        "a slot",
        seen=_NOT_THERE,
        power=(Power.NOT_LISTED, Power.UNKNOWN),
        record=(Record.NONE, Record.UNKNOWN),
    ),
    _not_desired(
        Phase.IDLE,
        Todo.KEEP,
        "in service; more has to be seen before it may go",
        seen=(Seen.UP,),
    ),
    _not_desired(Phase.UNKNOWN, Todo.WAIT, "too little can be seen"),
)

ROWS: Final[tuple[Row, ...]] = (*_STRANGE, *_THEIRS, *_DESIRED, *_NOT_DESIRED)

_WITH_JOBS: Final = {Phase.IDLE: Phase.BUSY, Phase.DRAINED: Phase.DRAINING}


@cache
def row(cell: Cell) -> Row:
    """The row that holds for ``cell``, with its phase as jobs make it."""
    found = next(each for each in ROWS if each.fits(cell))
    return found._replace(phase=_WITH_JOBS.get(found.phase, found.phase)) if cell.jobs else found

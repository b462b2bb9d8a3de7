"""The reconcile table: how Slurm, infrastructure and Pulumi's state see a node, and what that comes to.

Rows are read from the top, and the first that fits holds. Every combination has one; tests go through them all.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final

from tidepool.scaling.decide.node_status import (
    Cell,
    NodeAction,
    Power,
    Record,
    RequestStatus,
    Row,
    SlurmStatus,
)
from tidepool.scaling.decision import Phase

_EITHER: Final = (True, False)
_GONE: Final = (Power.STOPPED, Power.NOT_LISTED)
_MACHINE: Final = (Power.RUNNING, Power.STOPPED)
_LISTABLE: Final = (Power.RUNNING, Power.STOPPED, Power.NOT_LISTED)
_SOME: Final = (Record.MACHINE, Record.BOTH, Record.PENDING)
_READABLE: Final = (Record.NONE, *_SOME)
_NOT_THERE: Final = (SlurmStatus.UNLISTED, SlurmStatus.SLOT, SlurmStatus.OFF, SlurmStatus.BOOTING)
_NOT_UP: Final = (*_NOT_THERE, SlurmStatus.SILENT, SlurmStatus.DOWN)
_NOT_UNDER_WAY: Final = tuple(request for request in RequestStatus if request is not RequestStatus.UNDER_WAY)
#: Of what is not desired, a launch means nothing.
_AT_REST: Final = (
    RequestStatus.NONE,
    RequestStatus.LAUNCH,
    RequestStatus.LATE_LAUNCH,
    RequestStatus.LATE_UP,
    RequestStatus.FAILED,
)


def _row(
    phase: Phase,
    action: NodeAction,
    why: str,
    *,
    slurm: tuple[SlurmStatus, ...] = tuple(SlurmStatus),
    jobs: bool | None = None,
    power: tuple[Power, ...] = tuple(Power),
    record: tuple[Record, ...] = tuple(Record),
    desired: bool | None = None,
    request: tuple[RequestStatus, ...] = tuple(RequestStatus),
) -> Row:
    return Row(
        frozenset(slurm),
        frozenset(_EITHER if jobs is None else (jobs,)),
        frozenset(power),
        frozenset(record),
        frozenset(_EITHER if desired is None else (desired,)),
        frozenset(request),
        phase,
        action,
        why,
    )


_desired = partial(_row, desired=True)
_not_desired = partial(_row, desired=False)
_up = partial(_desired, slurm=(SlurmStatus.UP,))
_down = partial(_desired, slurm=(SlurmStatus.DOWN,))
#: What is surely seen: without it nothing is taken away.
_sure = partial(_desired, power=_LISTABLE, record=_READABLE)

_STRANGE: Final = (
    _row(Phase.UNKNOWN, NodeAction.NOTHING, "Slurm does not say how it is", slurm=(SlurmStatus.STRANGE,)),
    _row(
        Phase.UNKNOWN,
        NodeAction.WAIT,
        "Slurm has a job on it, and says that it is not there",
        slurm=(SlurmStatus.UNLISTED, SlurmStatus.SLOT, SlurmStatus.OFF),
        jobs=True,
    ),
)

_THEIRS: Final = (
    _row(
        Phase.HELD,
        NodeAction.ADOPT,
        "somebody holds it, and it is recorded: it stays",
        slurm=(SlurmStatus.THEIRS,),
        record=_SOME,
        desired=False,
    ),
    _row(Phase.HELD, NodeAction.NOTHING, "somebody holds it: it is theirs", slurm=(SlurmStatus.THEIRS,)),
)

_DESIRED: Final = (
    # Up
    _desired(
        Phase.ILL,
        NodeAction.REMOVE,
        "its machine stopped; what ran on it begins anew elsewhere",
        slurm=(SlurmStatus.UP, SlurmStatus.OURS, SlurmStatus.SILENT),
        power=(Power.STOPPED,),
        record=_READABLE,
        request=(RequestStatus.NONE, RequestStatus.UP, RequestStatus.LATE_UP, RequestStatus.FAILED),
    ),
    _up(
        Phase.IDLE,
        NodeAction.SERVE,
        "in service",
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.BOTH,),
    ),
    _up(
        Phase.IDLE,
        NodeAction.REPAIR,
        "in service, and not recorded as it should be",
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.NONE, Record.MACHINE, Record.PENDING),
        request=(RequestStatus.NONE, RequestStatus.LATE_LAUNCH, RequestStatus.LATE_UP),
    ),
    _up(
        Phase.IDLE,
        NodeAction.KEEP,
        "in service; more has to be seen before it may go",
    ),
    # Drained by us
    _sure(
        Phase.DRAINED,
        NodeAction.LEAVE,
        "drained by the scaler",
        slurm=(SlurmStatus.OURS,),
        request=_NOT_UNDER_WAY,
    ),
    _desired(
        Phase.DRAINED,
        NodeAction.KEEP,
        "drained by the scaler; more has to be seen before it may go",
        slurm=(SlurmStatus.OURS,),
    ),
    # Too small
    _sure(
        Phase.ILL,
        NodeAction.REPLACE,
        "it is not fit for jobs",
        slurm=(SlurmStatus.UNFIT,),
        jobs=False,
        request=_NOT_UNDER_WAY,
    ),
    _desired(Phase.ILL, NodeAction.WAIT, "it is not fit for jobs", slurm=(SlurmStatus.UNFIT,)),
    # On its way
    _desired(
        Phase.LAUNCHING,
        NodeAction.WAIT,
        "it is being made",
        slurm=_NOT_UP,
        request=(RequestStatus.UNDER_WAY, RequestStatus.LAUNCH),
    ),
    _desired(
        Phase.ILL,
        NodeAction.FAIL,
        "it is not up in time, and Slurm has a job waiting on it",
        slurm=(SlurmStatus.BOOTING,),
        jobs=True,
        request=(RequestStatus.LATE_LAUNCH, RequestStatus.LATE_UP, RequestStatus.FAILED),
    ),
    _desired(
        Phase.ILL,
        NodeAction.DROP,
        "it could not be made",
        slurm=_NOT_THERE,
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
        request=(RequestStatus.FAILED,),
    ),
    _sure(
        Phase.ILL,
        NodeAction.REMOVE,
        "it could not be made, and what is there of it goes",
        slurm=_NOT_UP,
        jobs=False,
        request=(RequestStatus.FAILED,),
    ),
    _desired(
        Phase.LAUNCHING,
        NodeAction.MAKE,
        "nothing of it was begun in time; it is asked for again",
        slurm=(SlurmStatus.UNLISTED, SlurmStatus.SLOT),
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
        request=(RequestStatus.LATE_LAUNCH, RequestStatus.LATE_UP),
    ),
    _sure(
        Phase.ILL,
        NodeAction.REPLACE,
        "it is not up in time",
        slurm=_NOT_UP,
        jobs=False,
        request=(RequestStatus.LATE_LAUNCH,),
    ),
    _sure(
        Phase.ILL,
        NodeAction.REPLACE,
        "it was mended, and is not up in time",
        slurm=(SlurmStatus.UNLISTED, SlurmStatus.SLOT, SlurmStatus.BOOTING),
        jobs=False,
        request=(RequestStatus.LATE_UP,),
    ),
    # Powered down by Slurm
    _sure(
        Phase.LEAVING,
        NodeAction.REMOVE,
        "Slurm has powered it down",
        slurm=(SlurmStatus.OFF,),
        jobs=False,
    ),
    # Desired, and not there
    _desired(
        Phase.LAUNCHING,
        NodeAction.MAKE,
        "it should be there, and is not",
        slurm=(SlurmStatus.UNLISTED, SlurmStatus.SLOT, SlurmStatus.BOOTING),
        record=_READABLE,
        request=(RequestStatus.NONE,),
    ),
    _desired(
        Phase.ILL,
        NodeAction.WAIT,
        "it is not up in time, and Slurm was told so",
        slurm=(SlurmStatus.BOOTING,),
        jobs=True,
        request=(RequestStatus.UP,),
    ),
    _desired(
        Phase.LAUNCHING,
        NodeAction.WAIT,
        "it is being made again",
        slurm=(SlurmStatus.UNLISTED, SlurmStatus.SLOT, SlurmStatus.BOOTING),
        request=(RequestStatus.UP,),
    ),
    # Dead, or thought to be
    _down(
        Phase.ILL,
        NodeAction.REMOVE,
        "it is down, and its machine does not run",
        jobs=False,
        power=_GONE,
        record=_READABLE,
    ),
    _down(
        Phase.ILL,
        NodeAction.REMOVE,
        "it is down, and its machine stopped",
        jobs=True,
        power=(Power.STOPPED,),
        record=_READABLE,
    ),
    _down(
        Phase.ILL,
        NodeAction.REPAIR,
        "it is down, and its machine runs",
        jobs=False,
        power=(Power.RUNNING,),
        record=_READABLE,
        request=(RequestStatus.NONE,),
    ),
    _down(
        Phase.ILL,
        NodeAction.REPLACE,
        "it is down, and mending did not help",
        jobs=False,
        power=(Power.RUNNING,),
        record=_READABLE,
        request=(RequestStatus.LATE_UP,),
    ),
    _down(
        Phase.ILL,
        NodeAction.WAIT,
        "it is down; it is being mended, or more has to be seen",
    ),
    _desired(
        Phase.ILL,
        NodeAction.WAIT,
        "it does not respond; Slurm will say whether it is down",
        slurm=(SlurmStatus.SILENT,),
    ),
    _desired(
        Phase.UNKNOWN,
        NodeAction.WAIT,
        "it should be there, and too little can be seen",
        slurm=_NOT_THERE,
    ),
)

_NOT_DESIRED: Final = (
    _not_desired(
        Phase.LEAVING, NodeAction.WAIT, "it is being taken away", request=(RequestStatus.UNDER_WAY,)
    ),
    _not_desired(
        Phase.LEAVING,
        NodeAction.WAIT,
        "it is to be taken away",
        record=(*_SOME, Record.UNKNOWN),
        request=(RequestStatus.UP,),
    ),
    # In service, or at work
    _not_desired(
        Phase.IDLE,
        NodeAction.ADOPT,
        "recorded and in service: it stays",
        slurm=(SlurmStatus.UP,),
        record=_SOME,
    ),
    _not_desired(
        Phase.DRAINED,
        NodeAction.ADOPT,
        "recorded and at work: it stays until its jobs have ended",
        slurm=(SlurmStatus.OURS,),
        jobs=True,
        record=_SOME,
    ),
    _not_desired(
        Phase.ILL,
        NodeAction.ADOPT,
        "recorded, and it does not respond",
        slurm=(SlurmStatus.SILENT,),
        record=_SOME,
    ),
    # Recorded, and should go
    _not_desired(
        Phase.LEAVING,
        NodeAction.REPAIR,
        "it should be gone, and is recorded still",
        slurm=(*_NOT_THERE, SlurmStatus.OURS, SlurmStatus.DOWN, SlurmStatus.UNFIT),
        jobs=False,
        power=_LISTABLE,
        record=_SOME,
        request=_AT_REST,
    ),
    _not_desired(
        Phase.LEAVING,
        NodeAction.WAIT,
        "it should be gone, and more has to be seen",
        record=_SOME,
    ),
    # Of no record
    _not_desired(
        Phase.STRAY,
        NodeAction.DRAIN,
        "no record knows it, and it takes jobs",
        slurm=(SlurmStatus.UP,),
        power=(Power.RUNNING, Power.NOT_LISTED),
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.STRAY,
        NodeAction.DELETE_ORPHAN,
        "no record knows its machine, and it runs nothing",
        slurm=(*_NOT_THERE, SlurmStatus.OURS, SlurmStatus.DOWN, SlurmStatus.UNFIT),
        jobs=False,
        power=_MACHINE,
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.STRAY,
        NodeAction.WAIT,
        "no record knows its machine, and it may run jobs",
        power=_MACHINE,
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.LEAVING,
        NodeAction.RELEASE_SLOT,
        "it is gone, and Slurm knows it still",
        slurm=(SlurmStatus.OURS, SlurmStatus.DOWN, SlurmStatus.UNFIT),
        jobs=False,
        power=(Power.NOT_LISTED,),
        record=(Record.NONE,),
    ),
    _not_desired(
        Phase.ABSENT,
        NodeAction.NOTHING,
        "a slot",
        slurm=_NOT_THERE,
        power=(Power.NOT_LISTED, Power.UNKNOWN),
        record=(Record.NONE, Record.UNKNOWN),
    ),
    _not_desired(
        Phase.IDLE,
        NodeAction.KEEP,
        "in service; more has to be seen before it may go",
        slurm=(SlurmStatus.UP,),
    ),
    _not_desired(Phase.UNKNOWN, NodeAction.WAIT, "too little can be seen"),
)

ROWS: Final[tuple[Row, ...]] = (*_STRANGE, *_THEIRS, *_DESIRED, *_NOT_DESIRED)

_WITH_JOBS: Final = {Phase.IDLE: Phase.BUSY, Phase.DRAINED: Phase.DRAINING}


@cache
def row(cell: Cell) -> Row:
    """The row that holds for ``cell``, with its phase as jobs make it."""
    found = next(each for each in ROWS if each.fits(cell))
    return found._replace(phase=_WITH_JOBS.get(found.phase, found.phase)) if cell.jobs else found

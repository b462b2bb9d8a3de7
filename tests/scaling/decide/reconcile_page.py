"""The page of documentation that is written from the reconcile table."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from tidepool.scaling.decide.node_status import NodeAction, Power, Record, RequestStatus, Row, SlurmStatus
from tidepool.scaling.decide.reconcile_table import ROWS

_TOP: Final = """\
# The reconcile table
Slurm, the infrastructure and Pulumi's state each have their own idea of a node. The scaler lays the three side by side,
with what is desired and what was asked for; this table says what every combination comes to. The first row that fits
holds. It is written from `tidepool/scaling/decide/reconcile_table.py`; a test holds it current, and others go through all
combinations: each has a row, what is unknown removes nothing, and what has jobs is not touched, unless its machine is
there and does not run.

| word | what it means |
|---|---|
"""

_MEANING: Final = {
    NodeAction.NOTHING: "Nothing is done.",
    NodeAction.WAIT: "Something was asked for and has time still, or more has to be seen first.",
    NodeAction.SERVE: "Jobs may have it. Idle for long enough, it is drained.",
    NodeAction.KEEP: "Jobs may have it, and it stays, for something cannot be seen.",
    NodeAction.ADOPT: "It is desired, whoever made it.",
    NodeAction.MAKE: "An `up` makes it, and it has its time to come up.",
    NodeAction.REPAIR: "An `up` looks again at what is recorded of it, and makes it as it is desired: there, or gone.",
    NodeAction.DRAIN: "It takes no more jobs.",
    NodeAction.LEAVE: "A job that needs it undrains it. Empty, it is removed.",
    NodeAction.REMOVE: "It is desired no more, and an `up` takes it away.",
    NodeAction.DROP: "It is desired no more. There is nothing to take away.",
    NodeAction.REPLACE: "It is removed, its name is left alone for a while, and the failure is counted for its fleet.",
    NodeAction.DELETE_ORPHAN: "Its machine is deleted, after a grace of two minutes in which no `up` is under way.",
    NodeAction.RELEASE_SLOT: "Slurm makes a slot of it.",
    NodeAction.FAIL: "Slurm's power saving is told that it does not come.",
}

_TABLE: Final = """
`remove`, `replace`, `repair` and `release slot` wait for a second look that says the same. `jobs` is what Slurm says of its
processors, or of any job that it has there. Of several machines of one name, the one with the recorded id is meant; others
are deleted like those of no record.

| | Slurm | jobs | machine | recorded | desired | asked for | phase | to do | why |
|---|---|---|---|---|---|---|---|---|---|
"""


def reconcile_page() -> str:
    """The text of ``docs/reconcile.md``."""
    words = "".join(f"| `{action}` | {_MEANING[action]} |\n" for action in NodeAction)
    rows = "".join(_line(number, row) for number, row in enumerate(ROWS, start=1))
    return _TOP + words + _TABLE + rows


def _line(number: int, row: Row) -> str:
    cells = (
        str(number),
        _values(row.slurm, SlurmStatus),
        "" if len(row.jobs) > 1 else "yes" if True in row.jobs else "no",
        _values(row.power, Power),
        _values(row.record, Record),
        "" if len(row.desired) > 1 else "yes" if True in row.desired else "no",
        _values(row.request, RequestStatus),
        f"`{row.phase}`",
        f"`{row.action}`",
        row.why,
    )
    return f"| {' | '.join(cells)} |\n"


def _values(values: frozenset[StrEnum], every: Iterable[StrEnum]) -> str:
    """In the order of their kind; nothing where all are meant, and those that are not where these are fewer."""
    said = [str(value) for value in every if value in values]
    others = [str(value) for value in every if value not in values]
    if not others:
        return ""
    return f"not: {', '.join(others)}" if len(others) < len(said) and len(others) <= 2 else ", ".join(said)

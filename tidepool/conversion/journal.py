"""The conversions of one stack, in a file of SQLite's: several processes read and write it at once, and may be killed.

A transaction is whole or was not. Where a phase changes it is on the disk before its call returns; marks and leases
survive a kill, and only after a power cut may be those of a moment before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.ports import ConversionError, NotOrdered, TakenOver
from tidepool.conversion.record import CANCELLABLE, UNBEGUN_S, Conversion, Order, read, written
from tidepool.journals.driven_journal import DrivenJournal
from tidepool.journals.journal_file import Tables, stamp
from tidepool.journals.processes import is_dead

#: `TIDE` and the version of the tables, by which the file is known.
_APPLICATION: Final = 0x54494443
_VERSION: Final = 1
_STATEMENTS: Final = """
CREATE TABLE conversions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    node TEXT NOT NULL,
    pool TEXT NOT NULL,
    ordered TEXT NOT NULL,
    phase TEXT NOT NULL,
    ended TEXT,
    is_forced INTEGER NOT NULL,
    cancel_by TEXT NOT NULL,
    driver TEXT NOT NULL,
    driver_until TEXT,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX one_under_way ON conversions (node) WHERE ended IS NULL;
CREATE INDEX of_a_node ON conversions (node, id);
CREATE INDEX by_end ON conversions (ended);
"""
_TABLES: Final = Tables(
    "journal of conversions", "conversions", _APPLICATION, _VERSION, _STATEMENTS, ConversionError
)


class Journal(DrivenJournal[int, Conversion]):
    """The conversions of one stack. All may raise `ConversionError`."""

    tables = _TABLES

    # What is ordered

    def order(self, order: Order, leaves: Role | None) -> Conversion:
        """Write a new one down, in phase ``asked``; the one under way where it has the same target, forced if the order is.

        ``leaves`` is the role that the machine has; of both, the one that is not ordered.

        Raises:
            NotOrdered: another of the machine is under way; says which, and how to cancel it.
        """
        with self._file.writing(durable=True):
            there = self._of(order.node)
            if there is not None and there.order.to == order.to:
                if not there.cancel_by and there.phase != "restoring":
                    if order.is_forced and not there.order.is_forced:
                        return self._forced(there)
                    return there
                raise NotOrdered(
                    f"{order.node} is being made again what it was ({there.text or there.back_because}); "
                    "order it when that is over"
                )
            if there is not None:
                if not self._is_forgotten(there):
                    raise NotOrdered(
                        f"{order.node} is being converted to {there.order.to} ({there.phase}, by {there.order.by}); wait for "
                        f"its end, or cancel it: `tidepool convert {order.node} --cancel`"
                    )
                self._stopped(there, "nobody carried it out, and another was ordered")
            new = Conversion(0, order, leaves, "asked", began=FrozenDict({"asked": order.at}))
            added = self._connection.execute(
                "INSERT INTO conversions (node, pool, ordered, phase, is_forced, cancel_by, driver, body) "
                "VALUES (?, ?, ?, ?, ?, '', '', ?)",
                (order.node, order.pool, stamp(order.at), new.phase, order.is_forced, written(new)),
            )
            assert added.lastrowid is not None
            return self._one(added.lastrowid)

    def cancel(self, node: str, by: str) -> Conversion:
        """Ask the one under way to go back. One that nobody has begun to carry out has stopped by that.

        Raises:
            NotOrdered: there is none, or it is past the point of no return.
        """
        with self._file.writing(durable=True):
            there = self._there(node)
            if there.phase == "restoring" or there.cancel_by:
                return there
            if there.phase not in CANCELLABLE:
                raise NotOrdered(
                    f"{node} is past the point of no return ({there.phase}): it will have the role {there.order.to}; order "
                    f"it back then: `tidepool convert {node} --to {there.leaves or 'slurm'}`"
                )
            self._connection.execute("UPDATE conversions SET cancel_by = ? WHERE id = ?", (by, there.id))
            if there.phase == "asked" and not self._is_driven(there):
                return self._stopped(self._one(there.id), f"cancelled by {by}")
            return self._one(there.id)

    def force(self, node: str, by: str) -> Conversion:
        """Make the one under way a forced one.

        Raises:
            NotOrdered: there is none, or it goes back already.
        """
        with self._file.writing(durable=True):
            there = self._there(node)
            if there.cancel_by or there.phase == "restoring":
                raise NotOrdered(
                    f"{node} is being made again what it was; order it by force when that is over"
                )
            return self._forced(there)

    # What is known

    def under_way(self, node: str) -> Conversion | None:
        """That of a machine that has not ended."""
        with self._file.reading():
            return self._of(node)

    def conversion(self, id: int) -> Conversion:
        """One, under way or ended, as it is now."""
        with self._file.reading():
            return self._one(id)

    def conversions(
        self, *, node: str = "", since: datetime | None = None, limit: int | None = 1000
    ) -> Sequence[Conversion]:
        """The newest first: ``limit`` of them, and those that are under way, however old; with None, all."""
        wheres, values = ["1"], list[Any]()
        if node:
            wheres.append("node = ?")
            values.append(node)
        if since is not None:
            wheres.append("(ended IS NULL OR ended >= ?)")
            values.append(stamp(since))
        those = f"FROM conversions WHERE {' AND '.join(wheres)}"
        with self._file.reading():
            rows = self._connection.execute(
                f"SELECT * {those} AND (ended IS NULL OR id IN "
                f"(SELECT id {those} ORDER BY id DESC LIMIT ?)) ORDER BY id DESC",
                (*values, *values, -1 if limit is None else limit),
            ).fetchall()
        return tuple(self._read(row) for row in rows)

    # Who drives

    def write(self, conversion: Conversion) -> Conversion:
        """Keep it as it is now, but for ``cancel_by`` and the order's force, which others write; gives it with theirs.

        One that was cancelled meanwhile does not go past the point of no return: its phase stays what it was.

        Raises:
            TakenOver: its ``driver`` is no longer the one that drives it.
        """
        with self._file.reading():
            before = self._one(conversion.id)
        with self._file.writing(durable=before.phase != conversion.phase):
            there = self._one(conversion.id)
            if there.driver != conversion.driver or not there.is_under_way:
                raise TakenOver(f"conversion {conversion.id} is driven by another process")
            if there.cancel_by and there.phase in CANCELLABLE and conversion.phase == "leaving":
                return there
            self._connection.execute(
                "UPDATE conversions SET phase = ?, ended = ?, body = ? WHERE id = ?",
                (conversion.phase, stamp(conversion.ended), written(conversion), conversion.id),
            )
            return self._one(conversion.id)

    # Inside of a transaction

    def _is_forgotten(self, there: Conversion) -> bool:
        """Ordered long ago, and nobody has begun to carry it out."""
        late = there.order.at + timedelta(seconds=UNBEGUN_S)
        return there.phase == "asked" and not self._is_driven(there) and self._now() > late

    def _stopped(self, there: Conversion, why: str) -> Conversion:
        now = self._now()
        began = FrozenDict({**there.began, "stopped": now})
        ended = replace(there, phase="stopped", began=began, ended=now, text=why, back_because=why)
        self._connection.execute(
            "UPDATE conversions SET phase = 'stopped', ended = ?, driver = '', driver_until = NULL, body = ? WHERE id = ?",
            (stamp(now), written(ended), there.id),
        )
        return self._one(there.id)

    def _forced(self, there: Conversion) -> Conversion:
        self._connection.execute("UPDATE conversions SET is_forced = 1 WHERE id = ?", (there.id,))
        return self._one(there.id)

    def _there(self, node: str) -> Conversion:
        there = self._of(node)
        if there is None:
            raise NotOrdered(
                f"{node} is not being converted; `tidepool pool show` tells what each machine is"
            )
        return there

    def _of(self, node: str) -> Conversion | None:
        row = self._connection.execute(
            "SELECT * FROM conversions WHERE node = ? AND ended IS NULL", (node,)
        ).fetchone()
        return None if row is None else self._read(row)

    def _one(self, id: int) -> Conversion:
        row = self._connection.execute("SELECT * FROM conversions WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise ConversionError(f"the journal {self._file.path} has no conversion {id}")
        return self._read(row)

    def _read(self, row: sqlite3.Row) -> Conversion:
        try:
            return read({key: row[key] for key in row.keys()})  # noqa: SIM118 - a Row's values are what is iterated
        except (KeyError, TypeError, ValueError) as error:
            raise ConversionError(
                f"conversion {row['id']} in the journal {self._file.path} cannot be read: {error}"
            ) from error


def as_driven(conversion: Conversion) -> Conversion:
    """Return the conversion without a driver where that is known to be dead, however long it was taken to be alive."""
    if conversion.driver_until is None or not is_dead(conversion.driver):
        return conversion
    return replace(conversion, driver_until=None)

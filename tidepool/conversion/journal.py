"""The conversions of one stack, in a file of SQLite's: several processes read and write it at once, and may be killed.

A transaction is whole or was not. Where a phase changes it is on the disk before its call returns; marks and leases
survive a kill, and only after a power cut may be those of a moment before.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.ports import ConversionError, NotOrdered, TakenOver
from tidepool.conversion.processes import is_dead, is_driven
from tidepool.conversion.record import CANCELLABLE, UNBEGUN_S, Conversion, Order, read, stamp, written

#: How long one waits for another process that writes.
BUSY_TIMEOUT_S: Final = 5.0
_AGAIN_S: Final = 0.005
#: `TIDE` and the version of the tables, by which the file is known.
_APPLICATION: Final = 0x54494443
_VERSION: Final = 1
_TABLES: Final = """
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


class Journal:
    """The conversions of one stack in the file ``path``, made where there is none: 0600, in a folder that is 0700.

    For several processes, and threads, at once. All may raise `ConversionError`.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        dead: Callable[[str], bool] = is_dead,
        power_safe: bool = True,
    ) -> None:
        """Open it. ``dead`` tells drivers whose process is gone; without ``power_safe`` nothing waits for the disk.

        Raises:
            ConversionError: it cannot be opened, or is something else.
        """
        self._path, self._now, self._dead, self._power_safe = path, now, dead, power_safe
        self._lock = threading.RLock()
        with self._said():
            make_private(path)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    # What is ordered

    def order(self, order: Order, leaves: Role | None) -> Conversion:
        """Write a new one down, in phase ``asked``; the one under way where it has the same target, forced if the order is.

        ``leaves`` is the role that the machine has; of both, the one that is not ordered.

        Raises:
            NotOrdered: another of the machine is under way; says which, and how to cancel it.
        """
        with self._writing(durable=True):
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
            return self._one(added.lastrowid)

    def cancel(self, node: str, by: str) -> Conversion:
        """Ask the one under way to go back. One that nobody has begun to carry out has stopped by that.

        Raises:
            NotOrdered: there is none, or it is past the point of no return.
        """
        with self._writing(durable=True):
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
        with self._writing(durable=True):
            there = self._there(node)
            if there.cancel_by or there.phase == "restoring":
                raise NotOrdered(
                    f"{node} is being made again what it was; order it by force when that is over"
                )
            return self._forced(there)

    # What is known

    def under_way(self, node: str) -> Conversion | None:
        """That of a machine that has not ended."""
        with self._reading():
            return self._of(node)

    def conversion(self, id: int) -> Conversion:
        """One, under way or ended, as it is now."""
        with self._reading():
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
        with self._reading():
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
        with self._reading():
            before = self._one(conversion.id)
        with self._writing(durable=before.phase != conversion.phase):
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

    def take_over(self, id: int, driver: str, now: datetime, lasting_s: float) -> bool:
        """Be the one that drives it, until so long from now; whether one is: another that lives may be at it."""
        with self._writing(durable=False):
            there = self._one(id)
            if not there.is_under_way:
                return False
            if there.driver not in ("", driver) and self._is_driven(there, now):
                return False
            self._connection.execute(
                "UPDATE conversions SET driver = ?, driver_until = ? WHERE id = ?",
                (driver, stamp(now + timedelta(seconds=lasting_s)), id),
            )
            return True

    def let_go(self, id: int, driver: str) -> None:
        """Drive it no more, if one did: another may at once."""
        with self._writing(durable=False):
            self._connection.execute(
                "UPDATE conversions SET driver = '', driver_until = NULL WHERE id = ? AND driver = ? AND ended IS NULL",
                (id, driver),
            )

    def prune(self, before: datetime) -> None:
        """Forget those that ended before."""
        with self._writing(durable=False):
            self._connection.execute("DELETE FROM conversions WHERE ended < ?", (stamp(before),))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    # Inside of a transaction

    def _is_driven(self, there: Conversion, now: datetime | None = None) -> bool:
        return is_driven(there, now or self._now(), self._dead)

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

    def _one(self, id: int | None) -> Conversion:
        row = self._connection.execute("SELECT * FROM conversions WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise ConversionError(f"the journal {self._path} has no conversion {id}")
        return self._read(row)

    def _read(self, row: sqlite3.Row) -> Conversion:
        try:
            return read({key: row[key] for key in row.keys()})  # noqa: SIM118 - a Row's values are what is iterated
        except (KeyError, TypeError, ValueError) as error:
            raise ConversionError(
                f"conversion {row['id']} in the journal {self._path} cannot be read: {error}"
            ) from error

    # The file

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, self._said():
            yield

    @contextmanager
    def _writing(self, *, durable: bool) -> Iterator[None]:
        with self._lock, self._said():
            full = durable and self._power_safe
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            with transaction(self._connection, "BEGIN IMMEDIATE"):
                yield

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            words = " ".join(str(error).split())
            raise ConversionError(
                f"the journal of conversions {self._path} cannot be used: {words}; see the disk that it is on, and whose "
                "file it is"
            ) from error

    def _prepare(self) -> None:
        self._write_ahead()
        with transaction(self._connection, "BEGIN"):
            if self._known():
                return
        with transaction(self._connection, "BEGIN EXCLUSIVE"):
            if not self._known():
                for statement in _TABLES.split(";\n"):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _write_ahead(self) -> None:
        """In this one statement SQLite waits for nobody else: of several who open a new file, all but one are refused."""
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_S)

    def _known(self) -> bool:
        """Return whether its tables are there.

        Raises:
            ConversionError: it is a database of something else, or of a newer release.
        """
        ((application,),) = self._connection.execute("PRAGMA application_id")
        ((version,),) = self._connection.execute("PRAGMA user_version")
        ((tables,),) = self._connection.execute("SELECT count(*) FROM sqlite_master")
        if (application, version) == (_APPLICATION, _VERSION):
            return True
        if tables or application:
            raise ConversionError(
                f"{self._path} is no journal of conversions of this release; move it aside, or use the release that made it"
            )
        return False


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """A transaction that ``begin`` begins: whole at its end, or without effect where an exception leaves it."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def make_private(path: Path) -> None:
    """Have the folder and the file for the user alone; SQLite gives what it puts beside the file the same mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if stat.S_IMODE(path.parent.stat().st_mode) & 0o077:
        path.parent.chmod(0o700)
    # A file that is there is not opened: closing it would let go of the locks that this process has on it.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)

"""The journal as a file of SQLite's, in write-ahead mode: readers go on while the leader writes.

A transaction that is durable is on disk before its call returns. One that a kill cuts off had no effect. The file is
never replaced, moved aside or repaired here: what is wrong with it is said, and a person decides.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tidepool.journals.journal_file import BUSY_TIMEOUT_S, make_private, transaction
from tidepool.scaling.journal.database import MIGRATIONS, Row, Transaction, migrate
from tidepool.scaling.ports import JournalError

#: Files up to this size are looked through when they are opened; it takes some milliseconds.
_LOOKED_THROUGH_BYTES: Final = 32 << 20


class SqliteDatabase:
    """The file ``path``, made where there is none: 0600, in a folder that is 0700."""

    def __init__(self, path: Path, *, power_safe: bool = True) -> None:
        """Open it. Without ``power_safe``, nothing waits for the disk: for tests, and simulations.

        Raises:
            JournalError: it cannot be opened, is something else, or of a newer release.
        """
        self._path = path
        self.where = str(path)
        self._power_safe = power_safe
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] = (0, 0)
        with self._lock:
            self._opened()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._transaction("BEGIN") as statements:
            yield statements

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Transaction]:
        with self._transaction("BEGIN IMMEDIATE", synchronous=durable) as statements:
            yield statements

    def now_us(self) -> None:
        """Both daemons that share a file share a clock."""

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    @contextmanager
    def _transaction(self, begin: str, *, synchronous: bool = False) -> Iterator[Transaction]:
        with self._lock:
            try:
                connection = self._opened()
                full = synchronous and self._power_safe
                connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                with transaction(connection, begin):
                    yield _Statements(connection)
            except sqlite3.Error as error:
                self._disconnect()
                raise self._said(error) from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None:
            # Who writes into a file that was deleted keeps nothing, and another daemon would not see its lease.
            if _identity(self._path) == self._file:
                return self._connection
            self._disconnect()
            raise JournalError(
                f"the journal {self._path} was moved away or replaced while it was in use; put it back, or leave it so: "
                "then it begins anew"
            )
        try:
            make_private(self._path)
        except OSError as error:
            raise JournalError(
                f"the journal {self._path} cannot be opened: {error.strerror or error}"
            ) from error
        try:
            connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise self._said(error) from error
        self._connection, self._file = connection, _identity(self._path)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if tables and "tidepool_journal" not in tables:
            raise JournalError(
                f"{self._path} is a database, and no journal of Tidepool's: it has the tables "
                f"{', '.join(sorted(tables)[:4])}; move it aside"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        if self._path.stat().st_size <= _LOOKED_THROUGH_BYTES:
            ((found,),) = connection.execute("PRAGMA quick_check(1)")
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        if _version(connection) == len(MIGRATIONS):
            return
        with transaction(connection, "BEGIN IMMEDIATE"):
            # Another may have made the tables meanwhile.
            migrate(_Statements(connection), _version(connection), str(self._path))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _said(self, error: sqlite3.Error) -> JournalError:
        words = " ".join(str(error).split())
        match getattr(error, "sqlite_errorname", "").partition("_")[2].partition("_")[0]:
            case "FULL":
                what, remedy = "the disk is full", "make room; the scaler holds still until then"
            case "IOERR":
                what, remedy = f"the disk fails ({words})", "see the disk and the room on it"
            case "BUSY" | "LOCKED":
                what, remedy = (
                    f"another process writes for more than {BUSY_TIMEOUT_S:g} s",
                    "see who does: fuser",
                )
            case "READONLY" | "PERM" | "CANTOPEN" | "AUTH":
                what, remedy = words, "see whose file it is, and whether its disk can be written"
            case "NOTADB" | "CORRUPT" | "":
                what = f"it is damaged, or no database ({words})"
                remedy = (
                    "put back a copy, or move it aside with its -wal and -shm: then the scaler begins from what the stack's "
                    "outputs say, and history is lost"
                )
            case _:
                what, remedy = words, "see the disk that it is on"
        return JournalError(f"the journal {self._path} cannot be used: {what}; {remedy}")


class _Statements:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, values).rowcount

    def run_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, values)


def _identity(path: Path) -> tuple[int, int]:
    try:
        seen = path.stat()
    except OSError:
        return (0, 0)
    return seen.st_dev, seen.st_ino


def _version(connection: sqlite3.Connection) -> int:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'tidepool_journal'").fetchall():
        return 0
    rows = connection.execute("SELECT version FROM tidepool_journal").fetchall()
    if len(rows) != 1:
        raise sqlite3.DatabaseError("its version is missing")
    return int(rows[0][0])

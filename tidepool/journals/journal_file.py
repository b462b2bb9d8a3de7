"""A journal in a file of SQLite's: several processes, and threads, read and write it at once, and may be killed.

A transaction is whole or was not. What is written durably is on the disk before its call returns; the rest survives a kill,
and only after a power cut may be that of a moment before.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

#: How long one waits for another process that writes.
BUSY_TIMEOUT_S: Final = 5.0
_AGAIN_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a kind of journal. ``application`` and ``version`` are in the file, by which it is known.

    ``title`` is what people call it, ``driven`` its table of what one process drives at a time; ``error`` is raised where it cannot be used.
    """

    title: str
    driven: str
    application: int
    version: int
    statements: str
    error: type[Exception]


class JournalFile:
    """The file ``path`` with ``tables``, made where there is none: 0600, in a folder that is 0700.

    Without ``power_safe`` nothing waits for the disk. Its methods raise the error of ``tables``.
    """

    def __init__(self, path: Path, tables: Tables, *, power_safe: bool = True) -> None:
        """Open it, which raises where it cannot be opened, or is something else."""
        self.path = path
        self._tables, self._power_safe = tables, power_safe
        self._lock = threading.RLock()
        with self._explained():
            make_private(path)
            self.connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self.connection.row_factory = sqlite3.Row
            try:
                self._prepare()
            except BaseException:
                self.connection.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read, as the only thread of this process."""
        with self._lock, self._explained():
            yield

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[None]:
        """Read and write in one transaction, as the only one of all processes."""
        with self._lock, self._explained():
            full = durable and self._power_safe
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            with transaction(self.connection, "BEGIN IMMEDIATE"):
                yield

    def close(self) -> None:
        with self._lock:
            self.connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            words = " ".join(str(error).split())
            raise self._tables.error(
                f"the {self._tables.title} {self.path} cannot be used: {words}; see the disk that it is on, and whose "
                "file it is"
            ) from error

    def _prepare(self) -> None:
        self._write_ahead()
        with transaction(self.connection, "BEGIN"):
            if self._known():
                return
        with transaction(self.connection, "BEGIN EXCLUSIVE"):
            if not self._known():
                for statement in self._tables.statements.split(";\n"):
                    self.connection.execute(statement)
                self.connection.execute(f"PRAGMA application_id = {self._tables.application}")
                self.connection.execute(f"PRAGMA user_version = {self._tables.version}")

    def _write_ahead(self) -> None:
        """In this one statement SQLite waits for nobody else: of several who open a new file, all but one are refused."""
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_S)

    def _known(self) -> bool:
        """Return whether its tables are there. Raises where it is a database of something else, or of a newer release."""
        ((application,),) = self.connection.execute("PRAGMA application_id")
        ((version,),) = self.connection.execute("PRAGMA user_version")
        ((tables,),) = self.connection.execute("SELECT count(*) FROM sqlite_master")
        if (application, version) == (self._tables.application, self._tables.version):
            return True
        if tables or application:
            raise self._tables.error(
                f"{self.path} is no {self._tables.title} of this release; move it aside, or use the release that made it"
            )
        return False


def stamp(at: datetime | None) -> str | None:
    """So that times are in the order of their texts: in UTC, with microseconds."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def moment(text: str | None) -> datetime | None:
    """Read what `stamp` wrote."""
    return None if text is None else datetime.fromisoformat(text)


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

"""Leases by which drivers hold what is in a journal: one process at a time, until its lease is over or it is known to be gone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from tidepool.journals.journal_file import JournalFile, Tables, stamp
from tidepool.journals.processes import Driven, is_dead, is_driven


class _Ends(Driven, Protocol):
    @property
    def is_under_way(self) -> bool: ...


Id = TypeVar("Id", int, str)
Entry = TypeVar("Entry", bound=_Ends)


class DrivenJournal(ABC, Generic[Id, Entry]):
    """A journal in the file ``path``, made where there is none: 0600, in a folder that is 0700.

    For several processes, and threads, at once. All may raise the error of its ``tables``. Their table of what is driven has the
    columns ``id``, ``ended``, ``driver`` and ``driver_until``.
    """

    tables: ClassVar[Tables]

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        dead: Callable[[str], bool] = is_dead,
        power_safe: bool = True,
    ) -> None:
        """Open it. ``dead`` tells drivers whose process is gone; without ``power_safe`` nothing waits for the disk."""
        self._now, self._dead = now, dead
        self._table = self.tables.driven
        self._file = JournalFile(path, self.tables, power_safe=power_safe)
        self._connection = self._file.connection

    @abstractmethod
    def _one(self, id: Id) -> Entry:
        """Return an entry, inside of a transaction; raises where there is none."""

    def take_over(self, id: Id, driver: str, now: datetime, lasting_s: float) -> bool:
        """Be the one that drives it here, until so long from now; whether one is: another that lives may be at it."""
        with self._file.writing(durable=False):
            there = self._one(id)
            if not there.is_under_way:
                return False
            if there.driver not in ("", driver) and self._is_driven(there, now):
                return False
            self._connection.execute(
                f"UPDATE {self._table} SET driver = ?, driver_until = ? WHERE id = ?",  # noqa: S608 - a name of ours
                (driver, stamp(now + timedelta(seconds=lasting_s)), id),
            )
            return True

    def let_go(self, id: Id, driver: str) -> None:
        """Drive it no more, if one did: another may at once."""
        with self._file.writing(durable=False):
            self._connection.execute(
                f"UPDATE {self._table} SET driver = '', driver_until = NULL WHERE id = ? AND driver = ? AND ended IS NULL",  # noqa: S608 - as above
                (id, driver),
            )

    def prune(self, before: datetime) -> None:
        """Forget those that ended before."""
        with self._file.writing(durable=False):
            self._connection.execute(f"DELETE FROM {self._table} WHERE ended < ?", (stamp(before),))  # noqa: S608 - as above

    def close(self) -> None:
        self._file.close()

    def _is_driven(self, there: Entry, now: datetime | None = None) -> bool:
        return is_driven(there, now or self._now(), self._dead)

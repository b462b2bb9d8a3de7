"""The runs of one machine, in a file of SQLite's: several processes read and write it at once, and may be killed.

Where a phase changes it is on the disk before its call returns. What another machine needs to go on is the copy where the
results are (`tidepool.runs.ports.Records`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.journals.driven_journal import DrivenJournal
from tidepool.journals.journal_file import Tables, moment, stamp
from tidepool.runs.ports import NotOrdered, RunError, TakenOver
from tidepool.runs.record import CANCELLABLE, Order, Run, from_json, to_json

#: `TIDR` and the version of the tables, by which the file is known.
_APPLICATION: Final = 0x54494452
_VERSION: Final = 1
_STATEMENTS: Final = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    stack TEXT NOT NULL,
    ordered TEXT NOT NULL,
    ended TEXT,
    cancel_by TEXT NOT NULL,
    driver TEXT NOT NULL,
    driver_until TEXT,
    epoch INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX one_under_way ON runs (stack) WHERE ended IS NULL;
CREATE INDEX by_order ON runs (ordered);
"""
_TABLES: Final = Tables("journal of runs", "runs", _APPLICATION, _VERSION, _STATEMENTS, RunError)


class Journal(DrivenJournal[str, Run]):
    """The runs of this machine. All may raise `RunError`."""

    tables = _TABLES

    # What is ordered

    def order(self, id: str, order: Order) -> Run:
        """Write a new one down, in phase ``checked``.

        Raises:
            NotOrdered: one of its stack is under way; says which, and what ends it.
        """
        run = Run(id, order, began=FrozenDict({"checked": order.at}))
        with self._file.writing(durable=True):
            self._refuse_second(order.stack)
            self._insert(run)
            return self._one(id)

    def adopt(self, run: Run) -> Run:
        """Have a run here that another machine began, from its copy; one that is here already, as the newer of both says.

        Raises:
            NotOrdered: another of its stack is under way here.
        """
        with self._file.writing(durable=True):
            row = self._connection.execute("SELECT * FROM runs WHERE id = ?", (run.id,)).fetchone()
            if row is None:
                self._refuse_second(run.order.stack)
                self._insert(run)
            elif run.epoch > row["epoch"]:
                self._update(run)
                self._connection.execute(
                    "UPDATE runs SET driver = ?, driver_until = ? WHERE id = ?",
                    (run.driver, stamp(run.driver_until), run.id),
                )
            return self._one(run.id)

    def cancel(self, id: str, by: str) -> Run:
        """Ask a run to end in order; a cluster that is kept after a failure goes by that.

        Raises:
            NotOrdered: there is none, or it is at its end already.
        """
        with self._file.writing(durable=True):
            there = self._one(id)
            if there.cancel_by:
                return there
            if there.phase not in (*CANCELLABLE, "kept"):
                at = "has ended" if there.phase == "done" else f"is at its end already ({there.phase})"
                raise NotOrdered(f"run {id} {at}; there is nothing to cancel")
            self._connection.execute("UPDATE runs SET cancel_by = ? WHERE id = ?", (by, id))
            return self._one(id)

    # What is known

    def run(self, id: str) -> Run:
        """One, under way or ended, as it is now."""
        with self._file.reading():
            return self._one(id)

    def runs(self, *, limit: int | None = 1000) -> Sequence[Run]:
        """The newest first: ``limit`` of them, and those that are under way, however old; with None, all."""
        with self._file.reading():
            rows = self._connection.execute(
                "SELECT * FROM runs WHERE ended IS NULL OR id IN (SELECT id FROM runs ORDER BY ordered DESC LIMIT ?) "
                "ORDER BY ordered DESC, id",
                (-1 if limit is None else limit,),
            ).fetchall()
        return tuple(self._read(row) for row in rows)

    def undriven(self, results: str) -> Sequence[Run]:
        """Return those under way with results there, of which no process here is at it that may be alive."""
        found = [run for run in self.runs(limit=0) if run.is_under_way and run.order.results == results]
        return tuple(run for run in found if not self._is_driven(run))

    # Who drives

    def write(self, run: Run) -> Run:
        """Keep it as it is now, but for ``cancel_by``, which others write; gives it with theirs.

        One that was cancelled meanwhile does not leave the phases in which it can be, but by its cancel: it stays what it was.

        Raises:
            TakenOver: its ``driver`` is no longer the one that drives it.
        """
        with self._file.reading():
            before = self._one(run.id)
        with self._file.writing(durable=before.phase != run.phase):
            there = self._one(run.id)
            if there.driver != run.driver or not there.is_under_way:
                raise TakenOver(f"run {run.id} is driven by another process")
            leaves = there.phase in CANCELLABLE and run.phase not in CANCELLABLE
            if there.cancel_by and not run.cancel_by and leaves:
                return there
            self._update(run)
            return self._one(run.id)

    # Inside of a transaction

    def _refuse_second(self, stack: str) -> None:
        row = self._connection.execute(
            "SELECT * FROM runs WHERE stack = ? AND ended IS NULL", (stack,)
        ).fetchone()
        if row is not None:
            there = self._read(row)
            raise NotOrdered(
                f"run {there.id} of stack {stack} is under way ({there.phase}); wait for its end, go on with it "
                f"(`tidepool run --resume {there.id}`), or cancel it (`tidepool run --cancel {there.id}`)"
            )

    def _insert(self, run: Run) -> None:
        self._connection.execute(
            "INSERT INTO runs (id, name, stack, ordered, ended, cancel_by, driver, driver_until, epoch, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(
                    run.id,
                    run.order.name,
                    run.order.stack,
                    stamp(run.order.at),
                    stamp(run.ended),
                    run.cancel_by,
                ),
                *(run.driver, stamp(run.driver_until), run.epoch, to_json(run)),
            ),
        )

    def _update(self, run: Run) -> None:
        self._connection.execute(
            "UPDATE runs SET ended = ?, epoch = ?, body = ? WHERE id = ?",
            (stamp(run.ended), run.epoch, to_json(run), run.id),
        )

    def _one(self, id: str) -> Run:
        row = self._connection.execute("SELECT * FROM runs WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise NotOrdered(
                f"the journal {self._file.path} has no run {id}; of another machine, the record is where its results are"
            )
        return self._read(row)

    def _read(self, row: sqlite3.Row) -> Run:
        try:
            return replace(
                from_json(row["body"]),
                cancel_by=row["cancel_by"],
                driver=row["driver"],
                driver_until=moment(row["driver_until"]),
                epoch=row["epoch"],
            )
        except ValueError as error:
            raise RunError(
                f"run {row['id']} in the journal {self._file.path} cannot be read: {error}"
            ) from error

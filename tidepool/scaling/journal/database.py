"""The contract of the journal's database: transactions. What differs between SQLite and PostgreSQL stands behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


class Transaction(Protocol):
    """Statements that take effect together. ``?`` stands for a value, as SQLite writes it."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Carry one out; the rows that it gives."""
        ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Carry one out; how many rows it changed."""
        ...

    def run_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Carry the same out for each of the values."""
        ...


class Database(Protocol):
    """One database, for one stack. Used from several threads, one after another.

    All raise `JournalError`, whose text is for a person; then nothing of the transaction took effect, unless the
    connection was lost just when it should.
    """

    @property
    def where(self) -> str:
        """Return which it is, for people: without a password."""
        ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state, however others write meanwhile."""
        ...

    def writing(self, *, durable: bool = True) -> AbstractContextManager[Transaction]:
        """A transaction that writes, one at a time. What is not ``durable`` may be lost when the machine loses power.

        It ends without effect when an exception leaves it.
        """
        ...

    def now_us(self) -> int | None:
        """The database's own clock, in microseconds since the epoch; None where it is the caller's."""
        ...

    def close(self) -> None:
        """Let go of it. Twice is no mistake."""
        ...

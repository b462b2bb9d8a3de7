"""The journal's database: the contract of its transactions, its tables, and how they came to be: migrations, forward only.

What differs between SQLite and PostgreSQL stands behind `Database`. Times are whole microseconds since the epoch (``*_us``).
``body`` and the like are values as `codec` writes them; what is searched for stands in columns of its own. A migration is
never changed once it was released: add another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from tidepool.scaling.ports import JournalError

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


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EARLIEST_US: Final = -(1 << 62)

_FIRST: Final = """
CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counter VALUES ('decision', 0);
INSERT INTO counter VALUES ('intent', 0);

-- One row, so that whoever changes it waits for whoever does.
CREATE TABLE lease (
    id BIGINT PRIMARY KEY, holder TEXT NOT NULL, epoch BIGINT NOT NULL, until_us BIGINT NOT NULL, is_held BIGINT NOT NULL
);
INSERT INTO lease VALUES (1, '', 0, 0, 0);

CREATE TABLE kept (id BIGINT PRIMARY KEY, body BYTEA NOT NULL);
CREATE TABLE pause (id BIGINT PRIMARY KEY, body BYTEA NOT NULL);

CREATE TABLE decision (
    id BIGINT PRIMARY KEY, epoch BIGINT NOT NULL, at_us BIGINT NOT NULL, body BYTEA NOT NULL, world BYTEA, memory BYTEA
);
CREATE INDEX decision_at ON decision (at_us);

-- Without a result, it is open.
CREATE TABLE intent (
    id BIGINT PRIMARY KEY, decision BIGINT NOT NULL, epoch BIGINT NOT NULL, at_us BIGINT NOT NULL, fleet TEXT NOT NULL,
    result TEXT NOT NULL, ended_us BIGINT, action BYTEA NOT NULL, text BYTEA NOT NULL
);
CREATE INDEX intent_at ON intent (at_us);
CREATE INDEX intent_open ON intent (id) WHERE result = '';
CREATE TABLE intent_node (node TEXT NOT NULL, intent BIGINT NOT NULL, PRIMARY KEY (node, intent));
CREATE INDEX intent_node_intent ON intent_node (intent);

CREATE TABLE sample (at_us BIGINT PRIMARY KEY, body BYTEA NOT NULL);

-- Numbers of jobs come again when slurmctld loses its state.
CREATE TABLE job (
    job_id BIGINT NOT NULL, submitted_us BIGINT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (job_id, submitted_us)
);
CREATE INDEX job_submitted ON job (submitted_us);
"""

_LAUNCHES: Final = """
CREATE TABLE launch (node TEXT NOT NULL, asked_us BIGINT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (node, asked_us));
CREATE INDEX launch_asked ON launch (asked_us);
"""

MIGRATIONS: Final[tuple[str, ...]] = (_FIRST, _LAUNCHES)


def migrate(transaction: Transaction, version: int, where: str) -> None:
    """Bring the tables from ``version`` (0: none are there) to this release's.

    Raises:
        JournalError: a newer release wrote them.
    """
    if version > len(MIGRATIONS):
        raise JournalError(
            f"the journal {where} was written by a newer release of Tidepool (schema {version}; this one knows "
            f"{len(MIGRATIONS)}); run that release, or move the journal aside"
        )
    for migration in MIGRATIONS[version:]:
        for statement in filter(str.strip, migration.split(";\n")):
            transaction.change(statement)
    if version == 0:
        transaction.change("CREATE TABLE tidepool_journal (version BIGINT NOT NULL)")
        transaction.change("INSERT INTO tidepool_journal VALUES (0)")
    if version < len(MIGRATIONS):
        transaction.change("UPDATE tidepool_journal SET version = ?", [len(MIGRATIONS)])


# Statements, and values as columns take them


def next_numbers(sql: Transaction, name: str, amount: int = 1) -> int:
    """Return the first of ``amount`` numbers that were never given out."""
    ((last,),) = sql.run(
        "UPDATE counter SET value = value + ? WHERE name = ? RETURNING value", [amount, name]
    )
    return int(last) - amount + 1


def kept_rows(sql: Transaction, *rows: int) -> dict[int, bytes]:
    """Return the bodies of these rows of `kept`, as far as they are there."""
    return dict(
        sql.run(f"SELECT id, body FROM kept WHERE id IN ({', '.join('?' for _ in rows)})", rows)  # noqa: S608
    )


def put_kept(sql: Transaction, row: int, body: bytes) -> None:
    """Write a row of `kept`, in place of what was there."""
    sql.change(
        "INSERT INTO kept (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        [row, body],
    )


def as_key(text: str) -> str:
    """Return ``text`` as a column takes it, whatever is in it."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def to_us(moment: datetime) -> int:
    """Return a time as a column has it.

    Raises:
        ValueError: it has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; say which")
    return (moment - EPOCH) // _MICROSECOND


def since_us(moment: datetime | None) -> int:
    """Return where a search by time begins; None: with the oldest."""
    return _EARLIEST_US if moment is None else to_us(moment)


def from_us(us: int) -> datetime:
    """Read what `to_us` wrote."""
    return EPOCH + timedelta(microseconds=us)

"""The journal in PostgreSQL, where daemons on several machines stand by for one stack.

Each stack has a schema of its own. A lost connection is made again by the next call. Whatever hangs has a time-out,
and a daemon that is stopped in the middle of a transaction loses it, so that it keeps nobody out.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from tidepool.engine.state.postgres import cut_in_time
from tidepool.scaling.journal.database import MIGRATIONS, Row, Transaction, migrate
from tidepool.scaling.ports import JournalError

CONNECT_TIMEOUT_S: Final = 5
#: For a whole transaction. Only a server that hangs takes so long: the time-outs below are its own.
ANSWER_TIMEOUT_S: Final = 20.0
_STATEMENT_TIMEOUT_S: Final = 10
_LOCK_TIMEOUT_S: Final = 5
#: A transaction of ours is milliseconds long.
_IDLE_IN_TRANSACTION_TIMEOUT_S: Final = 10
#: PostgreSQL cuts longer names off.
_LONGEST_NAME: Final = 63


class PostgresDatabase:
    """The database ``url``, in the schema of ``stack``, which is made where it is missing."""

    def __init__(
        self, url: str, stack: str, *, has_own_clock: bool = True, answer_timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        """Open it. Without ``has_own_clock``, time is what callers say it is: for tests.

        Raises:
            JournalError: it cannot be reached, or is of a newer release.
        """
        self._url = url
        self._has_own_clock = has_own_clock
        self._answer_timeout_s = answer_timeout_s
        self._schema = schema_name(stack)
        try:
            said = conninfo_to_dict(url)
        except psycopg.Error:
            # What libpq says of it repeats it, with its password.
            raise JournalError(
                "the address of the journal's database cannot be read; write postgresql://USER@HOST/DATABASE"
            ) from None
        self._password = str(said.get("password") or "")
        place = f"{said.get('host') or 'localhost'}:{said.get('port') or 5432}/{said.get('dbname') or ''}"
        self.where = f"postgresql://{place}, schema {self._schema}"
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Row] | None = None
        with self._lock, self._errors_described():
            self._opened()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as statements:
            yield statements

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Transaction]:
        with self._transaction("BEGIN") as statements:
            if not durable:
                statements.change("SET LOCAL synchronous_commit = off")
            yield statements

    def now_us(self) -> int | None:
        if not self._has_own_clock:
            return None
        with self._lock, self._errors_described():
            # Not the beginning of the transaction: it may have waited for another since.
            ((now_us,),) = self._opened().execute(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            )
        return int(now_us)

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with self._lock, self._errors_described():
            asked = time.monotonic()
            try:
                connection = self._begun(begin)
            except psycopg.OperationalError:
                self._disconnect()
                if time.monotonic() - asked >= self._answer_timeout_s:
                    raise
                # It was cut since the last call, and nothing was done by this one.
                connection = self._begun(begin)
            with cut_in_time(connection, self._answer_timeout_s):
                try:
                    yield _Statements(connection)
                except BaseException:
                    self._roll_back(connection)
                    raise
                connection.execute("COMMIT")

    def _begun(self, begin: str) -> psycopg.Connection[Row]:
        connection = self._opened()
        with cut_in_time(connection, self._answer_timeout_s):
            connection.execute(begin)
        return connection

    def _roll_back(self, connection: psycopg.Connection[Row]) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self._disconnect()  # the server does it, as the connection is gone

    def _opened(self) -> psycopg.Connection[Row]:
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(
                self._url,
                # We say where transactions begin and end.
                autocommit=True,
                # A connection through a pooler may meet another server's process with each transaction.
                prepare_threshold=None,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name="tidepool",
                options=f"-c statement_timeout={_STATEMENT_TIMEOUT_S}s -c lock_timeout={_LOCK_TIMEOUT_S}s "
                f"-c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_TIMEOUT_S}s "
                f"-c client_encoding=UTF8 -c client_min_messages=warning -c search_path={self._schema}",
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=10_000,
            )
            try:
                with cut_in_time(connection, self._answer_timeout_s):
                    self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: psycopg.Connection[Row]) -> None:
        if self._version(connection) == len(MIGRATIONS):
            return
        with connection.transaction():
            statements = _Statements(connection)
            # Two daemons may find it empty at the same time.
            statements.run("SELECT pg_advisory_xact_lock(hashtext(?))", [self._schema])
            statements.change(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
            migrate(statements, self._version(connection), self.where)

    def _version(self, connection: psycopg.Connection[Row]) -> int:
        statements = _Statements(connection)
        if statements.run("SELECT to_regclass(?) IS NULL", [f"{self._schema}.tidepool_journal"]) == [(True,)]:
            return 0
        ((version,),) = statements.run("SELECT version FROM tidepool_journal")
        return int(version)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _errors_described(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if self._connection is not None and self._connection.closed:
                self._disconnect()
            # The cause is not told along: it may hold the password.
            raise JournalError(self._said(error)) from None

    def _said(self, error: psycopg.Error) -> str:
        words = " ".join(str(error).split()) or type(error).__name__
        if self._password:
            words = words.replace(self._password, "***")
        match error:
            case errors.QueryCanceled() | errors.LockNotAvailable():
                remedy = "another holds it, or it has too much to do; see pg_stat_activity"
            case errors.DiskFull():
                remedy = "its disk is full; make room"
            case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
                remedy = f"let the user create and write the schema {self._schema}"
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                remedy = "a table of it is missing; put back a copy, or drop the schema: then it begins anew"
            case psycopg.OperationalError():
                remedy = (
                    "see whether the server runs and lets this machine in; the scaler holds still until then"
                )
            case _:
                remedy = "see the server's log"
        return f"the journal {self.where} cannot be used: {words}; {remedy}"


class _Statements:
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._cursor = connection.cursor()

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._cursor.execute(_translated(statement), values or None).fetchall()

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._cursor.execute(_translated(statement), values or None).rowcount

    def run_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        self._cursor.executemany(_translated(statement), values)


def schema_name(stack: str) -> str:
    """The schema of a stack: its name in small letters where that says it, else with a digest of it."""
    plain = re.sub(r"[^a-z0-9_]", "_", stack.lower())
    name = f"tidepool_{plain}"
    if plain == stack and len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}_{hashlib.sha256(stack.encode()).hexdigest()[:8]}"


def _translated(statement: str) -> str:
    """``?`` is ``%s`` there. All statements are the journal's own."""
    return statement.replace("?", "%s")

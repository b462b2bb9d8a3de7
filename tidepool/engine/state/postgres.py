"""State in a table of PostgreSQL: ``postgres://USER@HOST/DATABASE?table=pulumi_state``, as the Pulumi CLI has it.

The table's form and the keys in it, which begin with the database's name, are those of
``pkg/backend/diy/postgres`` and ``backend.go``.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors, sql

from tidepool.engine.errors import UsageError
from tidepool.engine.state.bucket import require_no_password, without_credentials
from tidepool.engine.state.files import ContentDamaged, StorageError
from tidepool.engine.state.objects import ObjectBucket

_TABLE: Final = "pulumi_state"
_CONNECT_TIMEOUT_S: Final = 5
_ANSWER_TIMEOUT_S: Final = 25.0
#: Between tries of a server that is away: a restart of it is outlived. None begins after so long, so that one that hangs is given up
#: after all three, 40 s (docs/administrators.md).
_PAUSES_S: Final = (0.1, 0.5, 2.0, 5.0)
_TRIED_FOR_S: Final = 10.0
_PASSWORD: Final = "PGPASSWORD or ~/.pgpass"  # noqa: S105

_MAKE: Final = (
    """CREATE TABLE IF NOT EXISTS {table} (
    key TEXT PRIMARY KEY, data JSON NOT NULL, updated_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now())""",
    "CREATE INDEX IF NOT EXISTS {index} ON {table} (key text_pattern_ops)",
)
_PUT: Final = "INSERT INTO {table} (key, data) VALUES (%s, %s) ON CONFLICT (key) DO "
_COPY: Final = (
    "INSERT INTO {table} (key, data) SELECT %s, data FROM {table} WHERE key = %s ON CONFLICT (key) DO "
)
_REPLACE: Final = "UPDATE SET data = excluded.data, updated_at = now()"


class PostgresBucket(ObjectBucket):
    """The table that a URL names. It is made by the first write, where it is missing."""

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        """Open it; the server is asked at the first use.

        Raises:
            UsageError: when the URL is not right, or has a password in it.
        """
        parts = urlsplit(url)
        said = dict(parse_qsl(parts.query, keep_blank_values=True))
        require_no_password(url, parts.password or said.get("password"), _PASSWORD)
        self._table = said.pop("table", "") or _TABLE
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", self._table):
            raise UsageError(
                f"the backend {without_credentials(url)}: table={self._table!r} is no name of a table; "
                "letters, digits and _ are allowed"
            )
        # As the CLI's library has it; no password goes over a line that others read. Sockets of this machine have no TLS.
        said.setdefault("sslmode", env.get("PGSSLMODE") or "require")
        self._url = urlunsplit(parts._replace(query=urlencode(said)))
        self._given = {
            name: env[variable]
            for variable, name in (("PGPASSWORD", "password"), ("PGPASSFILE", "passfile"))
            if env.get(variable)
        }
        folder = unquote(parts.path).strip("/")
        self.folder = f"{folder}/" if folder else ""
        self._where = f"postgres://{without_credentials(url).removeprefix('postgres://').rstrip('/')}"
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self._disconnect()

    def location(self, key: Path) -> str:
        return f"{self._where}/{'/'.join(key.parts)}"

    def get(self, key: Path) -> bytes:
        rows = self._rows("SELECT data->>'data' FROM {table} WHERE key = %s", [self.name(key)], key)
        if not rows:
            raise FileNotFoundError(self.location(key))
        try:
            return base64.b64decode(rows[0][0] or "", validate=True)
        except ValueError as error:
            raise ContentDamaged(f"{self.location(key)} is damaged: {error}") from error

    def put(self, key: Path, content: bytes, *, new: bool = False) -> bool:
        data = json.dumps({"data": base64.b64encode(content).decode()})
        statement = _PUT + ("NOTHING" if new else _REPLACE)
        return self._change(statement, [self.name(key), data], key) == 1

    def delete(self, keys: Sequence[Path]) -> None:
        if keys:
            names = [self.name(key) for key in keys]
            self._change("DELETE FROM {table} WHERE key = ANY(%s)", [names], keys[0])

    def copy(self, key: Path, target: Path) -> bool:
        return self._change(_COPY + _REPLACE, [self.name(target), self.name(key)], key) == 1

    def folders(self, folder: Path) -> list[str]:
        return sorted({rest.partition("/")[0] for _, rest in self._below(folder, "") if "/" in rest})

    def dated(self, folder: Path, prefix: str = "") -> list[tuple[int, str]]:
        return [found for found in self._below(folder, prefix) if "/" not in found[1]]

    def _below(self, folder: Path, prefix: str) -> list[tuple[int, str]]:
        above = self.above(folder)
        rows = self._rows(
            "SELECT (extract(epoch FROM updated_at) * 1000000)::bigint, key FROM {table} "
            "WHERE starts_with(key, %s) ORDER BY key",
            [above + prefix],
            folder,
        )
        return [(int(when_us) * 1000, str(key).removeprefix(above)) for when_us, key in rows]

    def _rows(self, statement: str, values: Sequence[Any], key: Path) -> list[tuple[Any, ...]]:
        with self._explained("read", key):
            try:
                return self._done(statement, values).fetchall()
            except errors.UndefinedTable:
                return []

    def _change(self, statement: str, values: Sequence[Any], key: Path) -> int:
        with self._explained("written", key):
            try:
                return self._done(statement, values).rowcount
            except errors.UndefinedTable:
                self._make_table()
                return self._done(statement, values).rowcount

    def _make_table(self) -> None:
        for statement in _MAKE:
            try:
                self._done(statement, ())
            except (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject):
                continue  # another made it at the same time

    def _done(self, statement: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        """Do a statement, again where the connection is lost: each comes to the same when it is done twice."""
        text = sql.SQL(statement).format(
            table=sql.SQL(self._table),  # as the CLI has it: in small letters, whatever the URL says
            index=sql.SQL(f"{self._table}_key_prefix_idx"),
        )
        with self._lock:
            until = time.monotonic() + _TRIED_FOR_S
            for pause_s in (*_PAUSES_S, None):
                try:
                    connection = self._opened()
                    with cut_in_time(connection, _ANSWER_TIMEOUT_S):
                        return connection.execute(text, values or None)
                except psycopg.OperationalError as error:
                    self._disconnect()
                    if pause_s is None or isinstance(error, errors.QueryCanceled) or _is_refused(error):
                        raise
                    if time.monotonic() + pause_s >= until:
                        raise
                    time.sleep(pause_s)
        raise AssertionError("the last try is returned or raised")

    def _opened(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=_CONNECT_TIMEOUT_S,
                application_name="tidepool",
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=10_000,
                **self._given,  # type: ignore[arg-type]
            )
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _explained(self, done: str, key: Path) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            # The cause is not told along: it may hold the password.
            words = " ".join(str(error).split()) or type(error).__name__
            if password := self._given.get("password"):
                words = words.replace(password, "***")
            raise StorageError(
                f"{self.location(key)} cannot be {done}: {words}; {self._remedy(error, words)}"
            ) from None

    def _remedy(self, error: psycopg.Error, words: str) -> str:
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return f"let the user create and write the table {self._table}"
        if isinstance(error, errors.DiskFull):
            return "its disk is full; make room"
        if "password" in words or "role" in words:
            return f"name a user that may, in the URL, and give the password by {_PASSWORD}"
        if "SSL" in words:
            return "have the server speak TLS, or say in the URL that it need not: sslmode=prefer"
        return "see whether the server runs and lets this machine in, and run the command again"


def _is_refused(error: psycopg.OperationalError) -> bool:
    """Tell whether a server answered, and another try would be answered the same."""
    words = str(error)
    return any(
        said in words
        for said in ("authentication failed", "no password", "does not exist", "SSL was required")
    )


@contextmanager
def cut_in_time(connection: psycopg.Connection[Any], timeout_s: float) -> Iterator[None]:
    """Hang up on a server that does not answer within ``timeout_s``, which fails what waits for it."""
    timer = threading.Timer(timeout_s, _hang_up, [connection])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _hang_up(connection: psycopg.Connection[Any]) -> None:
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

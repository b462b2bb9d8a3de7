"""Journals of both kinds, each empty at first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Postgres, postgres  # noqa: F401 - a fixture
from tidepool.scaling.journal.database import Database
from tidepool.scaling.journal.journal import SqlJournal
from tidepool.scaling.journal.postgres import PostgresDatabase, schema_name
from tidepool.scaling.journal.sqlite import SqliteDatabase

_numbers = itertools.count(1)


@dataclass
class JournalLocation:
    """Where one journal is; each `open` is another process's, as far as the database can tell."""

    path: Path | None = None
    postgres: Postgres | None = None
    stack: str = ""
    opened: list[Database] = field(default_factory=list)

    def database(self) -> Database:
        made: Database
        if self.postgres is None:
            assert self.path is not None
            made = SqliteDatabase(self.path, power_safe=False)
        else:
            made = PostgresDatabase(self.postgres.url, self.stack, has_own_clock=False)
        self.opened.append(made)
        return made

    def open(self, **more: int) -> SqlJournal:
        return SqlJournal(self.database(), **more)


@pytest.fixture
def in_postgres(postgres: Postgres) -> Iterator[JournalLocation]:  # noqa: F811
    location = JournalLocation(postgres=postgres, stack=f"test_{next(_numbers)}")
    yield location
    for database in location.opened:
        database.close()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema_name(location.stack)} CASCADE".encode())


@pytest.fixture
def in_file(tmp_path: Path) -> Iterator[JournalLocation]:
    location = JournalLocation(path=tmp_path / "scaler" / "journal.sqlite")
    yield location
    for database in location.opened:
        database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest) -> JournalLocation:
    """An empty journal in either."""
    found: JournalLocation = request.getfixturevalue(
        "in_file" if request.param == "sqlite" else "in_postgres"
    )
    return found


@pytest.fixture
def journal(location: JournalLocation) -> SqlJournal:
    return location.open()

"""Places where state is kept, for tests of all of them: a folder, a bucket of a real S3 server, a table of a real PostgreSQL."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.faulty_line import FaultyLine, faulty_line
from tests.objectstore import ObjectStore
from tests.postgres import Postgres
from tests.toolchain import needs_objectstore
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.bucket import Bucket
from tidepool.engine.state.location import open_bucket

S3: Final = pytest.param("s3", marks=[pytest.mark.slow, needs_objectstore])
SHARED: Final = [S3, "postgres"]

_numbers = count(1)


@dataclass(frozen=True)
class Place:
    """A backend's URL, and the variables by which its server lets one in."""

    url: str
    env: dict[str, str] = field(default_factory=dict)
    #: The same through a line that fails; where there is a server.
    line: Callable[[], AbstractContextManager[FaultyLine]] | None = None
    through: Callable[[int], str] | None = None
    stop: Callable[[], None] | None = None
    start: Callable[[], None] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a command is told of it."""
        return {"PULUMI_BACKEND_URL": self.url, **self.env}

    def within(self, name: str) -> dict[str, str]:
        """As ``environment``, of a place beside it."""
        parts = urlsplit(self.url)
        if parts.scheme == "s3":
            return {**self.env, "PULUMI_BACKEND_URL": urlunsplit(parts._replace(path=f"{parts.path}/{name}"))}
        return {**self.env, "PULUMI_BACKEND_URL": f"{self.url}_{name}"}  # the table, which stands last

    def bucket(self, url: str = "") -> Bucket:
        """Open it as another process would."""
        return open_bucket(url or self.url, Path("/"), Path("/"), self.env)

    def backend(self) -> DiyBackend:
        """A backend in it."""
        return DiyBackend.from_url(self.url, Path("/"), Path("/"), self.env)


@pytest.fixture
def in_folder(tmp_path: Path) -> Place:
    """A folder of this machine."""
    (tmp_path / "state").mkdir()
    return Place((tmp_path / "state").as_uri())


@pytest.fixture
def in_s3(objectstore: ObjectStore) -> Place:
    """An empty folder of a bucket."""
    folder = f"folder-{next(_numbers)}/of it"
    return Place(
        objectstore.url(folder),
        objectstore.environment,
        lambda: faulty_line(
            ("127.0.0.1", objectstore.port), socket.AF_INET, (b"GET", b"PUT", b"POST", b"DELETE", b"HEAD")
        ),
        lambda port: objectstore.url(folder, port),
        objectstore.stop,
        objectstore.start,
    )


@pytest.fixture
def in_postgres(postgres: Postgres) -> Place:
    """A table that nobody has made yet."""
    table = f"state_{next(_numbers)}"
    return Place(
        f"postgres://tidepool@/postgres?host={postgres.folder}/socket&sslmode=disable&table={table}",
        {},
        # A statement begins so: it is parsed, bound and carried out in one; or it is a simple one.
        lambda: faulty_line(f"{postgres.folder}/socket/.s.PGSQL.5432", socket.AF_UNIX, (b"P", b"Q")),
        lambda port: f"postgres://tidepool@127.0.0.1:{port}/postgres?sslmode=disable&table={table}",
        postgres.stop,
        postgres.start,
    )


@pytest.fixture(params=["folder", *SHARED])
def place(request: pytest.FixtureRequest) -> Place:
    """Each of them, empty."""
    found: Place = request.getfixturevalue(f"in_{request.param}")
    return found


@pytest.fixture(params=SHARED)
def shared(request: pytest.FixtureRequest) -> Place:
    """Each that machines share, empty."""
    found: Place = request.getfixturevalue(f"in_{request.param}")
    return found

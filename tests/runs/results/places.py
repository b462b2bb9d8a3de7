"""Places of results, for tests of all of them: a folder, and a bucket of a real S3 server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.objectstore import ObjectStore, objectstore
from tests.toolchain import needs_objectstore
from tidepool.runs.results import open_store
from tidepool.runs.results.store import Store

__all__ = ["objectstore"]

_numbers: Final = count(1)


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.slow, needs_objectstore])])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Open the same place once more, as another process would."""
    if request.param == "folder":
        folder = tmp_path / "results"
        folder.mkdir()
        return lambda: open_store(folder.as_uri(), {})
    server: ObjectStore = request.getfixturevalue("objectstore")
    url = server.url(f"results-{next(_numbers)}/of it")
    return lambda: open_store(url, server.environment)


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Iterator[Store]:
    opened = reopen()
    yield opened
    opened.close()

"""A cluster for each module of tests, made by the provider and gone without a trace when the module is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import golden_store
from tests.infrastructures.local.needs import needs_machines
from tests.provider.stack import Stack, fleet


@pytest.fixture(scope="session")
def images() -> Path:
    """The store with the golden image, which the tests of all parts share."""
    return golden_store()


@pytest.fixture(scope="module")
def stack(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with nothing in it. Skips where this machine cannot make machines."""
    root = tmp_path_factory.mktemp("stack")
    needs_machines(root / "data")
    made = Stack(root, images)
    made.init()
    made.want(fleet(), nodes={"cpu": 2})
    try:
        yield made
        made.end_jobs()
        made.done("destroy")
        assert made.left() == []
    finally:
        made.remove()

"""Clusters of the tests; what one leaves behind fails whoever made it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.golden import golden_store
from tests.infrastructures.local.needs import lacking
from tests.infrastructures.local.stacks import Stack, left_of
from tests.whole.cluster import Cluster


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of images, with the golden one in it. Skips where this machine cannot make machines."""
    if lacks := lacking():
        pytest.skip(lacks)
    return golden_store()


@contextmanager
def a_cluster(folder: Path, images: Path, *, config: Any = None, **changes: Any) -> Iterator[Cluster]:
    """A cluster that is up, with nothing left of it afterwards; ``config`` is more of its stack's configuration."""
    cluster = Cluster.make(folder, images, f"t{uuid.uuid4().hex[:8]}", **changes)
    cluster.config = dict(config or {})
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
    assert left_of(Stack(cluster.data, cluster.stack, images)) == []


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for the tests of a module: two nodes, and room for more."""
    with a_cluster(tmp_path_factory.mktemp("cluster"), images) as it:
        yield it


@pytest.fixture
def another(images: Path, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """More of them, for one test."""
    with ExitStack() as stack:
        numbers = iter(range(100))
        yield lambda **changes: stack.enter_context(
            a_cluster(tmp_path / str(next(numbers)), images, **changes)
        )

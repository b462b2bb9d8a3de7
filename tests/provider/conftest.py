"""A cluster for each module of tests, made by the provider and gone without a trace when the module is over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.stack import Stack, fleet
from tidepool.images import default_folder
from tidepool.local import preflight


@pytest.fixture(scope="session")
def images() -> Path:
    """The store of images, which the first test fills; TIDEPOOL_IMAGES, else a person's own."""
    return Path(os.environ.get("TIDEPOOL_IMAGES") or default_folder(os.environ)).absolute()


@pytest.fixture(scope="module")
def stack(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with nothing in it. Skips where this machine cannot make machines."""
    root = tmp_path_factory.mktemp("stack")
    if lacks := [str(lack) for lack in preflight(root / "data") if lack.fatal]:
        pytest.skip("; ".join(lacks))
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

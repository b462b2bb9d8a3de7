"""A control plane for each module of tests, made by components, and gone without a trace when the module is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import golden_store
from tests.infrastructures.local.needs import needs_machines
from tests.provider.control_plane.kubernetes import ControlPlaneStack
from tests.toolchain import kubernetes_tools


@pytest.fixture(scope="session")
def images() -> Path:
    """The store with the golden image, which the tests of all parts share."""
    return golden_store()


@pytest.fixture(scope="module")
def stack(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlaneStack]:
    """A stack with nothing in it. Skips where there are no machines, or no Kubernetes is built."""
    tools = kubernetes_tools()
    root = tmp_path_factory.mktemp("kube")
    needs_machines(root / "data")
    made = ControlPlaneStack(root, images)
    made.init()
    made.want_control_plane(tools.folder)
    try:
        yield made
        made.done("destroy")
        assert made.left() == []
    finally:
        made.remove()

"""A data folder, an image and a stack for each test; what a test leaves behind fails it."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infrastructures.local.needs import needs_machines
from tests.infrastructures.local.stacks import Stack, left_of


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a session: init is compiled once. Skips where this machine cannot make machines."""
    folder = tmp_path_factory.mktemp("data")
    needs_machines(folder)
    yield folder
    assert [each.name for each in folder.iterdir() if not each.name.startswith("init")] == []


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bones of a Debian root; machines get the host's /usr besides, so nothing has to be downloaded."""
    root = tmp_path_factory.mktemp("image")
    root.chmod(0o755)
    for name in ("etc", "proc", "root", "run", "sys", "tmp", "usr", "var"):
        (root / name).mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    # A link that leads to the host's folder, when whoever puts the root together follows it from outside.
    (root / "var" / "run").symlink_to("/run")
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nsmith:x:1234:1234::/:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\nsmith:x:1234:\nvideo:x:44:smith\n")
    (root / "etc" / "hosts").write_text("192.0.2.1 of-the-image\n")
    shutil.copy("/etc/ld.so.cache", root / "etc")
    (root / "etc" / "nsswitch.conf").write_text("hosts: files\n")
    return root


@pytest.fixture
def stack(data: Path, image: Path) -> Iterator[Stack]:
    """A stack of the test's own, with a network; nothing of it is left when the test is over."""
    yield from _stack(data, image)


@pytest.fixture
def other_stack(data: Path, image: Path) -> Iterator[Stack]:
    """Another department's stack on the same machine."""
    yield from _stack(data, image)


def _stack(data: Path, image: Path) -> Iterator[Stack]:
    descriptors = _open_descriptors()
    stack = Stack(data, f"t{uuid.uuid4().hex[:8]}", image)
    try:
        yield stack
    finally:
        stack.delete_all()
    assert left_of(stack) == []
    assert _open_descriptors() <= descriptors


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())

"""The stack that tests begin with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from .stacks import MANY, Stack


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project and backend with the empty stack ``dev``; deriving its key takes a moment."""
    root = tmp_path_factory.mktemp("template")
    stack = Stack(root).make()
    ran = stack.run("stack", "init", "dev")
    assert ran.code == 0, ran.text
    return root


@pytest.fixture
def make_stack(template: Path, tmp_path: Path) -> Callable[..., Stack]:
    """Makes stacks that nobody has deployed to."""

    def make(program: str = MANY, root: Path | None = None) -> Stack:
        root = root or tmp_path / "stack"
        for folder in ("backend", "project", "home"):
            shutil.copytree(template / folder, root / folder)
        return Stack(root).make(program)

    return make


@pytest.fixture
def stack(make_stack: Callable[..., Stack]) -> Stack:
    """A stack that nobody has deployed to."""
    return make_stack()

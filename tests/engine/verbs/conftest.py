from __future__ import annotations

from pathlib import Path

import pytest

from verbs.worlds import Folder, make_folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty project."""
    return make_folder(tmp_path)


@pytest.fixture
def stack(folder: Folder) -> Folder:
    """A project with the stack ``dev``, which is selected."""
    folder.ok("stack", "init", "dev")
    return folder

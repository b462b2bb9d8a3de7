from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.verbs.worlds import Folder, make_folder


@pytest.fixture(autouse=True)
def cheap_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deriving a real key takes 0.3 s; that it is the CLI's key is what the tests of the state show."""
    monkeypatch.setattr("tidepool.engine.state.secrets._ITERATIONS", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty project."""
    return make_folder(tmp_path)


@pytest.fixture
def stack(folder: Folder) -> Folder:
    """A project with the stack ``dev``, which is selected."""
    folder.ok("stack", "init", "dev")
    return folder

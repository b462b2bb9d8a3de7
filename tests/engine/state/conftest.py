from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.state import recordings
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.folder import Folder
from tidepool.engine.state.secrets import PassphraseCrypter


@pytest.fixture
def backend(tmp_path: Path) -> DiyBackend:
    """An empty backend."""
    return DiyBackend(Folder(tmp_path))


@pytest.fixture(scope="session")
def salts() -> dict[str, str]:
    """The salt of each recorded stack."""
    found = {}
    for stack in recordings.STACKS:
        document = json.loads(recordings.file_of(stack).read_text(encoding="utf-8"))
        found[stack] = document["checkpoint"]["latest"]["secrets_providers"]["state"]["salt"]
    return found


@pytest.fixture(scope="session")  # a key takes most of a second to derive
def crypters(salts: dict[str, str]) -> dict[str, PassphraseCrypter]:
    """A crypter for each recorded stack; keys are derived when they are needed."""
    return {stack: PassphraseCrypter(recordings.PASSPHRASE, salt) for stack, salt in salts.items()}

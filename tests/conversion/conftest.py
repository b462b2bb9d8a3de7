from __future__ import annotations

from pathlib import Path

import pytest

from tests.conversion.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.at = lambda _: world.check()
    return world

"""Order in which tests are handed to the processes that run them, and which of them share one.

Tests of a file that share what is slow to make (a fixture of a module, package or session) are a group, which one process
runs. All others are handed out one by one, so that no process idles while another has a long file before it.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

_SHARED_SCOPES = frozenset({"module", "package", "session"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--shuffle``."""
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="run tests in an order drawn by this seed, those of groups too",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests their groups, and begin with the groups, which take longest."""
    groups = {item: item.nodeid.partition("::")[0] for item in items if _shares_a_fixture(item)}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    seed: int | None = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)
    items.sort(key=lambda item: item not in groups)


def _shares_a_fixture(item: pytest.Item) -> bool:
    fixtures: Any = getattr(item, "_fixtureinfo", None)
    if fixtures is None:
        return False
    return any(
        each.baseid.startswith("tests") and each.scope in _SHARED_SCOPES
        for definitions in fixtures.name2fixturedefs.values()
        for each in definitions
    )

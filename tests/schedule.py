"""Order in which tests are handed to the processes that run them, and which of them share one.

Tests of a file that share what is slow to make, a fixture of a module, package or session, are handed to one process
together, and first, for they take longest. All others are handed out one by one, so that none waits behind a long file.

Those that emulate machines are handed to one process, all of them, before any other. An emulated machine takes a processor also
while it waits, so of two at a time each takes more of them than both one after the other.

pytest-xdist's own groups are marks, which it writes into node ids, and pytest 9.2 has those no more: so the files are told
apart by their texts, as the process that hands them out does not collect them.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT: Final = Path(__file__).parents[1]
_SHARED: Final = re.compile(r'@pytest\.fixture\([^)]*scope="(?:module|package|session)"[^)]*\)\ndef (\w+)')
_EMULATED: Final = re.compile(r"\b(?:SOFTWARE|until_booted)\b")


class FilesThatShare(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Hands out the tests of a file that share a fixture together, all others one by one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if emulates(file):
            return "emulated machines"
        return file if shares(file) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesThatShare:
    """Have pytest-xdist hand out tests as above."""
    return FilesThatShare(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--shuffle``."""
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="run tests in an order drawn by this seed, those of files too",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with tests that emulate machines, and go on with the files whose tests share a fixture."""
    seed: int | None = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)
    files = {item: item.nodeid.partition("::")[0] for item in items}
    items.sort(key=lambda item: (not emulates(files[item]), not shares(files[item])))


@cache
def emulates(file: str) -> bool:
    """Return whether tests of ``file`` have machines emulated, by what they wait for."""
    text = (ROOT / file).read_text("utf-8")
    return "pytest.mark.slow" in text and _EMULATED.search(text) is not None


@cache
def shares(file: str) -> bool:
    """Return whether tests of ``file``, a path from the repository's root, share a fixture of a wider scope than a test."""
    text = (ROOT / file).read_text("utf-8")
    if _SHARED.search(text):
        return True
    names = {
        name for folder in (ROOT / file).parents if folder.is_relative_to(ROOT) for name in _of_folder(folder)
    }
    return bool(names and re.search(rf"\b(?:{'|'.join(names)})\b", text))


@cache
def _of_folder(folder: Path) -> tuple[str, ...]:
    conftest = folder / "conftest.py"
    return tuple(_SHARED.findall(conftest.read_text("utf-8"))) if conftest.exists() else ()

"""The table at the end of each infrastructure's page: what was run, by which test, with which version.

A test that runs an infrastructure is marked, or its module is, with the parts that play it in their versions:

    @pytest.mark.runs("nomad", versions.built(NOMAD), versions.slurm())

``python -m tests.claims`` writes the tables; `tests/test_claims.py` holds the pages to them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "docs" / "infrastructures"
MARK: Final = "runs"
HEADING: Final = "## What was run, by which test, with which version\n"
_HEAD: Final = "Made of the tests' own marks (`python -m tests.claims`). CI runs them all. What a person ran beside them stands above, and as such.\n"


@dataclass(frozen=True, slots=True)
class Claim:
    """A test that runs ``infrastructure`` with ``parts``."""

    infrastructure: str
    text: str
    test: str
    parts: tuple[str, ...]


def claims() -> list[Claim]:
    """Return those of all tests, in the order of the files and of the tests in them."""
    files = (
        each for each in sorted((ROOT / "tests").rglob("test_*.py")) if "engine/programs" not in str(each)
    )
    marked = (each for each in files if f"mark.{MARK}(" in each.read_text())
    return [claim for file in marked for claim in _of_module(file)]


def page_with(page: str, infrastructure: str, found: list[Claim]) -> str:
    """Return the text of a page with its table, which is the end of it."""
    rows = [
        f"| {each.text} | `{each.test}` | {', '.join(each.parts)} |\n"
        for each in found
        if each.infrastructure == infrastructure
    ]
    table = "".join(["| what | test | with |\n", "|---|---|---|\n", *rows])
    head = page.partition(HEADING)[0].rstrip()
    return f"{head}\n\n{HEADING}{_HEAD}\n{table}"


def main() -> None:
    """Write the tables into the pages."""
    found = claims()
    for name in sorted({each.infrastructure for each in found}):
        page = PAGES / f"{name}.md"
        page.write_text(page_with(page.read_text(), name, found))


def _of_module(file: Path) -> Iterator[Claim]:
    path = file.relative_to(ROOT)
    module = import_module(".".join(path.with_suffix("").parts))
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test) and test.__module__ == module.__name__:
            for mark in _marks(module, test):
                infrastructure, *parts = mark.args
                yield Claim(infrastructure, _text(name), f"{path}::{name}", tuple(parts))


def _marks(module: ModuleType, test: Any) -> list[Any]:
    of_module = getattr(module, "pytestmark", [])
    decorators = of_module if isinstance(of_module, list) else [of_module]
    found = [*(each.mark for each in decorators), *getattr(test, "pytestmark", [])]
    return [each for each in found if each.name == MARK]


def _text(name: str) -> str:
    """Return a test's name as the sentence that it is."""
    return re.sub(r"_", " ", name.removeprefix("test_"))


if __name__ == "__main__":
    main()

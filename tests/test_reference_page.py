"""The page of reference names what there is: `make docs`, which reads it, is no part of the tests."""

from __future__ import annotations

import pkgutil
import re

from tests.repository import ROOT


def test_each_name_of_the_reference_is_there() -> None:
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs/reference.md").read_text(), re.MULTILINE)
    assert names
    gone = [name for name in names if not is_there(name)]
    assert gone == []


def is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True

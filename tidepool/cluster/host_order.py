"""The order of hosts that a person names in a map: that of their names, for both engines sort a map's keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def by_name(hosts: Mapping[str, T]) -> dict[str, T]:
    """``hosts`` in the order of their names, with numbers by value: ``node2`` is before ``node10``."""
    return dict(sorted(hosts.items(), key=lambda each: (_parts(each[0]), each[0])))


def _parts(name: str) -> tuple[tuple[int, int], ...]:
    """Characters, and a number as if it were one digit: so names without numbers are in the order of the engines."""
    parts = re.findall(r"[0-9]+|[^0-9]", name)
    return tuple((ord("0"), int(part)) if part[0] in "0123456789" else (ord(part), 0) for part in parts)

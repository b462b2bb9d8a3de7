"""Ranges of versions, such as ``>=3.0.0 <4.0.0 || !5.1.0``.

Comparisons side by side must all hold; ``||`` separates alternatives. The syntax is that of
github.com/blang/semver, which Pulumi uses for ``requiredPulumiVersion``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tidepool.engine.providers.versions import Version

_COMPARISON: Final = re.compile(r"\s*(>=|<=|==|!=|>|<|=|!)?\s*v?([0-9A-Za-z.+*-]+)\s*")
_TESTS: Final[dict[str, Callable[[Version, Version], bool]]] = {
    ">=": lambda a, b: not a < b,
    "<=": lambda a, b: not b < a,
    ">": lambda a, b: b < a,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a.same_release(b),
    "==": lambda a, b: a.same_release(b),
    "!=": lambda a, b: not a.same_release(b),
    "!": lambda a, b: not a.same_release(b),
}


def admits(version_range: str, version: str) -> bool:
    """Whether ``version`` is within ``version_range``.

    Raises:
        ValueError: when either cannot be read.
    """
    actual = Version.parse(version)
    alternatives = [_comparisons(part) for part in version_range.split("||")]
    return any(all(_TESTS[op](actual, bound) for op, bound in part) for part in alternatives)


def _comparisons(text: str) -> list[tuple[str, Version]]:
    found: list[tuple[str, Version]] = []
    position = 0
    while position < len(text):
        match = _COMPARISON.match(text, position)
        if match is None:
            raise ValueError(
                f"{text.strip()!r} is not a version range; expected something like '>=3.0.0 <4.0.0'"
            )
        found.extend(_expanded(match[1] or "=", match[2]))
        position = match.end()
    if not found:
        raise ValueError("a version range must not be empty; expected something like '>=3.0.0 <4.0.0'")
    return found


def _expanded(operator: str, bound: str) -> list[tuple[str, Version]]:
    """``3.x`` stands for all versions that begin with 3."""
    numbers = bound.split(".")
    wild = next((i for i, n in enumerate(numbers) if n in {"x", "X", "*"}), None)
    if wild is None:
        return [(operator, Version.parse(bound))]
    fixed = [int(n) for n in numbers[:wild]]
    low = _padded(fixed)
    if not fixed:
        return [(">=", low)]
    high = _padded([*fixed[:-1], fixed[-1] + 1])
    match operator:
        case "=" | "==":
            return [(">=", low), ("<", high)]
        case ">" | "<=":
            # Above all of 3.x, or up to the last of it.
            return [(">=" if operator == ">" else "<", high)]
        case ">=" | "<":
            return [(operator, low)]
        case _:
            raise ValueError(f"{operator}{bound}: a version that is excluded must be given in full")


def _padded(numbers: list[int]) -> Version:
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return Version(major, minor, patch)

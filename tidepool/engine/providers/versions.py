"""Versions of plugins, and ranges of them such as ``>=3.0.0 <4.0.0 || !5.1.0``.

Versions are semantic versions, read as forgivingly as the Pulumi CLI reads them. In a range, comparisons side by side
must all hold, and ``||`` separates alternatives: the syntax of github.com/blang/semver, which Pulumi uses for
``requiredPulumiVersion``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

_PATTERN: Final = re.compile(
    r"^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?$"
)


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version (semver.org, 2.0.0). ``build`` does not count in comparisons, except for equality."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Version:
        """``text`` as a version; a leading ``v`` and missing numbers are forgiven.

        Raises:
            ValueError: when it is not a version.
        """
        match = _PATTERN.match(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a version; expected something like 1.2.3")
        major, minor, patch, pre, build = match.groups()
        return cls(
            int(major),
            int(minor or 0),
            int(patch or 0),
            tuple((pre or "").split(".")) if pre else (),
            build or "",
        )

    def __str__(self) -> str:
        pre = f"-{'.'.join(self.pre)}" if self.pre else ""
        build = f"+{self.build}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"

    def __lt__(self, other: Version) -> bool:
        return self._order() < other._order()

    def same_release(self, other: Version) -> bool:
        """Equal as semantic versions: whatever their build."""
        return self._order() == other._order()

    def _order(self) -> tuple[object, ...]:
        # A release comes after its pre-releases; numbers come before words, and compare as numbers.
        identifiers = tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, identifiers)


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
    """Tell whether ``version`` is within ``version_range``.

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

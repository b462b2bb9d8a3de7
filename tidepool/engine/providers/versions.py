"""Versions of plugins: semantic versions, read as forgivingly as the Pulumi CLI reads them."""

from __future__ import annotations

import re
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

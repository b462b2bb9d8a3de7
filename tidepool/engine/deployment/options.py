"""What a person chose for one operation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["update", "refresh", "destroy"]


@dataclass(frozen=True)
class Targets:
    """URNs that an operation is limited to, or leaves out; ``*`` and ``**`` are wildcards.

    ``*`` stands for any text without ``:``, ``**`` for any text. No URNs at all is no limit.
    """

    urns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.urns)

    def __contains__(self, urn: str) -> bool:
        return urn in self._literals or any(p.fullmatch(urn) for p in self._patterns)

    def literals(self) -> Iterable[str]:
        """The URNs without wildcards."""
        return self._literals

    @cached_property
    def _literals(self) -> frozenset[str]:
        return frozenset(u for u in self.urns if "*" not in u)

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(u) for u in self.urns if "*" in u)


def _pattern(urn: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*)", urn)
    wild = {"*": "[^:]*", "**": ".*"}
    return re.compile("".join(wild.get(p, re.escape(p)) for p in parts))


@dataclass(frozen=True, slots=True)
class Options:
    """How an operation is to be done.

    ``parallel`` counts steps that may run at the same time. ``run_program`` lets a refresh or destroy run
    the program for up-to-date provider configuration.
    """

    kind: Kind
    preview: bool
    parallel: int
    continue_on_error: bool = False
    refresh: bool = False
    run_program: bool = False
    targets: Targets = Targets()
    target_dependents: bool = False
    excludes: Targets = Targets()
    exclude_dependents: bool = False
    replace: Targets = Targets()
    show_secrets: bool = False

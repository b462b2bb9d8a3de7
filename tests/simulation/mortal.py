"""Edges of a daemon at which it can be killed, or stopped: before each effect and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What changes something, by whom it is called: the journal, Slurm, the infrastructure, the executor of an `up`.
EFFECTS = frozenset(
    {
        "acquire",
        "decided",
        "write_kept",
        "ended",
        "looked",
        "sample",
        "saw",
        "troubled",
        "drain",
        "undrain",
        "down",
        "to_future",
        "delete",
        "submit",
    }
)


class Edge:
    """Stands before ``behind``; ``at`` is called with each effect's name, before it and after it."""

    def __init__(self, behind: Any, at: Callable[[str], None]) -> None:
        self._behind = behind
        self._at = at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if name not in EFFECTS:
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._at(f"before {name}")
            answer = found(*args, **named)
            self._at(f"after {name}")
            return answer

        return call


class Steps:
    """Counts effects; at the one numbered ``fatal`` it does what ``happens`` does, once."""

    def __init__(self, fatal: int, happens: Callable[[], None]) -> None:
        self.names: list[str] = []
        self._fatal = fatal
        self._happens = happens

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._fatal:
            self._happens()

"""A resource of the running operation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidepool.engine.resource import ResourceState


class Entry:
    """One resource, as it is known at the moment.

    States are values; an entry is the thing that they are states of. Two entries with one URN are two
    resources (one of them waits for its deletion). ``number`` is the resource's number in the journal.
    """

    __slots__ = ("number", "state")

    def __init__(self, number: int, state: ResourceState) -> None:
        self.number = number
        self.state = state

    def change(self, **fields: Any) -> ResourceState:
        """Set fields of the state, and return it."""
        self.state = replace(self.state, **fields)
        return self.state

    @property
    def urn(self) -> str:
        """The resource's URN."""
        return self.state.urn

    def __repr__(self) -> str:
        return f"Entry({self.number}, {self.state.urn})"

"""The books of one operation: which URNs were seen, and what was decided for each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tidepool.engine.deployment.entry import Entry


@dataclass(slots=True)
class Books:
    """Written by those who decide, between two ``await``; read by all.

    Attributes:
        seen: URNs that the program registered, and those that stand in for them.
        skipped_creates: creates that were left out: not targeted, or a destroy that runs the program.
        aliased: old URN -> new URN of resources that were found under an alias; ``adopted`` the other way.
        to_delete: resources that a destroy which runs the program deletes when the program is done.
        pending_deletes: old resources (not URNs) whose delete was decided already; the event tells that their
            step is over, well or not.
        providers: provider resources of this operation, by URN.
        dependent_keys: what makes a resource be replaced for the sake of another, by URN.
        reached_targets: URNs that are targeted, dependents included where those count.
        reached_excludes: likewise of excluded ones.
        failed: whether something was reported that fails the operation in the end.
    """

    seen: set[str] = field(default_factory=set)
    sames: set[str] = field(default_factory=set)
    creates: set[str] = field(default_factory=set)
    updates: set[str] = field(default_factory=set)
    replaces: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    refreshes: set[str] = field(default_factory=set)
    skipped_creates: set[str] = field(default_factory=set)
    aliased: dict[str, str] = field(default_factory=dict)
    adopted: dict[str, str] = field(default_factory=dict)
    to_delete: list[Entry] = field(default_factory=list)
    pending_deletes: dict[Entry, asyncio.Event] = field(default_factory=dict)
    providers: dict[str, Entry] = field(default_factory=dict)
    dependent_keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reached_targets: set[str] = field(default_factory=set)
    reached_excludes: set[str] = field(default_factory=set)
    failed: bool = False

    def is_operated_on(self, urn: str) -> bool:
        """Whether the resource stays, or was replaced."""
        urn = self.aliased.get(urn, urn)
        return any(urn in decided for decided in (self.sames, self.updates, self.replaces, self.reads))

    def is_looked_at(self, urn: str) -> bool:
        """Whether it is known what the resource is now."""
        return self.is_operated_on(urn) or self.aliased.get(urn, urn) in self.refreshes

    def decided(self) -> set[str]:
        """URNs for which anything was decided, but for refreshes."""
        return self.reads | self.creates | self.sames | self.updates | self.deletes | self.replaces

    def is_decided(self, entry: Entry) -> bool:
        """Whether anything was decided for a resource that was there before, under its old name or a new one."""
        urns = {entry.urn, self.aliased.get(entry.urn, entry.urn)}
        return entry in self.pending_deletes or any(
            not urns.isdisjoint(decided)
            for decided in (self.reads, self.creates, self.sames, self.updates, self.deletes, self.replaces)
        )

    def has_step(self, urn: str) -> bool:
        """Whether the resource has a step in this operation, or will have one."""
        return urn in self.seen or urn in self.aliased or self.is_operated_on(urn)

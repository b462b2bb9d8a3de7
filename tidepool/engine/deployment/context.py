"""The parts that everything in an operation works with, the books of what was decided among them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tidepool.engine.deployment.graph import Entry
from tidepool.engine.deployment.hooks import Hooks
from tidepool.engine.deployment.live import LiveStack
from tidepool.engine.deployment.options import Options, Request
from tidepool.engine.deployment.registry import Registry
from tidepool.engine.deployment.status import Status
from tidepool.engine.providers.contract import Provider
from tidepool.engine.resource import ResourceState


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

    def is_operated_on(self, urn: str) -> bool:
        """Tell whether the resource stays, or was replaced."""
        urn = self.aliased.get(urn, urn)
        return any(urn in decided for decided in (self.sames, self.updates, self.replaces, self.reads))

    def is_looked_at(self, urn: str) -> bool:
        """Tell whether it is known what the resource is now."""
        return self.is_operated_on(urn) or self.aliased.get(urn, urn) in self.refreshes

    def decided(self) -> set[str]:
        """URNs for which anything was decided, but for refreshes."""
        return self.reads | self.creates | self.sames | self.updates | self.deletes | self.replaces

    def is_decided(self, entry: Entry) -> bool:
        """Tell whether anything was decided for a resource that was there before, under its old name or a new one."""
        urns = {entry.urn, self.aliased.get(entry.urn, entry.urn)}
        return entry in self.pending_deletes or any(
            not urns.isdisjoint(decided)
            for decided in (self.reads, self.creates, self.sames, self.updates, self.deletes, self.replaces)
        )

    def has_step(self, urn: str) -> bool:
        """Tell whether the resource has a step in this operation, or will have one."""
        return urn in self.seen or urn in self.aliased or self.is_operated_on(urn)


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one operation that steps, and those who decide on them, work with. None is replaced while it runs."""

    request: Request
    status: Status
    live: LiveStack
    registry: Registry
    hooks: Hooks
    books: Books

    @property
    def options(self) -> Options:
        """The choices of the person."""
        return self.request.options

    async def provider_for(self, state: ResourceState) -> Provider:
        """Return the provider of a resource."""
        if state.is_provider:
            return self.registry
        return await self.registry.get(state.provider)

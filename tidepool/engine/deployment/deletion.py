"""The deletion of resources that the program no longer asks for, when it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from tidepool.engine.deployment.change import Replacement
from tidepool.engine.deployment.executor import Executor
from tidepool.engine.deployment.live import Entry, Graph
from tidepool.engine.deployment.step import Context, Step
from tidepool.engine.deployment.steps import DeleteStep, RemovePendingReplaceStep, SameStep
from tidepool.engine.state.references import order


class Deletion:
    """The last act of an update, and the whole of a destroy."""

    def __init__(self, context: Context, executor: Executor, replacement: Replacement) -> None:
        self._context = context
        self._status, self._live, self._registry = context.status, context.live, context.registry
        self._books = context.books
        self._executor = executor
        self._replacement = replacement
        self._graph = _graph(context.live.entries, context.books.to_delete)

    async def run(self) -> None:
        """Decide what is to be deleted, and delete it, each resource after all that depend on it."""
        sames, deletes = await self._decide()
        if self._are_refused(deletes) and not self._context.options.preview:
            return
        await self._executor.run(sames)
        if self._context.options.targets or self._context.options.excludes or self._books.to_delete:
            # What was made or changed as the program has it may depend on what is to be deleted before it.
            await self._live.end(None, mends=True, durable=False)
        await self._delete(deletes)

    async def _decide(self) -> tuple[list[Step], list[Step]]:
        books = self._books
        allowed = await self._allowed()
        sames: list[Step] = []
        deletes: list[Step] = []
        for entry in self._live.entries:
            state = entry.state
            if state.view_of:
                continue
            if allowed is not None and entry.urn not in allowed:
                if not books.is_operated_on(entry.urn) and not state.delete:
                    sames.append(SameStep(entry, self._live.new_entry(state, entry), untargeted=True))
                continue
            if state.delete:
                if entry in books.pending_deletes:
                    continue
                deletes.append(DeleteStep(entry, replacing=True))
            elif not books.is_operated_on(entry.urn):
                deletes.append(_removal(entry))
            else:
                continue
            books.deletes.add(entry.urn)
        for entry in books.to_delete:
            # What depends on what is told by the names that the stack has.
            if allowed is None or not allowed.isdisjoint((entry.urn, *entry.state.aliases)):
                books.deletes.add(entry.urn)
                deletes.append(_removal(entry))
        return sames, deletes

    async def _allowed(self) -> set[str] | None:
        """The URNs that may be deleted; None for all."""
        options, graph = self._context.options, self._live.graph
        if options.targets:
            allowed: set[str] = set()
            for root in self._live.entries:
                if root.urn not in options.targets:
                    continue
                affected = [root, *graph.dependents(root, children=True)]
                for entry in affected:
                    allowed.add(entry.urn)
                    condemned = await self._replacement.dependent_replacements(entry)
                    allowed.update(c.entry.urn for c in condemned)
                    allowed.update(e.urn for e in self._replacement.cascades(entry.urn))
            return allowed
        if options.excludes:
            return {e.urn for e in self._live.entries} - self._kept()
        return None

    def _kept(self) -> set[str]:
        """Excluded resources, and all that they need."""
        options, graph = self._context.options, self._live.graph
        kept: set[str] = set()
        for entry in self._live.entries:
            if entry.urn in options.excludes:
                kept.add(entry.urn)
                kept.update(e.urn for e in graph.transitive_dependencies(entry))
                if options.exclude_dependents:
                    for dependent in graph.dependents(entry, children=True):
                        kept.add(dependent.urn)
                        kept.update(e.urn for e in graph.transitive_dependencies(dependent))
        return kept

    def _are_refused(self, deletes: list[Step]) -> bool:
        """Tell whether any are of resources that are no targets, and report these."""
        options = self._context.options
        if not options.targets or options.target_dependents:
            return False
        refused = False
        for step in deletes:
            if step.urn not in options.targets:
                self._status.error(
                    f"Resource '{step.urn}' will be destroyed but was not specified in --target list.\n"
                    "Either include resource in --target list or pass --target-dependents to proceed.",
                    step.urn,
                )
                refused = True
        if refused:
            self._status.failed = True
        return refused

    async def _delete(self, steps: list[Step]) -> None:
        """Run the steps beside each other that do not depend on each other, dependents first.

        As the CLI has it, a resource goes no earlier than its own dependencies demand: those that
        depend on nothing that is deleted go last, all together.
        """
        by_entry: dict[Entry, Step] = {step.subject: step for step in steps}
        depths: dict[Entry, int] = {}
        for entry in sorted(by_entry, key=self._graph.position):
            needs = (depths[d] for d in self._graph.dependencies(entry) if d in depths)
            depths[entry] = 1 + max(needs, default=0)

        async def delete(entry: Entry) -> None:
            if not entry.state.pending_replacement:
                await self._registry.ensure(entry.state.provider)
            await self._executor.run([by_entry[entry]])

        for depth in sorted(set(depths.values()), reverse=True):
            needed = self._needed_by_undone()
            chosen = [e for e in reversed(depths) if depths[e] == depth and e not in needed]
            await asyncio.gather(*(delete(entry) for entry in chosen))

    def _needed_by_undone(self) -> set[Entry]:
        """Return the dependencies of resources that stay as they were because their steps failed: they stay, too."""
        needed: set[Entry] = set()
        for step in self._executor.undone:
            for entry in (step.old, step.new):
                if entry is not None and entry in self._graph:
                    needed |= self._graph.transitive_dependencies(entry)
        return needed


def _graph(entries: Iterable[Entry], to_delete: Sequence[Entry]) -> Graph:
    """Return the dependencies among ``entries``, with what the program made of them in their place."""
    became = {entry.number: entry for entry in to_delete}
    stand = [became.pop(entry.number, entry) for entry in entries]
    stand = [*became.values(), *stand]
    return Graph(stand[i] for i in order([entry.state for entry in stand]))


def _removal(entry: Entry) -> Step:
    return RemovePendingReplaceStep(entry) if entry.state.pending_replacement else DeleteStep(entry)

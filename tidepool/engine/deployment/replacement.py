"""Replacing a resource before its successor is made: what depends on it goes first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.diffing import (
    with_engine_diff,
    with_replace_on_changes,
)
from tidepool.engine.deployment.graph import Entry, provider_urn
from tidepool.engine.deployment.status import Stopped
from tidepool.engine.deployment.steps.delete import DeleteStep
from tidepool.engine.deployment.steps.step import Step
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, ResourceState
from tidepool.engine.values import UNKNOWN


@dataclass(frozen=True, slots=True)
class Condemned:
    """A resource that must be deleted before another is replaced, and the keys that make it so."""

    entry: Entry
    keys: tuple[str, ...]


class Replacement:
    """Finds and condemns what cannot stay while a resource is deleted and made anew."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._status, self._live, self._registry = context.status, context.live, context.registry
        self._books = context.books

    async def delete_dependents_first(self, urn: str, old: Entry) -> list[Step]:
        """The steps that delete what a replacement of ``old``, now ``urn``, would replace, dependents first."""
        condemned = await self.dependent_replacements(old) if old in self._live.graph else []
        for entry in self.cascades(urn):
            condemned.append(Condemned(entry, ()))
            if entry.state.is_provider:
                # Its successor has another id, by which its resources refer to it.
                condemned += await self.dependent_replacements(entry)
        condemned.sort(key=lambda one: self._live.graph.position(one.entry))
        steps: list[Step] = []
        for one in reversed(condemned):
            entry = one.entry
            if entry.state.pending_replacement:
                continue  # it is down already, and the provider that it had may be gone, too
            await self._registry.ensure(entry.state.provider)
            # Decided anew after each waiting: the program may have registered it in the meantime.
            if entry is old or self._books.is_decided(entry):
                continue
            self._books.dependent_keys[entry.urn] = one.keys
            if entry.state.protect and not entry.state.delete:
                self._status.error(
                    f'unable to replace resource "{entry.urn}" as part of replacing "{urn}" '
                    "as it is currently marked for protection. To unprotect the resource, "
                    "remove the `protect` flag from the resource in your Pulumi "
                    "program and run `pulumi up`, or use the command:\n"
                    f"`pulumi state unprotect '{entry.urn}'`",
                    urn,
                )
                self._status.mark_failed()
                raise Stopped
            if entry.state.delete:
                steps.append(DeleteStep(entry))
            else:
                steps.append(DeleteStep(entry, replacing=True, before_create=True))
                self._books.deletes.add(entry.urn)
            self._books.pending_deletes[entry] = asyncio.Event()
        return steps

    async def dependent_replacements(self, root: Entry) -> list[Condemned]:
        """The resources that a replacement of ``root`` would replace, each after those it depends on.

        Those whose inputs come from a resource of the set are asked, through the provider's diff with
        these inputs unknown, whether they would be replaced.
        """
        replaced = {root.urn}
        found: list[Condemned] = []
        for entry in self._live.graph.dependents(root, ignore=self._books.decided()):
            keys = await self._replacement_keys(entry.state, replaced)
            if keys is not None:
                found.append(Condemned(entry, keys))
                replaced.add(entry.urn)
        return found

    async def _replacement_keys(self, state: ResourceState, replaced: set[str]) -> tuple[str, ...] | None:
        if not state.custom or state.external or state.pending_replacement:
            return None
        if state.provider and provider_urn(state.provider) in replaced:
            await self._registry.ensure(state.provider)
            return ()
        if state.deleted_with in replaced:
            return ()
        inputs = {
            key: UNKNOWN if not replaced.isdisjoint(state.property_dependencies.get(key, ())) else value
            for key, value in state.inputs.items()
        }
        if not any(value is UNKNOWN for value in inputs.values()):
            return None
        if state.type.startswith(PROVIDER_TYPE_PREFIX):
            await self._registry.same(state, checked=False)
        else:
            await self._registry.ensure(state.provider)
        provider = await self._context.provider_for(state)
        diff = await provider.diff(
            state.urn, state.id, state.inputs, state.outputs, inputs, state.ignore_changes
        )
        diff = with_engine_diff(diff, state.inputs, inputs)
        diff = with_replace_on_changes(diff, state.replace_on_changes, False)
        return diff.replace_keys if diff.replaces else None

    def cascades(self, urn: str) -> list[Entry]:
        """Resources that are replaced or deleted with ``urn`` by option."""
        return [
            e
            for e in self._live.entries
            if not e.state.delete and (urn in e.state.replace_with or e.state.deleted_with == urn)
        ]

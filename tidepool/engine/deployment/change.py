"""Decisions on a resource that is there already: it stays, is updated, or replaced, and what depends on it goes first."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from tidepool.engine import urn as urns
from tidepool.engine.deployment.diffing import (
    trigger_fired,
    with_engine_diff,
    with_replace_on_changes,
)
from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.live import Entry, provider_urn
from tidepool.engine.deployment.status import GoalError, Stopped
from tidepool.engine.deployment.step import Answer, Context, Step
from tidepool.engine.deployment.steps import CreateStep, DeleteStep, ReplaceStep, SameStep, UpdateStep
from tidepool.engine.providers.contract import CheckFailure, DiffResult, DiffUnavailable, Existing, Provider
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, ResourceState
from tidepool.engine.values import UNKNOWN, contains_secrets, contains_unknowns, equal, masked


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
        existing = Existing(state.id, state.inputs, state.outputs)
        diff = await provider.diff(state.urn, existing, inputs, state.ignore_changes)
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


class Change:
    """Compares a resource with its goal, and decides."""

    def __init__(self, context: Context, replacement: Replacement) -> None:
        self._context = context
        self._status, self._live, self._registry = context.status, context.live, context.registry
        self._books = context.books
        self._replacement = replacement

    async def steps(
        self, goal: Goal, old: Entry, new: Entry, answer: Answer, provider: Provider | None, seed: bytes
    ) -> list[Step]:
        """The steps that make ``new`` of ``old``; ``new`` holds inputs that the provider checked."""
        urn = new.urn
        if not self._context.options.preview and contains_unknowns(new.state.replacement_trigger):
            self._status.error(f"replacement trigger contains unknowns for {urn}", urn)
            raise Stopped
        triggered = trigger_fired(old.state.replacement_trigger, new.state.replacement_trigger)
        if triggered:
            diff = DiffResult("some")
        else:
            diff = await self._diff(goal, old, new, provider)
        if urn in self._books.deletes or old.urn in self._books.deletes:
            # While we waited, another replacement found that this one has to go first.
            recreated = await self.recreate(old, new, answer)
            if recreated is not None:
                return recreated
        has_init_errors = bool(old.state.init_errors)
        diff = with_replace_on_changes(diff, goal.state.replace_on_changes, has_init_errors)
        must_replace = diff.changes == "some" and (diff.replaces or triggered)
        if must_replace or old.state.pending_replacement:
            return await self._replace(goal, old, new, answer, provider, diff, seed)
        if diff.changes == "some" or has_init_errors:
            self._books.updates.add(urn)
            return [UpdateStep(old, new, answer, diff)]
        self._books.sames.add(urn)
        return [SameStep(old, new, answer)]

    async def recreate(self, old: Entry, new: Entry, answer: Answer) -> list[Step] | None:
        """The steps for a resource that was deleted for the sake of another; now it is clear that it is to come back.

        None where it was not deleted after all.
        """
        over = self._books.pending_deletes.get(old)
        if over is not None:
            await over.wait()  # the two must not be there at the same time
        self._books.deletes -= {new.urn, old.urn}
        if not old.state.pending_replacement:
            return None
        self._books.replaces.add(new.urn)
        replacement = self.another(new)
        keys = self._books.dependent_keys.get(old.urn, ())
        return [ReplaceStep(old, replacement), CreateStep(old, replacement, answer, keys=keys)]

    def another(self, new: Entry) -> Entry:
        """Make an entry for another resource, instead of changing one, wherever ``new`` was noted."""
        made = self._live.new_entry(new.state)
        self._books.to_delete = [made if e is new else e for e in self._books.to_delete]
        for name, noted in self._books.providers.items():
            if noted is new:
                self._books.providers[name] = made
        return made

    def is_targeted_replace(self, urn: str, old: Entry | None) -> bool:
        """Tell whether a person asked for the resource to be replaced."""
        return urn in self._context.options.replace or (old is not None and old.state.taint)

    async def _diff(self, goal: Goal, old: Entry, new: Entry, provider: Provider | None) -> DiffResult:
        if self.is_targeted_replace(new.urn, old):
            return DiffResult("some", replace_keys=("id",))
        if not self._books.replaces.isdisjoint(new.state.replace_with):
            return DiffResult("some", replace_keys=("replaceWith",))
        if new.state.deleted_with and new.state.deleted_with in self._books.replaces:
            return DiffResult("some", replace_keys=("deletedWith",))
        if await self._provider_changed(old.state, new.state):
            return DiffResult("some", replace_keys=("provider",))
        if provider is None:
            return DiffResult("none" if equal(old.state.inputs, new.state.inputs) else "some")
        before, after = old.state, new.state
        try:
            existing = Existing(before.id, before.inputs, before.outputs)
            diff = await provider.diff(new.urn, existing, after.inputs, goal.state.ignore_changes)
        except DiffUnavailable as error:
            self._status.warn(str(error), new.urn)
            return DiffResult("some")
        return with_engine_diff(diff, before.inputs, after.inputs)

    async def _provider_changed(self, old: ResourceState, new: ResourceState) -> bool:
        """Tell whether the resource came to a provider that cannot take it over."""
        if old.provider == new.provider:
            return False
        if not old.provider or not new.provider:
            return True
        old_urn, new_urn = provider_urn(old.provider), provider_urn(new.provider)
        if self._books.aliased.get(old_urn) == new_urn:
            return False
        before, after = self._live.old(old_urn), self._books.providers.get(new_urn)
        if before is None or after is None:
            return True
        provider = await self._registry.get(new.provider)
        diff = await provider.diff_config(
            new_urn,
            Existing("", self._registry.configuration(before.state.inputs), before.state.outputs),
            self._registry.configuration(after.state.inputs),
            (),
        )
        return diff.replaces

    async def _replace(
        self,
        goal: Goal,
        old: Entry,
        new: Entry,
        answer: Answer,
        provider: Provider | None,
        diff: DiffResult,
        seed: bytes,
    ) -> list[Step]:
        urn = new.urn
        if new.state.protect and old.state.protect:
            self._status.error(
                f'unable to replace resource "{urn}"\n'
                "as it is currently marked for protection. To unprotect the resource, "
                "remove the `protect` flag from the resource in your Pulumi "
                "program and run `pulumi up`",
                urn,
            )
            self._status.failed = True
            if not self._context.options.preview:
                raise Stopped
        if goal.state.import_id:
            self._refuse_to_replace_imported(old, new, diff)
        self._books.replaces.add(urn)
        if provider is not None and not self.is_targeted_replace(urn, old):
            # Defaults were carried over from the old resource, which is not to be the new one.
            checked = await provider.check(urn, {}, goal.state.inputs, seed, self._context.options.preview)
            if self.report(new.state, checked.failures):
                raise Stopped
            new.change(inputs=checked.inputs)
        replacement = self.another(new)
        first = goal.delete_before_replace
        if not (diff.delete_before_replace if first is None else first):
            there = not old.state.pending_replacement
            return [
                CreateStep(old, replacement, answer, pending_delete=there, keys=diff.replace_keys, diff=diff),
                ReplaceStep(old, replacement, keys=diff.replace_keys, diff=diff),
            ]
        steps = await self._replacement.delete_dependents_first(urn, old)
        if not old.state.pending_replacement:
            await self._registry.ensure(old.state.provider)
            self._books.deletes.add(old.urn)
            steps.append(DeleteStep(old, replacing=True, before_create=True))
        return [
            *steps,
            ReplaceStep(old, replacement, keys=diff.replace_keys, diff=diff),
            CreateStep(old, replacement, answer, keys=diff.replace_keys, diff=diff),
        ]

    def _refuse_to_replace_imported(self, old: Entry, new: Entry, diff: DiffResult) -> None:
        """Fail, in a preview warn, where a resource would be replaced that the program names by its id."""
        before, after = (masked(entry.state.inputs) for entry in (old, new))
        differences = "".join(
            f"\n{k}: {_shown(before.get(k))} => {_shown(after.get(k))}" for k in diff.replace_keys
        )
        message = (
            "previously-imported resources that still specify an ID may not be replaced; please remove the `import` "
            f"declaration from your program;{differences}"
        )
        if not self._context.options.preview:
            raise GoalError(message, new.urn)
        self._status.warn(message, new.urn)

    def report(self, state: ResourceState, failures: Collection[CheckFailure]) -> bool:
        """Tell the person of mistakes in a resource's inputs; whether there are any."""
        for failure in failures:
            name = urns.name_of(state.urn)
            if failure.property:
                value = state.inputs.get(failure.property)
                shown = "[secret]" if contains_secrets(value) else _shown(value)
                message = (
                    f"{state.type} resource '{name}': property {failure.property} value {{{shown}}} "
                    f"has a problem: {failure.reason}"
                )
            else:
                message = f"{state.type} resource '{name}' has a problem: {failure.reason}"
            self._status.error(message, state.urn)
        return bool(failures)


def _shown(value: object) -> str:
    return "<nil>" if value is None else str(value)

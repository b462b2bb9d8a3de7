"""Decisions on a resource that is there already: it stays, is updated, or replaced."""

from __future__ import annotations

from collections.abc import Collection

from tidepool.engine import urn as urns
from tidepool.engine.compare import equal
from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.diffing import (
    trigger_fired,
    with_engine_diff,
    with_replace_on_changes,
)
from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.graph import Entry, provider_urn
from tidepool.engine.deployment.replacement import Replacement
from tidepool.engine.deployment.status import GoalError, Stopped
from tidepool.engine.deployment.steps.create import CreateStep, ReplaceStep
from tidepool.engine.deployment.steps.delete import DeleteStep
from tidepool.engine.deployment.steps.step import Answer, Step
from tidepool.engine.deployment.steps.update import SameStep, UpdateStep
from tidepool.engine.providers.contract import CheckFailure, DiffResult, DiffUnavailable, Provider
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import contains_secrets, contains_unknowns, masked


class Change:
    """Compares a resource with its goal, and decides."""

    def __init__(self, context: Context, replacement: Replacement) -> None:
        self._context = context
        self._status, self._live, self._registry = context.status, context.live, context.registry
        self._books = context.books
        self._replacement = replacement

    async def steps(
        self,
        urn: str,
        goal: Goal,
        old: Entry,
        new: Entry,
        answer: Answer,
        provider: Provider | None,
        seed: bytes,
    ) -> list[Step]:
        """The steps that make ``new`` of ``old``; ``new`` holds inputs that the provider checked."""
        if not self._context.options.preview and contains_unknowns(new.state.replacement_trigger):
            self._status.error(f"replacement trigger contains unknowns for {urn}", urn)
            self._status.mark_failed()
            raise Stopped
        triggered = trigger_fired(old.state.replacement_trigger, new.state.replacement_trigger)
        if triggered:
            diff = DiffResult("some")
        else:
            diff = await self._diff(urn, goal, old, new, provider)
        if urn in self._books.deletes or old.urn in self._books.deletes:
            # While we waited, another replacement found that this one has to go first.
            recreated = await self.recreate(urn, old, new, answer)
            if recreated is not None:
                return recreated
        has_init_errors = bool(old.state.init_errors)
        diff = with_replace_on_changes(diff, goal.replace_on_changes, has_init_errors)
        if diff.changes == "some" or old.state.pending_replacement:
            if diff.replaces or triggered or old.state.pending_replacement:
                return await self._replace(urn, goal, old, new, answer, provider, diff, seed)
            self._books.updates.add(urn)
            return [UpdateStep(old, new, answer, diff)]
        if has_init_errors:
            self._books.updates.add(urn)
            return [UpdateStep(old, new, answer, diff)]
        self._books.sames.add(urn)
        return [SameStep(old, new, answer)]

    async def recreate(self, urn: str, old: Entry, new: Entry, answer: Answer) -> list[Step] | None:
        """The steps for a resource that was deleted for the sake of another; now it is clear that it is to come back.

        None where it was not deleted after all.
        """
        over = self._books.pending_deletes.get(old)
        if over is not None:
            await over.wait()  # the two must not be there at the same time
        self._books.deletes.discard(urn)
        self._books.deletes.discard(old.urn)
        if not old.state.pending_replacement:
            return None
        self._books.replaces.add(urn)
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

    async def _diff(
        self, urn: str, goal: Goal, old: Entry, new: Entry, provider: Provider | None
    ) -> DiffResult:
        if self.is_targeted_replace(urn, old):
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
            diff = await provider.diff(
                urn, before.id, before.inputs, before.outputs, after.inputs, goal.ignore_changes
            )
        except DiffUnavailable as error:
            self._status.warn(str(error), urn)
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
            self._registry.configuration(before.state.inputs),
            before.state.outputs,
            self._registry.configuration(after.state.inputs),
            (),
        )
        return diff.replaces

    async def _replace(
        self,
        urn: str,
        goal: Goal,
        old: Entry,
        new: Entry,
        answer: Answer,
        provider: Provider | None,
        diff: DiffResult,
        seed: bytes,
    ) -> list[Step]:
        if new.state.protect and old.state.protect:
            self._status.error(
                f'unable to replace resource "{urn}"\n'
                "as it is currently marked for protection. To unprotect the resource, "
                "remove the `protect` flag from the resource in your Pulumi "
                "program and run `pulumi up`",
                urn,
            )
            self._status.mark_failed()
            if not self._context.options.preview:
                raise Stopped
        if goal.import_id:
            self._refuse_to_replace_imported(old, new, diff)
        self._books.replaces.add(urn)
        if provider is not None and not self.is_targeted_replace(urn, old):
            # Defaults were carried over from the old resource, which is not to be the new one.
            checked = await provider.check(urn, {}, goal.properties, seed, self._context.options.preview)
            if self.report(new.state, checked.failures):
                raise Stopped
            new.change(inputs=checked.inputs)
        replacement = self.another(new)
        before_create = diff.delete_before_replace
        if goal.delete_before_replace is not None:
            before_create = goal.delete_before_replace
        if not before_create:
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

"""Steps that change what exists, and the one that leaves it as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Final

from tidepool.engine.deployment.live import Entry
from tidepool.engine.deployment.step import (
    SUCCESS,
    Answer,
    Context,
    Outcome,
    Step,
    mark_secrets,
    now,
)
from tidepool.engine.errors import EngineError
from tidepool.engine.events import Op
from tidepool.engine.providers.contract import (
    CreateResult,
    DiffResult,
    Existing,
    InitializationFailed,
    ProviderDied,
    ProviderError,
    UpdateResult,
)
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import equal


class CreateStep(Step):
    """A resource is made; with ``old``, in the place of another.

    ``pending_delete`` leaves the old one to be deleted at the end of the operation.
    """

    pending = "creating"
    new: Entry

    def __init__(
        self,
        old: Entry | None,
        new: Entry,
        answer: Answer,
        *,
        pending_delete: bool = False,
        keys: tuple[str, ...] = (),
        diff: DiffResult | None = None,
    ) -> None:
        super().__init__(old, new, answer)
        self.op = Op.CREATE if old is None else Op.CREATE_REPLACEMENT
        self.logical = old is None
        self.pending_delete = pending_delete
        self.keys = keys
        self._explain(diff)

    async def apply(self, context: Context) -> Outcome:
        hooks = context.hooks
        await hooks.run("BeforeCreate", None, self.new.state)
        outcome = SUCCESS
        created = CreateResult("", {})
        if self.new.state.custom:
            provider = await context.provider_for(self.new.state)

            state, preview = self.new.state, context.options.preview
            try:
                created = await hooks.with_retries(
                    "create",
                    None,
                    state,
                    lambda: provider.create(state.urn, state.inputs, state.custom_timeouts.create_s, preview),
                )
            except InitializationFailed as failed:
                created = CreateResult(failed.id, failed.outputs)
                self.new.change(init_errors=failed.reasons)
                outcome = Outcome(failed, partial=True)
            except ProviderDied as died:
                return Outcome(died, lost=True)
            if not created.id and not context.options.preview:
                return Outcome(ValueError("provider did not return an ID from Create"))
        moment = now()
        self.new.change(
            id=created.id,
            outputs=created.outputs,
            refresh_before_update=created.refresh_before_update,
            created=moment,
            modified=moment,
        )
        mark_secrets(self.new)
        if self.old is not None and self.pending_delete:
            self.old.change(delete=True)
        if outcome.error is None and self.new.state.custom:
            await hooks.run_after("AfterCreate", None, self.new.state)
        return outcome

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        if not outcome.took_effect:
            await super().end(context, number, outcome)
            return
        amends = [self.old] if self.old is not None and self.pending_delete else []
        drops = [self.old] if self.old is not None and self.old.state.pending_replacement else []
        if self.old is not None and drops and context.live.is_needed(self.old.state):
            # What is still to be deleted is deleted through the provider that it was made with.
            self.old.change(pending_replacement=False, delete=True)
            context.books.pending_deletes.pop(self.old, None)
            amends, drops = drops, []
        await context.live.end(number, puts=[self.new], amends=amends, drops=drops)


class ReplaceStep(Step):
    """The whole of a replacement: says that the old resource has become the new one."""

    op = Op.REPLACE

    def __init__(
        self, old: Entry, new: Entry, *, keys: tuple[str, ...] = (), diff: DiffResult | None = None
    ) -> None:
        super().__init__(old, new)
        self.keys = keys
        self._explain(diff)


class UpdateStep(Step):
    """A resource is changed in place."""

    op = Op.UPDATE
    pending = "updating"
    old: Entry
    new: Entry

    def __init__(self, old: Entry, new: Entry, answer: Answer, diff: DiffResult) -> None:
        super().__init__(old, new, answer)
        self._explain(diff)

    async def begin(self, context: Context) -> int | None:
        old = self.old.state
        self.new.change(id=old.id, created=old.created, modified=old.modified)
        return await super().begin(context)

    async def apply(self, context: Context) -> Outcome:
        old = self.old.state
        hooks = context.hooks
        await hooks.run("BeforeUpdate", old, self.new.state)
        outcome = SUCCESS
        if self.new.state.custom:
            provider = await context.provider_for(self.new.state)

            new, existing = self.new.state, Existing(old.id, old.inputs, old.outputs)
            timeout_s, preview = new.custom_timeouts.update_s, context.options.preview
            try:
                updated = await hooks.with_retries(
                    "update",
                    old,
                    new,
                    lambda: provider.update(
                        new.urn, existing, new.inputs, timeout_s, new.ignore_changes, preview
                    ),
                )
            except InitializationFailed as failed:
                # What exists was not made with the new inputs: the old ones are kept, with the new outputs.
                updated = UpdateResult(failed.outputs)
                self.new.change(init_errors=failed.reasons, inputs=old.inputs)
                outcome = Outcome(failed, partial=True)
            except ProviderDied as died:
                return Outcome(died, lost=True)
            self.new.change(
                outputs=updated.outputs,
                refresh_before_update=updated.refresh_before_update,
                modified=now(),
            )
        mark_secrets(self.new)
        if outcome.error is None and old.custom:
            await hooks.run_after("AfterUpdate", old, self.new.state)
        return outcome

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        if outcome.took_effect:
            await context.live.end(number, puts=[self.new])
        else:
            await super().end(context, number, outcome)


class SameStep(Step):
    """Nothing changes, but for what does not concern the provider.

    ``untargeted`` says that nobody looked whether it changed.
    """

    op = Op.SAME
    old: Entry
    new: Entry

    def __init__(
        self,
        old: Entry,
        new: Entry,
        answer: Answer = None,
        *,
        skipped_create: bool = False,
        untargeted: bool = False,
    ) -> None:
        super().__init__(old, new, answer)
        self.skipped_create = skipped_create
        self.untargeted = untargeted

    async def apply(self, context: Context) -> Outcome:
        old = self.old.state
        new = self.new.change(id=old.id, outputs=old.outputs)
        if new.is_provider and not self.skipped_create and not self.untargeted:
            try:
                # The old inputs: a provider that ignores a change is run as it was configured before.
                await context.registry.same(replace(new, inputs=old.inputs), checked=True)
            except (ProviderError, EngineError) as error:
                return Outcome(ProviderError(f"bad provider state for resource {self.urn}: {error}"))
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        if self.skipped_create or not outcome.took_effect:
            return
        if self.old.state == self.new.state:
            await context.live.end(None, keeps=[self.new], durable=False)
        else:
            # Where only the place in the program differs, nothing is lost if it is not on disk yet.
            durable = not unchanged(self.old.state, self.new.state)
            await context.live.end(None, puts=[self.new], durable=durable)


_COMPARED: Final = attrgetter(
    "urn", "type", "custom", "custom_timeouts", "retain_on_delete", "provider", "parent", "deleted_with",
    "replace_with", "protect", "taint", "ignore_changes", "replace_on_changes", "additional_secret_outputs",
    "resource_hooks",
)  # fmt: skip


def unchanged(old: ResourceState, new: ResourceState) -> bool:
    """Tell whether nothing worth writing differs; the place in the program is not."""
    return (
        _COMPARED(old) == _COMPARED(new)
        and set(old.dependencies) == set(new.dependencies)
        and _same_dependencies(old.property_dependencies, new.property_dependencies)
        and equal(old.replacement_trigger, new.replacement_trigger)
        and equal(old.inputs, new.inputs)
        and equal(old.outputs, new.outputs)
    )


def _same_dependencies(old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]) -> bool:
    return old == new or {k: set(v) for k, v in old.items() if v} == {k: set(v) for k, v in new.items() if v}


class DeleteProtected(Exception):
    """A protected resource stands in the way; other deletes may go on, so that all are told at once."""


class DeleteStep(Step):
    """A resource is removed; with ``replacing``, because another takes its place.

    ``before_create`` says that it is removed first: its state stays, marked, until the new one is there.
    """

    pending = "deleting"
    old: Entry

    def __init__(self, old: Entry, *, replacing: bool = False, before_create: bool = False) -> None:
        super().__init__(old)
        self.replacing = replacing
        self.before_create = before_create
        self.logical = not replacing
        if old.state.external:
            self.op = Op.DISCARD_REPLACED if replacing else Op.READ_DISCARD
        else:
            self.op = Op.DELETE_REPLACED if replacing else Op.DELETE

    async def apply(self, context: Context) -> Outcome:
        state = self.old.state
        hooks = context.hooks
        await hooks.run("BeforeDelete", state, None)
        if state.protect and not self.replacing:
            return Outcome(
                DeleteProtected(
                    f'resource "{state.urn}" cannot be deleted\n'
                    "because it is protected. To unprotect the resource, "
                    "either remove the `protect` flag from the resource in your Pulumi "
                    "program and run `pulumi up`, or use the command:\n"
                    f"`pulumi state unprotect '{state.urn}'`"
                )
            )
        gone_with_another = bool(state.deleted_with) and state.deleted_with in context.books.deletes
        leave = state.external or state.retain_on_delete or gone_with_another
        if state.custom and not leave and not context.options.preview:
            provider = await context.provider_for(state)

            existing = Existing(state.id, state.inputs, state.outputs)
            timeout_s = state.custom_timeouts.delete_s
            try:
                await hooks.with_retries(
                    "delete", state, None, lambda: provider.delete(state.urn, existing, timeout_s)
                )
            except ProviderDied as died:
                return Outcome(died, lost=True)
        if self.before_create:
            self.old.change(pending_replacement=True)
        await hooks.run_after("AfterDelete", state, None)
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        if not outcome.took_effect:
            await super().end(context, number, outcome)
        elif self.before_create:
            await context.live.end(number, amends=[self.old])
        else:
            await context.live.end(number, drops=[self.old])


class RemovePendingReplaceStep(Step):
    """A resource that was deleted for a replacement that never came leaves the state."""

    op = Op.REMOVE_PENDING_REPLACE
    logical = False
    old: Entry

    @property
    def internal(self) -> bool:
        return True

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        await context.live.end(None, drops=[self.old])

"""Removing a resource."""

from __future__ import annotations

from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.graph import Entry
from tidepool.engine.deployment.steps.step import SUCCESS, Outcome, Step
from tidepool.engine.events import Op
from tidepool.engine.providers.contract import (
    ProviderDied,
)


class DeleteProtected(Exception):
    """A protected resource stands in the way; other deletes may go on, so that all are told at once."""


class DeleteStep(Step):
    """A resource is removed; with ``replacing``, because another takes its place.

    ``before_create`` says that it is removed first: its state stays, marked, until the new one is there.
    """

    pending = "deleting"

    def __init__(self, old: Entry, *, replacing: bool = False, before_create: bool = False) -> None:
        super().__init__(old, None)
        self.replacing = replacing
        self.before_create = before_create
        self.logical = not replacing
        if old.state.external:
            self.op = Op.DISCARD_REPLACED if replacing else Op.READ_DISCARD
        else:
            self.op = Op.DELETE_REPLACED if replacing else Op.DELETE

    async def apply(self, context: Context) -> Outcome:
        assert self.old
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

            async def delete() -> None:
                await provider.delete(
                    state.urn, state.id, state.inputs, state.outputs, state.custom_timeouts.delete_s
                )

            try:
                await hooks.with_retries("delete", state, None, delete)
            except ProviderDied as died:
                return Outcome(died, lost=True)
        if self.before_create:
            self.old.change(pending_replacement=True)
        await hooks.run_after("AfterDelete", state, None)
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        assert self.old
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

    def __init__(self, old: Entry) -> None:
        super().__init__(old, None)

    @property
    def internal(self) -> bool:
        return True

    async def apply(self, context: Context) -> Outcome:
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        assert self.old
        await context.live.end(None, drops=[self.old])

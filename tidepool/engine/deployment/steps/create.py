"""Making a resource, and putting it in the place of another."""

from __future__ import annotations

from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.graph import Entry
from tidepool.engine.deployment.steps.step import SUCCESS, Answer, Outcome, Step, mark_secrets, now
from tidepool.engine.events import Op
from tidepool.engine.providers.contract import (
    CreateResult,
    DiffResult,
    InitializationFailed,
    ProviderDied,
)


class CreateStep(Step):
    """A resource is made; with ``old``, in the place of another.

    ``pending_delete`` leaves the old one to be deleted at the end of the operation.
    """

    pending = "creating"

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
        if diff is not None:
            self.diffs, self.detailed_diff = diff.changed_keys, diff.detailed_diff

    async def apply(self, context: Context) -> Outcome:
        assert self.new
        hooks = context.hooks
        await hooks.run("BeforeCreate", None, self.new.state)
        outcome = SUCCESS
        created = CreateResult("", {})
        if self.new.state.custom:
            provider = await context.provider_for(self.new.state)

            async def create() -> CreateResult:
                assert self.new
                state = self.new.state
                return await provider.create(
                    state.urn, state.inputs, state.custom_timeouts.create_s, context.options.preview
                )

            try:
                created = await hooks.with_retries("create", None, self.new.state, create)
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
        assert self.new
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
        if diff is not None:
            self.diffs, self.detailed_diff = diff.changed_keys, diff.detailed_diff

    async def apply(self, context: Context) -> Outcome:
        return SUCCESS

"""Resources that exist already: looked up, or taken into the stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tidepool.engine.compare import equal
from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.graph import Entry
from tidepool.engine.deployment.steps.step import SUCCESS, Answer, Outcome, Step, mark_secrets, now
from tidepool.engine.events import Op, StepMetadata
from tidepool.engine.providers.contract import (
    InitializationFailed,
)
from tidepool.engine.wire import UNKNOWN_STRING


class ReadStep(Step):
    """A resource that the program does not own is looked up."""

    pending = "reading"

    def __init__(self, old: Entry | None, new: Entry, answer: Answer, *, replacing: bool = False) -> None:
        super().__init__(old, new, answer)
        self.op = Op.READ_REPLACEMENT if replacing else Op.READ
        self.replacing = replacing
        self.logical = not replacing

    @property
    def counts(self) -> bool:
        """True where the read found anything new: one that did not is not worth a line in the summary."""
        return (
            self.old is not None
            and self.new is not None
            and not equal(self.old.state.outputs, self.new.state.outputs)
        )

    async def apply(self, context: Context) -> Outcome:
        assert self.new
        state = self.new.state
        outcome = SUCCESS
        if state.id == UNKNOWN_STRING:
            self.new.change(outputs={})
        else:
            provider = await context.provider_for(state)
            try:
                found = await provider.read(
                    state.urn, state.id, state.inputs, state.inputs, state.custom_timeouts.read_s
                )
                id, outputs = found.id, found.outputs
            except InitializationFailed as failed:
                id, outputs = failed.id, failed.outputs
                self.new.change(init_errors=failed.reasons)
                outcome = Outcome(failed, partial=True)
            if outputs is None or (not id and not outputs):
                return Outcome(LookupError(f"resource '{state.id}' does not exist"))
            self.new.change(outputs=outputs, id=id or state.id)
        mark_secrets(self.new)
        if self.old is not None:
            old = self.old.state
            changed = not equal(state.inputs, old.inputs) or not equal(self.new.state.outputs, old.outputs)
            self.new.change(created=old.created, modified=now() if changed else old.modified)
            if self.replacing:
                self.old.change(delete=True)
        return outcome

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        assert self.new
        if not outcome.took_effect:
            await super().end(context, number, outcome)
        elif self.replacing and self.old is not None:
            await context.live.end(number, puts=[self.new], amends=[self.old])
        else:
            drops = [self.old] if self.old is not None and self.old.number != self.new.number else []
            await context.live.end(number, puts=[self.new], drops=drops)


class ImportStep(Step):
    """A resource that exists becomes one of the stack, as its provider reads it; with ``old``, in the place of another.

    It does not answer the registration where it succeeds: the difference to what the program says is made next.
    """

    pending = "importing"

    def __init__(self, old: Entry | None, new: Entry, answer: Answer) -> None:
        super().__init__(old, new, answer)
        self.op = Op.IMPORT if old is None else Op.IMPORT_REPLACEMENT
        self.logical = old is None

    def metadata(self) -> StepMetadata:
        # What was read stands for what was there before: so a display shows no difference.
        assert self.new
        state = self.new.state
        return replace(super().metadata(), old=state if state.id else None)

    async def apply(self, context: Context) -> Outcome:
        assert self.new
        state = self.new.state
        provider = await context.provider_for(state)
        try:
            found = await provider.read(state.urn, state.import_id, {}, {}, state.custom_timeouts.read_s)
            id, inputs, outputs, refreshes = (
                found.id,
                found.inputs,
                found.outputs,
                found.refresh_before_update,
            )
        except InitializationFailed as failed:
            # It is there, and is known to be unwell: the update that follows tries to mend it.
            id, inputs, outputs, refreshes = failed.id, failed.inputs, failed.outputs, False
            self.new.change(init_errors=failed.reasons)
        # Without an id, but with inputs, answers a provider that a preview cannot configure yet.
        if outputs is None or (not id and inputs is None):
            return Outcome(LookupError(f"resource '{state.import_id}' does not exist"))
        if inputs is None:
            package = state.type.split(":", 1)[0]
            return Outcome(
                LookupError(
                    f"provider does not support importing resources; please try updating the '{package}' plugin"
                )
            )
        moment = now()
        self.new.change(
            id=id or state.import_id,
            inputs=inputs,
            outputs=outputs,
            refresh_before_update=refreshes,
            created=moment,
            modified=moment,
        )
        mark_secrets(self.new)
        if self.old is not None and not self.old.state.pending_replacement:
            self.old.change(delete=True)
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        assert self.new
        if not outcome.took_effect:
            await super().end(context, number, outcome)
            return
        gone = self.old is not None and self.old.state.pending_replacement
        olds = [self.old] if self.old is not None else []
        await context.live.end(
            number, puts=[self.new], amends=[] if gone else olds, drops=olds if gone else []
        )

    def respond(self, result: Literal["success", "failed", "skipped"]) -> None:
        if result != "success":
            super().respond(result)

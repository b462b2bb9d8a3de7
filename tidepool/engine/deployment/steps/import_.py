"""Taking a resource that exists into the stack."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.steps.step import SUCCESS, Answer, Outcome, Step, keep_secrets, now
from tidepool.engine.events import Op, StepMetadata
from tidepool.engine.providers.contract import InitializationFailed

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


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

    async def apply(self, deployment: Deployment) -> Outcome:
        assert self.new
        state = self.new.state
        provider = await deployment.provider_for(state)
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
        keep_secrets(self.new)
        if self.old is not None and not self.old.state.pending_replacement:
            self.old.change(delete=True)
        return SUCCESS

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        assert self.new
        if not outcome.took_effect:
            await super().end(deployment, number, outcome)
            return
        gone = self.old is not None and self.old.state.pending_replacement
        olds = [self.old] if self.old is not None else []
        await deployment.live.end(
            number, puts=[self.new], amends=[] if gone else olds, drops=olds if gone else []
        )

    def respond(self, result: Literal["success", "failed", "skipped"]) -> None:
        if result != "success":
            super().respond(result)

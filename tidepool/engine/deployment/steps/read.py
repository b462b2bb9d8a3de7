"""Looking up a resource that the program does not own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidepool.engine.compare import equal
from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.steps.step import SUCCESS, Answer, Outcome, Step, keep_secrets, now
from tidepool.engine.events import Op
from tidepool.engine.providers.contract import (
    InitializationFailed,
)
from tidepool.engine.wire import UNKNOWN_STRING

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


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
        """Whether the read found anything new: a read that did not is not worth a line in the summary."""
        return (
            self.old is not None
            and self.new is not None
            and not equal(self.old.state.outputs, self.new.state.outputs)
        )

    async def apply(self, deployment: Deployment) -> Outcome:
        assert self.new
        state = self.new.state
        outcome = SUCCESS
        if state.id == UNKNOWN_STRING:
            self.new.change(outputs={})
        else:
            provider = await deployment.provider_for(state)
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
        keep_secrets(self.new)
        if self.old is not None:
            old = self.old.state
            changed = not equal(state.inputs, old.inputs) or not equal(self.new.state.outputs, old.outputs)
            self.new.change(created=old.created, modified=now() if changed else old.modified)
            if self.replacing:
                self.old.change(delete=True)
        return outcome

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        assert self.new
        if not outcome.took_effect:
            await super().end(deployment, number, outcome)
        elif self.replacing and self.old is not None:
            await deployment.live.end(number, puts=[self.new], amends=[self.old])
        else:
            drops = [self.old] if self.old is not None and self.old.number != self.new.number else []
            await deployment.live.end(number, puts=[self.new], drops=drops)

"""Changing a resource in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.steps.step import SUCCESS, Answer, Outcome, Step, keep_secrets, now
from tidepool.engine.events import Op
from tidepool.engine.providers.contract import (
    DiffResult,
    InitializationFailed,
    ProviderDied,
    UpdateResult,
)

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


class UpdateStep(Step):
    """A resource is changed in place."""

    op = Op.UPDATE
    pending = "updating"

    def __init__(self, old: Entry, new: Entry, answer: Answer, diff: DiffResult) -> None:
        super().__init__(old, new, answer)
        self.diffs, self.detailed_diff = diff.changed_keys, diff.detailed_diff

    async def begin(self, deployment: Deployment) -> int | None:
        assert self.old and self.new
        old = self.old.state
        self.new.change(id=old.id, created=old.created, modified=old.modified)
        return await super().begin(deployment)

    async def apply(self, deployment: Deployment) -> Outcome:
        assert self.old and self.new
        old = self.old.state
        hooks = deployment.hooks
        self.new.change(id=old.id, created=old.created, modified=old.modified)
        await hooks.run("BeforeUpdate", old, self.new.state)
        outcome = SUCCESS
        if self.new.state.custom:
            provider = await deployment.provider_for(self.new.state)

            async def update() -> UpdateResult:
                assert self.new
                new = self.new.state
                return await provider.update(
                    new.urn,
                    old.id,
                    old.inputs,
                    old.outputs,
                    new.inputs,
                    new.custom_timeouts.update_s,
                    new.ignore_changes,
                    deployment.options.preview,
                )

            try:
                updated = await hooks.with_retries("update", old, self.new.state, update)
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
        keep_secrets(self.new)
        if outcome.error is None and old.custom:
            await hooks.run_after("AfterUpdate", old, self.new.state)
        return outcome

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        assert self.new
        if outcome.took_effect:
            await deployment.live.end(number, puts=[self.new])
        else:
            await super().end(deployment, number, outcome)

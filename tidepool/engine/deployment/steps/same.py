"""A step that changes nothing outside the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from tidepool.engine.compare import equal
from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.steps.step import (
    SUCCESS,
    Answer,
    Outcome,
    Registered,
    Step,
)
from tidepool.engine.errors import EngineError
from tidepool.engine.events import Op
from tidepool.engine.providers.contract import (
    ProviderError,
)
from tidepool.engine.resource import ResourceState

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


class SameStep(Step):
    """Nothing changes, but for what does not concern the provider.

    ``skipped_create`` says that the resource is not there and is not to be made in this operation;
    ``untargeted`` that nobody looked whether it changed.
    """

    op = Op.SAME

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

    async def apply(self, deployment: Deployment) -> Outcome:
        assert self.old and self.new
        old = self.old.state
        new = self.new.change(id=old.id, outputs=old.outputs)
        if new.is_provider and not self.skipped_create and not self.untargeted:
            try:
                # The old inputs: a provider that ignores a change is run as it was configured before.
                await deployment.registry.same(replace(new, inputs=old.inputs), checked=True)
            except (ProviderError, EngineError) as error:
                return Outcome(ProviderError(f"bad provider state for resource {self.urn}: {error}"))
        return SUCCESS

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        assert self.old and self.new
        if self.skipped_create or not outcome.took_effect:
            return
        if self.old.state == self.new.state:
            await deployment.live.end(None, keeps=[self.new], durable=False)
        else:
            # Where only the place in the program differs, nothing is lost if it is not on disk yet.
            durable = not unchanged(self.old.state, self.new.state)
            await deployment.live.end(None, puts=[self.new], durable=durable)

    def respond(self, result: Literal["success", "failed", "skipped"]) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(Registered(self.subject.state, result, unknown=self.skipped_create))


def unchanged(old: ResourceState, new: ResourceState) -> bool:
    """Whether nothing worth writing differs; where in the program a resource stands is not."""
    return (
        old.urn == new.urn
        and old.type == new.type
        and old.custom == new.custom
        and old.custom_timeouts == new.custom_timeouts
        and old.retain_on_delete == new.retain_on_delete
        and old.provider == new.provider
        and old.parent == new.parent
        and old.deleted_with == new.deleted_with
        and old.replace_with == new.replace_with
        and old.protect == new.protect
        and old.taint == new.taint
        and old.ignore_changes == new.ignore_changes
        and old.replace_on_changes == new.replace_on_changes
        and old.additional_secret_outputs == new.additional_secret_outputs
        and set(old.dependencies) == set(new.dependencies)
        and _same_dependencies(old.property_dependencies, new.property_dependencies)
        and old.resource_hooks == new.resource_hooks
        and equal(old.replacement_trigger, new.replacement_trigger)
        and equal(old.inputs, new.inputs)
        and equal(old.outputs, new.outputs)
    )


def _same_dependencies(old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]) -> bool:
    return old == new or {k: set(v) for k, v in old.items() if v} == {k: set(v) for k, v in new.items() if v}

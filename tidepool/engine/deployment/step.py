"""The steps of an operation: what is to be done to one resource, and the doing of it.

A step is decided by the generator and done by the executor, in three acts: ``begin`` records the intent,
``apply`` has the effect, ``end`` records what it came to. A preview applies without effects and records
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from tidepool.engine.compare import equal
from tidepool.engine.deployment.entry import Entry
from tidepool.engine.errors import EngineError
from tidepool.engine.events import Op, PropertyDiff, StepMetadata
from tidepool.engine.providers.contract import (
    CreateResult,
    DiffResult,
    InitializationFailed,
    ProviderDied,
    ProviderError,
    UpdateResult,
)
from tidepool.engine.resource import OperationType, ResourceState
from tidepool.engine.values import Properties, Secret, secret
from tidepool.engine.wire import UNKNOWN_STRING

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


class DeleteProtected(Exception):
    """A protected resource stands in the way; other deletes may go on, so that all are told at once."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration. ``unknown`` is set where a create was left out."""

    state: ResourceState
    result: Literal["success", "failed", "skipped"] = "success"
    unknown: bool = False


#: Where the answer to a registration is awaited; None for steps that the engine made by itself.
Answer = asyncio.Future[Registered] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What applying a step came to.

    ``partial`` says that the resource is there in spite of the error; ``lost`` that nobody knows.
    """

    error: Exception | None = None
    partial: bool = False
    lost: bool = False

    @property
    def took_effect(self) -> bool:
        """Whether the state is to be changed."""
        return self.error is None or self.partial


SUCCESS: Final = Outcome()


class Step:
    """What is to be done to one resource. ``old`` and ``new`` are it before and after."""

    op: Op
    #: Whether the step is one that the program asked for, not a part of a larger one.
    logical: bool = True
    pending: OperationType | None = None
    keys: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    detailed_diff: Mapping[str, PropertyDiff] | None = None

    def __init__(self, old: Entry | None, new: Entry | None, answer: Answer = None) -> None:
        self.old = old
        self.new = new
        self.answer = answer

    @property
    def result_op(self) -> Op:
        """The op that the step is counted as."""
        return self.op

    @property
    def subject(self) -> Entry:
        """The resource that the step is about."""
        entry = self.new or self.old
        assert entry is not None
        return entry

    @property
    def urn(self) -> str:
        """The resource's URN."""
        return self.subject.urn

    @property
    def internal(self) -> bool:
        """Whether the step is the engine's own business: default providers, book-keeping."""
        return is_default_provider(self.urn)

    def metadata(self) -> StepMetadata:
        """The step as events tell of it."""
        state = self.subject.state
        return StepMetadata(
            op=self.result_op,
            urn=state.urn,
            type=state.type,
            provider=state.provider,
            old=self.old.state if self.old else None,
            new=self.new.state if self.new else None,
            keys=self.keys,
            diffs=self.diffs,
            detailed_diff=self.detailed_diff,
            logical=self.logical,
        )

    async def begin(self, deployment: Deployment) -> int | None:
        """Record durably what is about to be done."""
        if self.pending is None:
            return None
        return await deployment.live.begin(self.pending, self.subject.state)

    async def apply(self, deployment: Deployment) -> Outcome:
        """Do it."""
        raise NotImplementedError

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        """Record what it came to."""
        if self.pending is not None and not outcome.lost:
            await deployment.live.end(number)

    def respond(self, result: Literal["success", "failed", "skipped"]) -> None:
        """Answer the registration that asked for the step."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(Registered(self.subject.state, result))


def is_default_provider(urn: str) -> bool:
    """Whether the URN is that of a provider that the engine made by itself."""
    _, _, rest = urn.partition("::pulumi:providers:")
    name = rest.rpartition("::")[2]
    return bool(rest) and (name == "default" or name.startswith("default_"))


def now() -> str:
    """The time as the checkpoint writes it: UTC, RFC 3339."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


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


def _same_dependencies(
    old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]
) -> bool:
    return old == new or {k: set(v) for k, v in old.items() if v} == {
        k: set(v) for k, v in new.items() if v
    }


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

    async def apply(self, deployment: Deployment) -> Outcome:
        assert self.new
        hooks = deployment.hooks
        await hooks.run("BeforeCreate", None, self.new.state)
        outcome = SUCCESS
        created = CreateResult("", {})
        if self.new.state.custom:
            provider = await deployment.provider_for(self.new.state)

            async def create() -> CreateResult:
                assert self.new
                state = self.new.state
                return await provider.create(
                    state.urn, state.inputs, state.custom_timeouts.create_s, deployment.options.preview
                )

            try:
                created = await hooks.with_retries("create", None, self.new.state, create)
            except InitializationFailed as failed:
                created = CreateResult(failed.id, failed.outputs)
                self.new.change(init_errors=failed.reasons)
                outcome = Outcome(failed, partial=True)
            except ProviderDied as died:
                return Outcome(died, lost=True)
            if not created.id and not deployment.options.preview:
                return Outcome(ValueError("provider did not return an ID from Create"))
        moment = now()
        self.new.change(
            id=created.id,
            outputs=created.outputs,
            refresh_before_update=created.refresh_before_update,
            created=moment,
            modified=moment,
        )
        keep_secrets(self.new)
        if self.old is not None and self.pending_delete:
            self.old.change(delete=True)
        if outcome.error is None and self.new.state.custom:
            await hooks.run_after("AfterCreate", None, self.new.state)
        return outcome

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        assert self.new
        if not outcome.took_effect:
            await super().end(deployment, number, outcome)
            return
        amends = [self.old] if self.old is not None and self.pending_delete else []
        drops = [self.old] if self.old is not None and self.old.state.pending_replacement else []
        await deployment.live.end(number, puts=[self.new], amends=amends, drops=drops)


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

    async def apply(self, deployment: Deployment) -> Outcome:
        return SUCCESS


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

    async def apply(self, deployment: Deployment) -> Outcome:
        assert self.old
        state = self.old.state
        hooks = deployment.hooks
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
        gone_with_another = bool(state.deleted_with) and state.deleted_with in deployment.generator.deletes
        leave = state.external or state.retain_on_delete or gone_with_another
        if state.custom and not leave and not deployment.options.preview:
            provider = await deployment.provider_for(state)

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

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        assert self.old
        if not outcome.took_effect:
            await super().end(deployment, number, outcome)
        elif self.before_create:
            await deployment.live.end(number, amends=[self.old])
        else:
            await deployment.live.end(number, drops=[self.old])


class RemovePendingReplaceStep(Step):
    """A resource that was deleted for a replacement that never came leaves the state."""

    op = Op.REMOVE_PENDING_REPLACE
    logical = False

    def __init__(self, old: Entry) -> None:
        super().__init__(old, None)

    @property
    def internal(self) -> bool:
        return True

    async def apply(self, deployment: Deployment) -> Outcome:
        return SUCCESS

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        assert self.old
        await deployment.live.end(None, drops=[self.old])


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
            changed = not equal(state.inputs, old.inputs) or not equal(
                self.new.state.outputs, old.outputs
            )
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


class RefreshStep(Step):
    """A resource's state is compared with what the provider finds.

    ``in_program`` is set where the step comes from a registration: then its result is recorded at once,
    in its place; else the refresh as a whole rebuilds the state when all its steps are done.
    """

    op = Op.REFRESH
    logical = False

    def __init__(self, old: Entry, *, in_program: bool = False) -> None:
        super().__init__(old, old)
        self.in_program = in_program
        self.before = old.state
        self._changed = False

    @property
    def internal(self) -> bool:
        return super().internal or (self.in_program and (not self.before.custom or self.before.is_provider))

    @property
    def subject(self) -> Entry:
        assert self.old
        return self.old

    @property
    def gone(self) -> bool:
        """Whether the provider no longer has the resource."""
        return self.new is None

    @property
    def result_op(self) -> Op:
        if self.gone:
            return Op.DELETE
        return Op.UPDATE if self._changed else Op.SAME

    def metadata(self) -> StepMetadata:
        metadata = super().metadata()
        return replace(metadata, op=Op.REFRESH, old=self.before)

    async def apply(self, deployment: Deployment) -> Outcome:
        assert self.old
        before = self.before
        if not before.custom or before.is_provider or before.pending_replacement:
            return SUCCESS
        provider = await deployment.provider_for(before)
        reasons: tuple[str, ...] = ()
        try:
            found = await provider.read(
                before.urn, before.id, before.inputs, before.outputs, before.custom_timeouts.read_s
            )
            id, inputs, outputs = found.id, found.inputs, found.outputs
        except InitializationFailed as failed:
            id, inputs, outputs, reasons = failed.id, failed.inputs, failed.outputs, failed.reasons
            listed = "\n* ".join(reasons)
            deployment.warn(f"Refreshed resource is in an unhealthy state:\n* {listed}", before.urn)
        if not id or outputs is None:
            self.new = None
            return SUCCESS
        inputs = before.inputs if inputs is None else inputs
        after = self.old.change(id=id, inputs=inputs, outputs=outputs, init_errors=reasons)
        after = keep_secrets(self.old)
        if not equal(after.inputs, before.inputs) or not equal(after.outputs, before.outputs):
            self.old.change(modified=now())
        if before.external:
            self._changed = not equal(after.outputs, before.outputs)
            return SUCCESS
        # The difference that the next update would see, told from the other side.
        diff = await deployment.diff(provider, after.urn, after.id, after.inputs, after.outputs, before)
        inverse = inverted(diff)
        self._changed = diff.changes != "none"
        self.diffs, self.detailed_diff = inverse.changed_keys, inverse.detailed_diff
        return SUCCESS

    async def end(self, deployment: Deployment, number: int | None, outcome: Outcome) -> None:
        if not self.in_program or outcome.error is not None:
            return
        assert self.old
        if self.gone:
            await deployment.live.end(None, drops=[self.old])
        else:
            await deployment.live.end(None, amends=[self.old])


_INVERSE: Final = {
    "add": "delete",
    "add-replace": "delete-replace",
    "delete": "add",
    "delete-replace": "add-replace",
}


def inverted(diff: DiffResult) -> DiffResult:
    """The same difference with old and new changed over."""
    if diff.detailed_diff is None:
        return diff
    detailed = {
        path: PropertyDiff(_INVERSE.get(d.kind, d.kind), d.input_diff)  # type: ignore[arg-type]
        for path, d in diff.detailed_diff.items()
    }
    return replace(diff, detailed_diff=detailed)


def keep_secrets(entry: Entry) -> ResourceState:
    """Mark the outputs that are secret by option, or equal by key to a secret input."""
    state = entry.state
    if not state.outputs:
        return state
    marked = {k for k in state.additional_secret_outputs if k != "id"}
    marked.update(k for k, v in state.inputs.items() if isinstance(v, Secret))
    if not any(k in marked and not isinstance(v, Secret) for k, v in state.outputs.items()):
        return state
    outputs: Properties = {k: secret(v) if k in marked else v for k, v in state.outputs.items()}
    return entry.change(outputs=outputs)

"""Steps that look at what exists: a resource is looked up, taken into the stack, or compared with its state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, Literal

from tidepool.engine.deployment.diffing import with_engine_diff
from tidepool.engine.deployment.live import Entry
from tidepool.engine.deployment.step import SUCCESS, Answer, Context, Outcome, Step, mark_secrets, now
from tidepool.engine.events import Op, PropertyDiff, StepMetadata
from tidepool.engine.providers.contract import DiffResult, Existing, InitializationFailed
from tidepool.engine.state.references import repaired, without_empty
from tidepool.engine.value_json import UNKNOWN_STRING
from tidepool.engine.values import equal


class ReadStep(Step):
    """A resource that the program does not own is looked up."""

    pending = "reading"
    new: Entry

    def __init__(self, old: Entry | None, new: Entry, answer: Answer, *, replacing: bool = False) -> None:
        super().__init__(old, new, answer)
        self.op = Op.READ_REPLACEMENT if replacing else Op.READ
        self.replacing = replacing
        self.logical = not replacing

    @property
    def counts(self) -> bool:
        """True where the read found anything new: one that did not is not worth a line in the summary."""
        return self.old is not None and not equal(self.old.state.outputs, self.new.state.outputs)

    async def apply(self, context: Context) -> Outcome:
        state = self.new.state
        outcome = SUCCESS
        if state.id == UNKNOWN_STRING:
            self.new.change(outputs={})
        else:
            provider = await context.provider_for(state)
            try:
                sought = Existing(state.id, state.inputs, state.inputs)
                found = await provider.read(state.urn, sought, state.custom_timeouts.read_s)
            except InitializationFailed as failed:
                found = failed.found
                self.new.change(init_errors=failed.reasons)
                outcome = Outcome(failed, partial=True)
            if found.outputs is None or (not found.id and not found.outputs):
                return Outcome(LookupError(f"resource '{state.id}' does not exist"))
            self.new.change(outputs=found.outputs, id=found.id or state.id)
        mark_secrets(self.new)
        if self.old is not None:
            old = self.old.state
            changed = not equal(state.inputs, old.inputs) or not equal(self.new.state.outputs, old.outputs)
            self.new.change(created=old.created, modified=now() if changed else old.modified)
            if self.replacing:
                self.old.change(delete=True)
        return outcome

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
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
    new: Entry

    def __init__(self, old: Entry | None, new: Entry, answer: Answer) -> None:
        super().__init__(old, new, answer)
        self.op = Op.IMPORT if old is None else Op.IMPORT_REPLACEMENT
        self.logical = old is None

    def metadata(self) -> StepMetadata:
        # What was read stands for what was there before: so a display shows no difference.
        state = self.new.state
        return replace(super().metadata(), old=state if state.id else None)

    async def apply(self, context: Context) -> Outcome:
        state = self.new.state
        provider = await context.provider_for(state)
        try:
            sought = Existing(state.import_id, {}, {})
            found = await provider.read(state.urn, sought, state.custom_timeouts.read_s)
        except InitializationFailed as failed:
            # It is there, and is known to be unwell: the update that follows tries to mend it.
            found = failed.found
            self.new.change(init_errors=failed.reasons)
        # Without an id, but with inputs, answers a provider that a preview cannot configure yet.
        if found.outputs is None or (not found.id and found.inputs is None):
            return Outcome(LookupError(f"resource '{state.import_id}' does not exist"))
        if found.inputs is None:
            package = state.type.split(":", 1)[0]
            return Outcome(
                LookupError(
                    f"provider does not support importing resources; please try updating the '{package}' plugin"
                )
            )
        moment = now()
        self.new.change(
            id=found.id or state.import_id,
            inputs=found.inputs,
            outputs=found.outputs,
            refresh_before_update=found.refresh_before_update,
            created=moment,
            modified=moment,
        )
        mark_secrets(self.new)
        if self.old is not None and not self.old.state.pending_replacement:
            self.old.change(delete=True)
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
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


class RefreshStep(Step):
    """A resource's state is compared with what the provider finds.

    ``in_program`` is set where the step comes from a registration: then its result is recorded at once,
    in its place; else the refresh as a whole rebuilds the state when all its steps are done.
    """

    op = Op.REFRESH
    logical = False
    old: Entry

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
        return self.old

    @property
    def gone(self) -> bool:
        """True where the provider no longer has the resource."""
        return self.new is None

    @property
    def result_op(self) -> Op:
        if self.gone:
            return Op.DELETE
        return Op.UPDATE if self._changed else Op.SAME

    def metadata(self) -> StepMetadata:
        metadata = super().metadata()
        return replace(metadata, op=Op.REFRESH, old=self.before)

    async def apply(self, context: Context) -> Outcome:
        before = self.before
        if not before.custom or before.is_provider or before.pending_replacement:
            # As the CLI has it: nobody looked, and where the state is recorded anew that counts as a change.
            self._changed = self.in_program
            return SUCCESS
        provider = await context.provider_for(before)
        reasons: tuple[str, ...] = ()
        try:
            known = Existing(before.id, before.inputs, before.outputs)
            found = await provider.read(before.urn, known, before.custom_timeouts.read_s)
        except InitializationFailed as failed:
            found, reasons = failed.found, failed.reasons
            listed = "\n* ".join(reasons)
            context.status.warn(f"Refreshed resource is in an unhealthy state:\n* {listed}", before.urn)
        if not found.id or found.outputs is None:
            self.new = None
            return SUCCESS
        inputs = before.inputs if found.inputs is None else found.inputs
        after = self.old.change(id=found.id, inputs=inputs, outputs=found.outputs, init_errors=reasons)
        if not equal(after.inputs, before.inputs) or not equal(after.outputs, before.outputs):
            self.old.change(modified=now())
        marked = mark_secrets(self.old)  # after the comparison above, as in the CLI; nor does a diff see it
        if before.external:
            self._changed = not equal(marked.outputs, before.outputs)
            return SUCCESS
        # The difference that the next update would see, told from the other side.
        found_now = Existing(after.id, after.inputs, after.outputs)
        diff = await provider.diff(after.urn, found_now, before.inputs, before.ignore_changes)
        diff = with_engine_diff(diff, after.inputs, before.inputs)
        self._changed = diff.changes != "none"
        self._explain(inverted(diff))
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        if not self.in_program or outcome.error is not None:
            return
        if self.gone:
            await take_up(context, [self.old])
        else:
            await context.live.end(None, amends=[self.old])


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


async def take_up(context: Context, gone: Collection[Entry], changed: Collection[Entry] = ()) -> None:
    """Go on without what is ``gone``, and with what a refresh found ``changed``; both are recorded as one.

    What the program already made something of is recorded as that.
    """
    kept = [entry for entry in context.live.entries if entry not in gone]
    before = [entry.state for entry in kept]
    amends: list[Entry] = []
    for entry, old, state in zip(kept, before, map(without_empty, repaired(before)), strict=True):
        entry.state = state
        if (state is not old or entry in changed) and not context.books.is_decided(entry):
            amends.append(entry)
    context.live.rebase(kept)
    if amends or gone:
        await context.live.end(None, amends=amends, drops=gone, mends=bool(gone))

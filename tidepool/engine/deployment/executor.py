"""Doing steps: several at a time, each recorded before and after, until one fails or a person stops it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tidepool.engine.deployment.reads import ReadStep, RefreshStep
from tidepool.engine.deployment.status import MonitorClosed
from tidepool.engine.deployment.step import Context, Outcome, Registered, Step
from tidepool.engine.deployment.steps import DeleteProtected
from tidepool.engine.events import Op, ResourceFailed, ResourceOutputs, ResourcePre
from tidepool.engine.providers.contract import ProviderError
from tidepool.engine.resource import ResourceState

#: What is known of a resource whose step failed, in Pulumi's numbers.
_AS_BEFORE, _PARTIAL, _UNKNOWN = range(3)


class Executor:
    """Does chains of steps. ``changes`` counts the steps done, by op."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._status, self._options = context.status, context.options
        self._slots = asyncio.Semaphore(context.options.parallel)
        self.changes: Counter[Op] = Counter()
        #: Steps that failed or were left out, in an operation that goes on: their resources are as they were.
        self.undone: list[Step] = []
        self.failed = False
        self.maybe_corrupt = False
        #: The step that answered for each URN, for outputs that are registered later.
        self.answered: dict[str, Step] = {}
        #: The states that resources of this operation came to, by URN, for those that look them up.
        self.states: dict[str, ResourceState] = {}
        #: URNs of resources that failed or were left out, in an operation that goes on after errors.
        self._skipped: set[str] = set()
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def drain(self) -> None:
        """Return when no step is under way any more."""
        await self._idle.wait()

    async def carry_out(self, steps: Sequence[Step], answer: asyncio.Future[Registered]) -> Registered:
        """Do the steps of one registration, but those whose dependencies failed; return the registration's answer."""
        runnable: list[Step] = []
        for step in steps:
            if self.is_barred(step.subject.state):
                step.respond("skipped")
                self.undone.append(step)
                self._skipped.add(step.urn)
            else:
                runnable.append(step)
        try:
            await self.run(runnable)
        finally:
            for step in steps:
                if step.old is not None and (over := self._context.books.pending_deletes.get(step.old)):
                    over.set()
        if not answer.done() and self._status.stopping.is_set():
            raise MonitorClosed
        return await answer

    def is_barred(self, state: ResourceState) -> bool:
        """Tell whether the resource needs one whose step failed or was left out."""
        return bool(self._skipped) and not self._skipped.isdisjoint(state.all_dependencies())

    async def run(self, chain: Sequence[Step], *, tolerant: bool = False) -> bool:
        """Do the steps of ``chain`` one after the other; False where one was not done.

        ``tolerant`` lets the operation go on whatever happens: for steps that do not build on each other.
        """
        if not chain:
            return True
        self._running += 1
        self._idle.clear()
        try:
            return await self._run(chain, tolerant)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _run(self, chain: Sequence[Step], tolerant: bool) -> bool:
        async with self._slots:
            for i, step in enumerate(chain):
                if self._status.stopping.is_set():
                    return False
                if not await self._do(step, tolerant):
                    for left_out in chain[i + 1 :]:
                        left_out.respond("failed")
                        self.undone.append(left_out)
                    return False
        return True

    async def _do(self, step: Step, tolerant: bool) -> bool:
        preview = self._options.preview
        self._status.emit(ResourcePre(step.metadata(), preview))
        number = await step.begin(self._context)
        try:
            outcome = await step.apply(self._context)
        except Exception as error:
            if self._status.is_fault(error):
                raise
            outcome = Outcome(error)
        if outcome.error is not None:
            self._report(step, outcome)
        await step.end(self._context, number, outcome)
        if outcome.error is None:
            self._succeeded(step)
            step.respond("success")
            if self._context.hooks.failed and not self._options.continue_on_error:
                self._status.stop()
            return True
        self._failed(step, outcome.error, tolerant)
        return False

    def _succeeded(self, step: Step) -> None:
        options = self._options
        if step.new is not None and step.op not in (Op.REPLACE, Op.REFRESH):
            self.states[step.urn] = step.new.state
            if step.logical or step.op is Op.CREATE_REPLACEMENT:
                self.answered[step.urn] = step
        op, counts = step.op, step.logical
        if isinstance(step, RefreshStep) and options.kind == "refresh":
            op, counts = step.result_op, True
        elif isinstance(step, ReadStep) and step.op is Op.READ:
            counts = step.counts
        if counts and not step.internal:
            self.changes[op] += 1
        state = step.subject.state
        if options.preview or state.custom or isinstance(step, RefreshStep) or step.op is Op.DELETE:
            metadata = replace(step.metadata(), op=op)
            self._status.emit(ResourceOutputs(metadata, options.preview))

    def _report(self, step: Step, outcome: Outcome) -> None:
        urn = "" if step.internal else step.urn
        message = str(outcome.error)
        if self._options.preview:
            self._status.error(f"Preview failed: {message}", urn)
            return
        status = _status(outcome)
        if status == _UNKNOWN:
            self.maybe_corrupt = True
        self._status.error(message, urn)
        self._status.emit(ResourceFailed(step.metadata(), status, sum(self.changes.values())))

    def _failed(self, step: Step, error: Exception, tolerant: bool) -> None:
        self.failed = True
        if tolerant:
            return
        if self._options.continue_on_error or isinstance(error, DeleteProtected):
            step.respond("failed")
            self.undone.append(step)
            self._skipped.add(step.urn)
        else:
            self._status.stop()


def _status(outcome: Outcome) -> int:
    if outcome.partial:
        return _PARTIAL
    unknown = isinstance(outcome.error, ProviderError) and outcome.error.state_unknown
    return _UNKNOWN if unknown else _AS_BEFORE

"""Doing steps: several at a time, each recorded before and after, until one fails or a person stops it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidepool.engine.deployment.steps.delete import DeleteProtected
from tidepool.engine.deployment.steps.read import ReadStep
from tidepool.engine.deployment.steps.refresh import RefreshStep
from tidepool.engine.deployment.steps.step import Outcome, Step
from tidepool.engine.events import Op, ResourceFailed, ResourceOutputs, ResourcePre
from tidepool.engine.providers.contract import ProviderError

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


#: What is known of a resource whose step failed, in Pulumi's numbers.
_AS_BEFORE, _PARTIAL, _UNKNOWN = range(3)


class Executor:
    """Does chains of steps. ``changes`` counts the steps done, by op."""

    def __init__(self, deployment: Deployment) -> None:
        self._d = deployment
        self._slots = asyncio.Semaphore(deployment.options.parallel)
        self.changes: Counter[Op] = Counter()
        #: Steps that failed or were left out, in an operation that goes on: their resources are as they were.
        self.undone: list[Step] = []
        self.failed = False
        self.maybe_corrupt = False
        #: The step that answered for each URN, for outputs that are registered later.
        self.answered: dict[str, Step] = {}
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def drain(self) -> None:
        """Return when no step is under way any more."""
        await self._idle.wait()

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
                if self._d.stopping.is_set():
                    return False
                if not await self._do(step, tolerant):
                    for left_out in chain[i + 1 :]:
                        left_out.respond("failed")
                        self.undone.append(left_out)
                    return False
        return True

    async def _do(self, step: Step, tolerant: bool) -> bool:
        preview = self._d.options.preview
        self._d.emit(ResourcePre(step.metadata(), preview))
        number = await step.begin(self._d)
        try:
            outcome = await step.apply(self._d)
        except Exception as error:
            if self._d.is_fault(error):
                raise
            outcome = Outcome(error)
        if outcome.error is not None:
            self._report(step, outcome)
        await step.end(self._d, number, outcome)
        if outcome.error is None:
            self._succeeded(step)
            step.respond("success")
            if self._d.hooks.failed and not self._d.options.continue_on_error:
                self._d.stop()
            return True
        self._failed(step, outcome.error, tolerant)
        return False

    def _succeeded(self, step: Step) -> None:
        d = self._d
        if step.new is not None and step.op not in (Op.REPLACE, Op.REFRESH):
            d.note_new(step)
            if step.logical or step.op is Op.CREATE_REPLACEMENT:
                self.answered[step.urn] = step
        op, counts = step.op, step.logical
        if isinstance(step, RefreshStep) and d.options.kind == "refresh":
            op, counts = step.result_op, True
        elif isinstance(step, ReadStep) and step.op is Op.READ:
            counts = step.counts
        if counts and not step.internal:
            self.changes[op] += 1
        state = step.subject.state
        if d.options.preview or state.custom or isinstance(step, RefreshStep) or step.op is Op.DELETE:
            metadata = replace(step.metadata(), op=op)
            d.emit(ResourceOutputs(metadata, d.options.preview))

    def _report(self, step: Step, outcome: Outcome) -> None:
        urn = "" if step.internal else step.urn
        message = str(outcome.error)
        if self._d.options.preview:
            self._d.error(f"Preview failed: {message}", urn)
            return
        status = _status(outcome)
        if status == _UNKNOWN:
            self.maybe_corrupt = True
        self._d.error(message, urn)
        self._d.emit(ResourceFailed(step.metadata(), status, sum(self.changes.values())))

    def _failed(self, step: Step, error: Exception, tolerant: bool) -> None:
        self.failed = True
        if tolerant:
            return
        if self._d.options.continue_on_error or isinstance(error, DeleteProtected):
            step.respond("failed")
            self.undone.append(step)
            self._d.skipped.add(step.urn)
        else:
            self._d.stop()


def _status(outcome: Outcome) -> int:
    if outcome.partial:
        return _PARTIAL
    unknown = isinstance(outcome.error, ProviderError) and outcome.error.state_unknown
    return _UNKNOWN if unknown else _AS_BEFORE

"""Registrations of a program: from a goal to the state that came of it."""

from __future__ import annotations

import asyncio

from tidepool.engine import urn as urns
from tidepool.engine.compare import equal
from tidepool.engine.deployment.executor import Executor
from tidepool.engine.deployment.generator import Generator
from tidepool.engine.deployment.goal import Goal, ReadGoal
from tidepool.engine.deployment.status import GoalError
from tidepool.engine.deployment.step import Context, Registered
from tidepool.engine.deployment.steps import CreateStep, SameStep, UpdateStep
from tidepool.engine.events import ResourceOutputs
from tidepool.engine.values import Properties


class Registrar:
    """Has steps decided on and done for each registration."""

    def __init__(self, context: Context, generator: Generator, executor: Executor) -> None:
        self._context = context
        self._generator = generator
        self._executor = executor
        self._stack_outputs: tuple[str, Properties] | None = None

    async def register(self, goal: Goal) -> Registered:
        """Bring one resource about, and say what became of it."""
        answer: asyncio.Future[Registered] = asyncio.get_running_loop().create_future()
        return await self._executor.carry_out(await self._generator.register(goal, answer), answer)

    async def read(self, goal: ReadGoal) -> Registered:
        """Look one resource up."""
        answer: asyncio.Future[Registered] = asyncio.get_running_loop().create_future()
        return await self._executor.carry_out(await self._generator.read(goal, answer), answer)

    async def register_outputs(self, urn: str, outputs: Properties) -> None:
        """Take the outputs of a component; those of the stack are kept until the end."""
        if urns.qualified_type_of(urn) == urns.ROOT_STACK_TYPE:
            self._stack_outputs = urn, outputs
            return
        await self._record(urn, outputs)

    async def record_stack_outputs(self, *, failed: bool) -> None:
        """Record the outputs of the stack, where the program told any; of one that ``failed`` the old ones stay, too."""
        if self._stack_outputs is None:
            return
        urn, outputs = self._stack_outputs
        if urn not in self._executor.answered:
            return
        old = self._context.live.old(urn)
        if failed and old is not None:
            # What is missing was perhaps only not reached: it is kept.
            outputs = {**old.state.outputs, **outputs}
        await self._record(urn, outputs)

    async def _record(self, urn: str, outputs: Properties) -> None:
        context = self._context
        step = self._executor.answered.pop(urn, None)
        if step is None:
            raise GoalError(f"cannot complete a resource '{urn}' whose registration isn't pending", urn)
        if isinstance(step, SameStep) and step.skipped_create:
            return
        assert step.new is not None
        before = step.new.state.outputs
        state = step.new.change(outputs=outputs)
        self._executor.states[urn] = state
        if not state.custom:
            if isinstance(step, CreateStep):
                await context.hooks.run_after("AfterCreate", None, state)
            elif isinstance(step, UpdateStep) and step.old is not None:
                await context.hooks.run_after("AfterUpdate", step.old.state, state)
        context.status.emit(ResourceOutputs(step.metadata(), context.options.preview))
        if not equal(before, outputs):
            await context.live.end(None, amends=[step.new])
        if context.hooks.failed and not context.options.continue_on_error:
            context.status.stop()

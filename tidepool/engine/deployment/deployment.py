"""One operation from beginning to end: refresh, program, deletes, and what became of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tidepool.engine import urn as urns
from tidepool.engine.compare import equal
from tidepool.engine.deployment import preconditions
from tidepool.engine.deployment.default_providers import DefaultProviders
from tidepool.engine.deployment.deletion import Deletion
from tidepool.engine.deployment.diffing import with_engine_diff
from tidepool.engine.deployment.endpoint import LocalMonitor, MonitorClosed, MonitorServer
from tidepool.engine.deployment.executor import Executor
from tidepool.engine.deployment.generator import Generator
from tidepool.engine.deployment.goal import Goal, ReadGoal
from tidepool.engine.deployment.graph import Graph
from tidepool.engine.deployment.hooks import HookFailed, Hooks
from tidepool.engine.deployment.live import Durable, LiveStack
from tidepool.engine.deployment.monitor import Monitor
from tidepool.engine.deployment.options import Options
from tidepool.engine.deployment.refresh import refresh
from tidepool.engine.deployment.registration import RequestRefused
from tidepool.engine.deployment.registry import Load, Registry
from tidepool.engine.deployment.steps.create import CreateStep
from tidepool.engine.deployment.steps.same import SameStep
from tidepool.engine.deployment.steps.step import Registered, Step
from tidepool.engine.deployment.steps.update import UpdateStep
from tidepool.engine.deployment.stopping import GoalError, Stopped
from tidepool.engine.errors import EngineError
from tidepool.engine.events import (
    Diagnostic,
    Event,
    EventSink,
    Op,
    Prelude,
    ResourceOutputs,
    Severity,
    Summary,
)
from tidepool.engine.providers.contract import DiffResult, Provider, ProviderError
from tidepool.engine.resource import ResourceState, Snapshot
from tidepool.engine.values import Properties, Value, contains_secrets

#: How long a program may take to end once it was told that the operation stops.
_PROGRAM_GRACE_S: Final = 10.0

#: Runs the program against a monitor; returns when it has ended. Raises ProgramFailed where it failed.
RunProgram = Callable[["Deployment"], Awaitable[None]]


class ProgramFailed(Exception):
    """The program ended with an error. ``reported`` says that it told the person why."""

    def __init__(self, message: str, *, reported: bool) -> None:
        super().__init__(message)
        self.reported = reported


@dataclass(frozen=True, slots=True)
class Request:
    """All that an operation needs to know.

    ``config`` holds full keys (``ns:name``) with typed values, secrets marked, for providers;
    ``program_config`` the same as plain texts, for the program. ``root`` is the folder of the project,
    ``working_folder`` that of the program.
    """

    stack: str
    project: str
    organization: str
    root: Path
    working_folder: Path
    options: Options
    base: Snapshot
    config: Properties = field(default_factory=dict)
    program_config: Mapping[str, str] = field(default_factory=dict)
    secret_config_keys: tuple[str, ...] = ()
    shown_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What an operation came to. ``changes`` counts steps by op."""

    result: Literal["succeeded", "failed", "canceled"]
    changes: Mapping[Op, int]
    snapshot: Snapshot


class Deployment:
    """The running operation. All of it, but for the program, runs on one event loop."""

    def __init__(
        self,
        request: Request,
        sink: EventSink,
        load: Load,
        run_program: RunProgram,
        durable: Durable | None,
    ) -> None:
        self.options: Options = request.options
        self.stack = request.stack
        self.project = request.project
        self.organization = request.organization
        self.root = str(request.root)
        self.working_folder = request.working_folder
        self.program_config = request.program_config
        self.secret_config_keys = request.secret_config_keys
        self._request = request
        self._sink = sink
        self._run_program = run_program
        self.live = LiveStack(request.base, durable)
        self.registry = Registry(load, self._old_provider)
        self.hooks = Hooks(self)
        self.generator = Generator(self)
        self.executor = Executor(self)
        self.default_providers = DefaultProviders(
            request.config, request.base.resources, self._register_default
        )
        self.graph = Graph(self.live.entries)
        self.refreshes_in_program = request.options.refresh and request.options.run_program
        #: URNs of resources that failed or were left out, in an operation that goes on after errors.
        self.skipped: set[str] = set()
        #: Set when no new steps are to be begun.
        self.stopping = asyncio.Event()
        #: The states that resources of this operation came to, for those that look them up.
        self.news: dict[str, ResourceState] = {}
        self._failed = False
        self._canceled = False
        self._abandoned = asyncio.Event()
        self._began = 0.0
        self._fault: BaseException | None = None
        self._finished = asyncio.Event()
        self._released = asyncio.Event()
        self._stack_outputs: tuple[str, Properties] | None = None
        self._monitor: Monitor | None = None
        self._local: LocalMonitor | None = None
        self._server: MonitorServer | None = None

    # -- running ---------------------------------------------------------------------------------------

    async def run(self) -> Result:
        """Do the operation.

        Raises:
            EngineError: where it cannot be begun: nothing was changed.
        """
        preconditions.refuse_impossible(self)
        began = self._began = time.monotonic()
        self.emit(Prelude(self._request.shown_config))
        try:
            errored = True
            try:
                await self._run()
                errored = False
            finally:
                await self._unless_abandoned(asyncio.ensure_future(self.executor.drain()))
                if self._stack_outputs is not None:
                    await self._record_stack_outputs(errored)
        except Stopped:
            self._failed = True
        except (GoalError, ProviderError, HookFailed, EngineError, OSError) as error:
            self.error(str(error), getattr(error, "urn", ""))
            self._failed = True
        finally:
            self._released.set()
            await self.registry.close_all()
            if self._monitor is not None:
                self._monitor.close()
            if self._server is not None:
                self._server.close()
        if self._fault is not None:
            raise self._fault
        return self._conclude(began)

    def _conclude(self, began: float) -> Result:
        result: Literal["succeeded", "failed", "canceled"] = "succeeded"
        kind = "preview" if self.options.preview else "update"
        if self._has_failed():
            result = "failed"
            if not self._failed:  # else it was told already why
                self.error(f"{kind} failed")
        elif self._canceled:
            result = "canceled"
            self.error(f"{kind} canceled")
        changes = dict(self.executor.changes)
        self.emit(
            Summary(
                self.options.preview,
                self.executor.maybe_corrupt,
                time.monotonic() - began,
                changes,
                # As the CLI has it: one that was canceled did not do what it should.
                "succeeded" if result == "succeeded" else "failed",
            )
        )
        return Result(result, changes, self.live.snapshot())

    async def _run(self) -> None:
        options = self.options
        before_update = any(e.state.refresh_before_update for e in self.live.entries)
        if options.refresh and not options.run_program:
            await refresh(self)
            if self._must_end() or options.kind == "refresh":
                return
        elif not options.refresh and not options.run_program and before_update:
            await refresh(self, only_before_update=True)
            if self._must_end():
                return
        elif self._request.base.pending_operations and not options.preview:
            preconditions.warn_of_pending(self, self._request.base.pending_operations)
        preconditions.require_known(self, options.replace)
        if options.kind == "update" or options.run_program:
            await self._with_program()
        else:
            await self._after_program()

    async def _with_program(self) -> None:
        program = asyncio.ensure_future(self._run_program(self))
        finished = asyncio.ensure_future(self._finished.wait())
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({program, finished, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if program.done() and not self.stopping.is_set():
                self._raise_program_error(program)
            if not self.stopping.is_set():
                await self._after_program()
        finally:
            self._released.set()
            finished.cancel()
            stopping.cancel()
            await self._await_end(program)
        if not self.stopping.is_set():
            self._raise_program_error(program)

    async def _await_end(self, program: asyncio.Future[None]) -> None:
        """Wait for the program; one that was told to end and does not is left behind, unless a person waits."""
        await self._unless_abandoned(asyncio.ensure_future(self.executor.drain()))
        hurry = self.stopping.is_set() and not self._canceled
        await self._unless_abandoned(program, timeout_s=_PROGRAM_GRACE_S if hurry else None)
        if not program.done():
            self.error("the program did not end after the operation had to stop")
            program.cancel()
        elif not program.cancelled():
            program.exception()  # it was taken note of: asyncio need not tell of it

    async def _unless_abandoned(self, awaited: asyncio.Future[None], timeout_s: float | None = None) -> None:
        """Wait for ``awaited``, but no longer than until the operation is to end at once."""
        abandoned = asyncio.ensure_future(self._abandoned.wait())
        awaiting: set[asyncio.Future[Any]] = {awaited, abandoned}
        await asyncio.wait(awaiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        abandoned.cancel()

    def abandoned(self) -> Result:
        """What an operation came to that was ended at once: what was under way is listed as pending."""
        return self._conclude(self._began)

    def _raise_program_error(self, program: asyncio.Future[None]) -> None:
        error = program.exception()
        if error is None:
            return
        if not isinstance(error, ProgramFailed):
            raise error
        if not error.reported:
            self.error(str(error))
        self.stop()
        raise Stopped

    async def _after_program(self) -> None:
        unknown = preconditions.unknown(self, self.options.targets)
        if self.options.kind == "refresh":
            await refresh(self, only_unseen=True)
        else:
            await Deletion(self).run()
        if unknown:
            preconditions.report_unknown(self, unknown)
            raise Stopped

    def _has_failed(self) -> bool:
        return self._failed or self.executor.failed or self.generator.books.failed or self.hooks.failed

    def _must_end(self) -> bool:
        return self.stopping.is_set() or self.executor.failed

    # -- being stopped ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin no new steps; those under way are finished and recorded."""
        self.stopping.set()

    def fail(self) -> None:
        """Stop, and count the operation as failed."""
        self._failed = True
        self.stop()

    def cancel(self) -> None:
        """A person asks the operation to end: begin nothing new, and let providers hurry."""
        self._canceled = True
        self.stop()
        self._hurry = asyncio.ensure_future(self.registry.cancel())

    def abandon(self) -> None:
        """A person asks again: wait for nothing that is under way. For whoever cancels :meth:`run`."""
        self._abandoned.set()

    def is_fault(self, error: Exception) -> bool:
        """Whether an error is one of the engine, not of a provider, a program or a person.

        Such an error must not be mistaken for a failed step.
        """
        if isinstance(error, ProviderError | HookFailed | EngineError | OSError | GoalError | Stopped):
            return False
        if self._fault is None:
            self._fault = error
        self.stop()
        return True

    # -- for the monitor -------------------------------------------------------------------------------

    async def serve(self, request: Coroutine[Any, Any, Any]) -> Any:
        """Answer one request of a program, unless the operation ends first."""
        if self.stopping.is_set():
            request.close()
            raise MonitorClosed
        task = asyncio.ensure_future(request)
        stopping = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            stopping.cancel()
            error = task.exception()
            if error is None:
                return task.result()
            self._take(error)
            if self.stopping.is_set():
                raise MonitorClosed
            raise error
        # The step may be under way: it is finished for its own sake, and nobody waits for the answer.
        task.add_done_callback(self._outlived)
        raise MonitorClosed

    def _outlived(self, task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._take(error)

    def _take(self, error: BaseException) -> None:
        """Let an error in a request end the operation, and report it where that was not done."""
        if isinstance(error, RequestRefused | MonitorClosed | ValueError):
            return
        if isinstance(error, Stopped):
            self.fail()
        elif isinstance(error, GoalError | ProviderError | HookFailed | EngineError | OSError):
            if not self.stopping.is_set():
                self.error(str(error), getattr(error, "urn", ""))
                self.fail()
        elif isinstance(error, Exception):
            self.is_fault(error)
        else:
            self.fail()

    async def register(self, goal: Goal) -> Registered:
        """Bring one resource about, and say what became of it."""
        answer: asyncio.Future[Registered] = asyncio.get_running_loop().create_future()
        steps = await self.generator.register(goal, answer)
        return await self._run_steps(steps, answer)

    async def read(self, goal: ReadGoal) -> Registered:
        """Look one resource up."""
        answer: asyncio.Future[Registered] = asyncio.get_running_loop().create_future()
        steps = await self.generator.read(goal, answer)
        return await self._run_steps(steps, answer)

    async def _run_steps(self, steps: list[Step], answer: asyncio.Future[Registered]) -> Registered:
        runnable: list[Step] = []
        for step in steps:
            if self.skipped and not self.skipped.isdisjoint(step.subject.state.all_dependencies()):
                step.respond("skipped")
                self.executor.undone.append(step)
                self.skipped.add(step.urn)
            else:
                runnable.append(step)
        try:
            await self.executor.run(runnable)
        finally:
            for step in steps:
                if step.old is not None and (over := self.generator.books.pending_deletes.get(step.old)):
                    over.set()
        if not answer.done() and self.stopping.is_set():
            raise MonitorClosed
        return await answer

    async def _register_default(self, goal: Goal) -> Registered:
        return await self.register(goal)

    async def register_outputs(self, urn: str, outputs: Properties) -> None:
        """Take the outputs of a component; those of the stack are kept until the end."""
        if urns.qualified_type_of(urn) == urns.ROOT_STACK_TYPE:
            self._stack_outputs = urn, outputs
            return
        await self._record_outputs(urn, outputs)

    async def _record_outputs(self, urn: str, outputs: Properties) -> None:
        step = self.executor.answered.pop(urn, None)
        if step is None:
            raise GoalError(f"cannot complete a resource '{urn}' whose registration isn't pending", urn)
        if isinstance(step, SameStep) and step.skipped_create:
            return
        assert step.new is not None
        before = step.new.state.outputs
        state = step.new.change(outputs=outputs)
        self.news[urn] = state
        if not state.custom:
            if isinstance(step, CreateStep):
                await self.hooks.run_after("AfterCreate", None, state)
            elif isinstance(step, UpdateStep) and step.old is not None:
                await self.hooks.run_after("AfterUpdate", step.old.state, state)
        self.emit(ResourceOutputs(step.metadata(), self.options.preview))
        if not equal(before, outputs):
            await self.live.end(None, amends=[step.new])
        if self.hooks.failed and not self.options.continue_on_error:
            self.stop()

    async def _record_stack_outputs(self, errored: bool) -> None:
        assert self._stack_outputs is not None
        urn, outputs = self._stack_outputs
        if urn not in self.executor.answered:
            return
        old = self.live.old(urn)
        if (errored or self._has_failed()) and old is not None:
            # What is missing was perhaps only not reached: it is kept.
            outputs = {**old.state.outputs, **outputs}
        await self._record_outputs(urn, outputs)

    async def program_finished(self) -> None:
        """The program registers no more. Returns when the operation is done with its callbacks."""
        self._finished.set()
        await self._released.wait()

    @property
    def monitor(self) -> LocalMonitor:
        """The monitor for a program in this process."""
        if self._local is None:
            self._monitor = Monitor(self)
            self._local = LocalMonitor(self._monitor, asyncio.get_running_loop(), self.serve)
        return self._local

    async def monitor_address(self) -> str:
        """Where programs and providers in other processes reach the monitor."""
        if self._server is None:
            self._server = MonitorServer(self.monitor)
        return self._server.address

    # -- for steps -------------------------------------------------------------------------------------

    async def provider_for(self, state: ResourceState) -> Provider:
        """The provider of a resource."""
        if state.is_provider:
            return self.registry
        return await self.registry.get(state.provider)

    async def diff(
        self,
        provider: Provider,
        urn: str,
        id: str,
        old_inputs: Properties,
        old_outputs: Properties,
        wanted: ResourceState,
    ) -> DiffResult:
        """What changing a resource to the inputs of ``wanted`` would mean."""
        diff = await provider.diff(urn, id, old_inputs, old_outputs, wanted.inputs, wanted.ignore_changes)
        return with_engine_diff(diff, old_inputs, wanted.inputs)

    def note_new(self, step: Step) -> None:
        """Remember what a resource came to."""
        assert step.new is not None
        self.news[step.urn] = step.new.state

    def resource_state(self, urn: str) -> ResourceState | None:
        """What a resource of this operation came to so far."""
        return self.news.get(urn)

    def rebuild(self) -> None:
        """Take up what a refresh made of the resources that the operation began with."""
        self.graph = Graph(self.live.entries)

    def _old_provider(self, reference: str) -> ResourceState | None:
        urn, _, id = reference.rpartition("::")
        for entry in self.live.old_all(urn):
            if entry.state.id == id:
                return entry.state
        current = self.generator.books.providers.get(urn)
        return current.state if current is not None and current.state.id == id else None

    # -- telling ---------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Tell the display."""
        self._sink(event)

    def error(self, message: str, urn: str = "") -> None:
        """Tell the person of an error."""
        self._say("error", message, urn)

    def warn(self, message: str, urn: str = "") -> None:
        """Warn the person."""
        self._say("warning", message, urn)

    def info(self, message: str, urn: str = "") -> None:
        """Inform the person."""
        self._say("info", message, urn)

    def _say(self, severity: Severity, message: str, urn: str) -> None:
        self.emit(Diagnostic(severity, message, urn))

    @staticmethod
    def is_secret(value: Value) -> bool:
        """Whether a value must not be shown."""
        return contains_secrets(value)

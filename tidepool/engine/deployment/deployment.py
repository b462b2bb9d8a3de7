"""One operation from beginning to end: refresh, program, deletes, and what became of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidepool.engine.deployment import limits
from tidepool.engine.deployment.callbacks import Hooks
from tidepool.engine.deployment.calls import DefaultProviders
from tidepool.engine.deployment.change import Replacement
from tidepool.engine.deployment.deletion import Deletion
from tidepool.engine.deployment.endpoint import LocalMonitor, MonitorServer, Requests
from tidepool.engine.deployment.executor import Executor
from tidepool.engine.deployment.generator import Generator, Registrar
from tidepool.engine.deployment.live import Durable, Entry, LiveStack
from tidepool.engine.deployment.monitor import Monitor
from tidepool.engine.deployment.options import Request
from tidepool.engine.deployment.reads import RefreshStep, take_up
from tidepool.engine.deployment.registry import Load, Registry
from tidepool.engine.deployment.status import EXPECTED, ProgramFailed, Status, Stopped
from tidepool.engine.deployment.step import Books, Context
from tidepool.engine.events import Event, EventSink, Op, Prelude, Summary
from tidepool.engine.resource import ResourceState, Snapshot

#: How long a program may take to end once it was told that the operation stops.
_PROGRAM_GRACE_S: Final = 10.0

#: Runs the program against a monitor; returns when it has ended. Raises ProgramFailed where it failed.
RunProgram = Callable[["Deployment"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Result:
    """The end of an operation. ``changes`` counts steps by op."""

    result: Literal["succeeded", "failed", "canceled"]
    changes: Mapping[Op, int]
    snapshot: Snapshot


class Deployment:
    """Puts the parts of one operation together, and runs it. All of it, but for the program, is on one event loop."""

    def __init__(
        self,
        request: Request,
        sink: EventSink,
        load: Load,
        run_program: RunProgram,
        durable: Durable | None,
    ) -> None:
        self.request = request
        self._run_program = run_program
        self._status = status = Status(sink)
        live, books = LiveStack(request.base, durable), Books()
        registry = Registry(load, lambda reference: _provider_state(live, books, reference))
        hooks = Hooks(status, preview=request.options.preview)
        self._context = context = Context(request, status, live, registry, hooks, books)
        self._executor = Executor(context)
        self._replacement = Replacement(context)
        generator = Generator(context, self._executor, self._replacement)
        #: Takes what a program registers.
        self.registrar = Registrar(context, generator, self._executor)
        #: The providers of resources that name none.
        self.default_providers = DefaultProviders(
            request.config, request.base.resources, self.registrar.register
        )
        self._abandoned = asyncio.Event()
        self._finished = asyncio.Event()
        self._released = asyncio.Event()
        self._began = 0.0
        self._service: Monitor | None = None
        self._requests = Requests(self._status)
        self._local: LocalMonitor | None = None
        self._server: MonitorServer | None = None

    # -- running ---------------------------------------------------------------------------------------

    async def run(self) -> Result:
        """Do the operation.

        Raises:
            EngineError: where it cannot be begun: nothing was changed.
        """
        limits.refuse_impossible(self._context)
        began = self._began = time.monotonic()
        self._status.emit(Prelude(self.request.shown_config))
        try:
            errored = True
            try:
                await self._run()
                errored = False
            finally:
                await self._unless_abandoned(asyncio.ensure_future(self._executor.drain()))
                await self.registrar.record_stack_outputs(failed=errored or self._has_failed())
        except Stopped:
            self._status.explain_failure()
        except EXPECTED as error:
            self._status.error(str(error), getattr(error, "urn", ""))
            self._status.explain_failure()
        finally:
            self._released.set()
            await self._context.registry.close_all()
            if self._service is not None:
                self._service.close()
            if self._server is not None:
                self._server.close()
        self._status.raise_fault()
        return self._conclude(began)

    def _conclude(self, began: float) -> Result:
        result: Literal["succeeded", "failed", "canceled"] = "succeeded"
        kind = "preview" if self.request.options.preview else "update"
        if self._has_failed():
            result = "failed"
            if not self._status.is_explained:
                self._status.error(f"{kind} failed")
        elif self._status.canceled:
            result = "canceled"
            self._status.error(f"{kind} canceled")
        changes = dict(self._executor.changes)
        self._status.emit(
            Summary(
                self.request.options.preview,
                self._executor.maybe_corrupt,
                time.monotonic() - began,
                changes,
                # As the CLI has it: one that was canceled did not do what it should.
                "succeeded" if result == "succeeded" else "failed",
            )
        )
        return Result(result, changes, self._context.live.snapshot())

    async def _run(self) -> None:
        options = self.request.options
        before_update = any(e.state.refresh_before_update for e in self._context.live.entries)
        if options.refresh and not options.run_program:
            await refresh(self._context, self._executor)
            if self._must_end() or options.kind == "refresh":
                return
        elif not options.refresh and not options.run_program and before_update:
            await refresh(self._context, self._executor, only_before_update=True)
            if self._must_end():
                return
        elif self.request.base.pending_operations and not options.preview:
            limits.warn_of_pending(self._context, self.request.base.pending_operations)
        limits.refuse_unknown(self._context, limits.unknown(self._context, options.replace))
        if options.kind == "update" or options.run_program:
            await self._with_program()
        else:
            await self._after_program()

    async def _with_program(self) -> None:
        program = asyncio.ensure_future(self._run_program(self))
        finished = asyncio.ensure_future(self._finished.wait())
        stopping = asyncio.ensure_future(self._status.stopping.wait())
        try:
            await asyncio.wait({program, finished, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if program.done() and not self._status.stopping.is_set():
                self._raise_program_error(program)
            if not self._status.stopping.is_set():
                await self._after_program()
        finally:
            self._released.set()
            finished.cancel()
            stopping.cancel()
            await self._await_end(program)
        if not self._status.stopping.is_set():
            self._raise_program_error(program)

    async def _await_end(self, program: asyncio.Future[None]) -> None:
        """Wait for the program; one that was told to end and does not is left behind, unless a person waits."""
        await self._unless_abandoned(asyncio.ensure_future(self._executor.drain()))
        hurry = self._status.stopping.is_set() and not self._status.canceled
        await self._unless_abandoned(program, timeout_s=_PROGRAM_GRACE_S if hurry else None)
        if not program.done():
            self._status.error("the program did not end after the operation had to stop")
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
        """Return the result of an operation that was ended at once: what was under way is listed as pending."""
        return self._conclude(self._began)

    def _raise_program_error(self, program: asyncio.Future[None]) -> None:
        error = program.exception()
        if error is None:
            return
        if not isinstance(error, ProgramFailed):
            raise error
        if not error.reported:
            self._status.error(str(error))
        self._status.stop()
        raise Stopped

    async def _after_program(self) -> None:
        unknown = limits.unknown(self._context, self.request.options.targets)
        if self.request.options.kind == "refresh":
            await refresh(self._context, self._executor, only_unseen=True)
        else:
            await Deletion(self._context, self._executor, self._replacement).run()
        limits.refuse_unknown(self._context, unknown)

    def _has_failed(self) -> bool:
        return self._status.failed or self._executor.failed or self._context.hooks.failed

    def _must_end(self) -> bool:
        return self._status.stopping.is_set() or self._executor.failed

    # -- for whoever runs it ---------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        """True once no new steps are begun."""
        return self._status.stopping.is_set()

    def emit(self, event: Event) -> None:
        self._status.emit(event)

    def cancel(self) -> None:
        """Begin nothing new, and let providers hurry: a person asks the operation to end."""
        self._status.cancel()
        self._hurry = asyncio.ensure_future(self._context.registry.cancel())

    def abandon(self) -> None:
        """Wait for nothing that is under way: a person asks again. For whoever cancels :meth:`run`."""
        self._abandoned.set()

    def resource_state(self, urn: str) -> ResourceState | None:
        """Return what a resource of this operation came to so far."""
        return self._executor.states.get(urn)

    # -- for the program -------------------------------------------------------------------------------

    async def serve(self, request: Coroutine[Any, Any, Any]) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._requests.begin(request, answer)
        return await answer

    @property
    def service(self) -> Monitor:
        """The service that programs and components ask."""
        if self._service is None:
            self._service = Monitor(
                self._context,
                self.registrar,
                self.default_providers,
                lambda: self.monitor_address,
                self._program_finished,
            )
        return self._service

    @property
    def monitor(self) -> LocalMonitor:
        """The service for a program in this process."""
        if self._local is None:
            self._local = LocalMonitor(self.service, asyncio.get_running_loop(), self._requests)
        return self._local

    @property
    def monitor_address(self) -> str:
        """The address of the service for programs and providers in other processes."""
        if self._server is None:
            self._server = MonitorServer(self.monitor)
        return self._server.address

    async def _program_finished(self) -> None:
        """Take note that the program registers no more; return when the operation is done with its callbacks."""
        self._finished.set()
        await self._released.wait()


def _provider_state(live: LiveStack, books: Books, reference: str) -> ResourceState | None:
    """Find the state of a provider by its reference."""
    urn, _, id = reference.rpartition("::")
    for entry in live.old_all(urn):
        if entry.state.id == id:
            return entry.state
    current = books.providers.get(urn)
    return current.state if current is not None and current.state.id == id else None


async def refresh(
    context: Context, executor: Executor, *, only_before_update: bool = False, only_unseen: bool = False
) -> None:
    """Read all resources that the operation may touch, and rebuild the state from what was found.

    ``only_before_update`` reads those whose provider asked for it; ``only_unseen`` those that the program
    did not register.
    """
    chosen = [
        entry
        for entry in _chosen(context)
        if not entry.state.view_of
        and (not only_before_update or entry.state.refresh_before_update)
        and (not only_unseen or entry.state.delete or not context.books.is_looked_at(entry.urn))
    ]
    steps = {entry: RefreshStep(entry) for entry in chosen}
    await asyncio.gather(*(executor.run([step], tolerant=True) for step in steps.values()))
    gone = {entry for entry, step in steps.items() if step.gone}
    await take_up(context, gone, [e for e, step in steps.items() if e.state is not step.before])


def _chosen(context: Context) -> list[Entry]:
    options = context.options
    named, dependents = options.targets, options.target_dependents
    if options.excludes:
        named, dependents = options.excludes, options.exclude_dependents
    chosen: list[Entry] = []
    reached: set[str] = set()
    for entry in context.live.entries:
        needs = entry.state.all_dependencies()
        is_named = not named or entry.urn in named or (dependents and not reached.isdisjoint(needs))
        if is_named:
            reached.add(entry.urn)
        if is_named is not bool(options.excludes):
            chosen.append(entry)
    return chosen

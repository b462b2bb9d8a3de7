"""One operation in this process: its display, its loop, its program, and its end."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from tidepool.engine.deployment.options import Kind, Options, Targets
from tidepool.engine.deployment.registry import plugin_request
from tidepool.engine.display.settings import Display, Settings
from tidepool.engine.display.show import make_display
from tidepool.engine.errors import EXIT_INTERRUPTED, EngineError
from tidepool.engine.events import Cancel, Diagnostic, Severity
from tidepool.engine.program.main_thread import Interrupts, MainThread
from tidepool.engine.project import PluginPath
from tidepool.engine.providers.discovery import PluginRequest
from tidepool.engine.providers.loading import PluginLoader
from tidepool.engine.request import KINDS, OperationRequest
from tidepool.engine.resource import Snapshot
from tidepool.engine.saved_state import SavedState
from tidepool.engine.values import Properties, Secret
from tidepool.engine.verbs.workspace import OpenStack

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment, Result, RunProgram
    from tidepool.engine.deployment.options import Request

_DEPLOYMENT_KINDS: Final[Mapping[str, Kind]] = {
    "preview": "update",
    "up": "update",
    "refresh": "refresh",
    "destroy": "destroy",
}
#: What the SDK says when the monitor refuses to go on.
_SHUT_DOWN: Final = "Resource monitor has terminated, shutting down"
_SEVERITIES: Final[tuple[Severity, ...]] = ("debug", "info", "warning", "error")


class Run:
    """One preview or operation."""

    def __init__(
        self,
        request: OperationRequest,
        stack: OpenStack,
        state: SavedState,
        *,
        preview: bool,
        in_process: bool,
    ) -> None:
        """``in_process`` lets the program run in this process: only where it is the engine's own, once."""
        self._request = request
        self._stack = stack
        self._state = state
        self._preview = preview
        self._in_process = in_process
        self._config = stack.program_config(check=not request.skip_config_validation)
        self._main = MainThread()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deployment: Deployment | None = None
        self._task: asyncio.Task[Result] | None = None
        self._shown: Display | None = None
        #: The person's, also while standard error is the program's.
        self._stderr: TextIO = stack.world.stderr
        self._interrupts = 0
        self._signals = Interrupts(self._interrupted)
        self._exit_code = 0
        self._error: BaseException | None = None

    def run(self, conclude: Callable[[Result], int]) -> int:
        """Do it: the program runs on this thread, the engine on another.

        ``conclude`` saves what it came to, on the engine's thread, and gives the exit code: so it is done
        even where the program does not let go of its thread.
        """
        engine = threading.Thread(target=self._run_engine, args=(conclude,), name="engine")
        # On another thread than the main one, signals are another's.
        ours = threading.current_thread() is threading.main_thread()
        heard = self._signals.listening() if ours else nullcontext()
        with _own_stream(self._stack.world.stderr) as self._stderr, heard:
            engine.start()
            self._main.serve()
            engine.join()
        if self._error is not None:
            raise self._error
        return self._exit_code

    # -- the engine's thread ---------------------------------------------------------------------------

    def _run_engine(self, conclude: Callable[[Result], int]) -> None:
        try:
            with ExitStack() as displays:
                result = asyncio.run(self._deploy(displays))
            self._exit_code = conclude(result)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._error = error
        if self._main.is_busy:
            self._leave()
        self._main.end()

    def _leave(self) -> None:
        """End the process under a program that does not end: all is saved."""
        code = self._exit_code
        if self._error is not None:
            self._stderr.write(f"error: {self._error}\n")
            code = 1
        self._state.let_go()
        self._stderr.write("warning: the program did not end, and was left behind\n")
        self._stderr.flush()
        os._exit(code)

    async def _deploy(self, displays: ExitStack) -> Result:
        """``displays`` holds the display from its beginning, to be closed when plugins have ended and said their last."""
        self._loop = asyncio.get_running_loop()
        loader = self._loader()
        durable = None
        try:
            await loader.start_ahead(likely_plugins(self._state.base, self._stack.project.providers))
            # Late: it takes longer to import than plugins to start.
            from tidepool.engine.program.host import import_sdk

            import_sdk()
            from tidepool.engine.deployment.deployment import Deployment
            from tidepool.engine.deployment.live import Durable

            # The key was derived meanwhile. Without it nothing begins, nor is told to have begun.
            self._state.verify_passphrase()
            display = self._shown = displays.enter_context(self._display())
            for warning in self._state.warnings:
                display.event(Diagnostic("warning", warning))
            if self._state.journal is not None:
                durable = Durable(self._state.journal, self._state.encode)
            program = self._program(loader)
            deployment = Deployment(self._deployment_request(), display.event, loader.load, program, durable)
            self._deployment = deployment
            self._task = asyncio.ensure_future(deployment.run())
            try:
                result = await self._task
            except asyncio.CancelledError:
                result = deployment.abandoned()
            if durable is not None:
                await durable.flush()
            display.event(Cancel())
            return result
        finally:
            if durable is not None:
                durable.close()
            await loader.close()

    def _loader(self) -> PluginLoader:
        world = self._stack.world
        return PluginLoader(
            project=self._stack.project,
            env=world.env,
            pulumi_home=world.pulumi_home,
            python=Path(sys.executable),
            log=self._log,
            stack_outputs=self._stack_outputs,
            resource_state=self._resource_state,
            config=self._config.values,
        )

    def _deployment_request(self) -> Request:
        from tidepool.engine.deployment.options import Request

        request, stack = self._request, self._stack
        project = stack.project
        config: Properties = {
            key: Secret(value) if key in self._config.secret_keys else value
            for key, value in self._config.values.items()
        }
        return Request(
            stack=stack.ref.name,
            project=project.name,
            organization="organization",
            root=stack.root,
            working_folder=_folder(project.program),
            options=Options(
                kind=_DEPLOYMENT_KINDS[request.kind],
                preview=self._preview,
                parallel=_parallel(request),
                continue_on_error=request.continue_on_error,
                refresh=request.kind == "refresh" or _refreshes(request, stack),
                run_program=bool(request.run_program),
                targets=Targets(request.targets),
                target_dependents=request.target_dependents,
                excludes=Targets(request.excludes),
                exclude_dependents=request.exclude_dependents,
                replace=Targets(request.replace),
            ),
            base=self._state.base,
            config=config,
            program_config=self._config.values,
            secret_config_keys=self._config.secret_keys,
            shown_config=self._config.masked,
        )

    def _program(self, loader: PluginLoader) -> RunProgram:
        from tidepool.engine.program import runners

        request, project = self._request, self._stack.project
        task = runners.Task(
            project.program, _folder(project.program), self._stack.root, self._stack.world.env
        )
        if request.client:
            return partial(runners.run_by_client, task, request.client, loader.engine_address)
        python = loader.program_python
        debug = request.debug or bool(request.event_log)
        run: RunProgram
        if self._in_process and python == Path(sys.executable):
            run = partial(runners.run_in_process, task, self._main, self._signals, self._log, debug)
        else:
            run = partial(runners.run_in_subprocess, task, python, loader.engine_address, debug)
        checker = project.runtime_options.get("typechecker")
        if checker:
            from tidepool.engine.program.checking import Checker

            return partial(
                runners.run_checked, run, task, Checker.of(checker, python, task.folder, project.file)
            )
        return run

    def _log(self, request: Any) -> None:
        """A message of the program or of a provider; on any thread."""
        deployment = self._deployment
        if deployment is not None and deployment.is_stopping and request.message == _SHUT_DOWN:
            return  # we told the program so ourselves, and the person was told why
        severity = _SEVERITIES[request.severity]
        event = Diagnostic(severity, request.message, request.urn, request.streamId, request.ephemeral)
        if self._loop is not None and self._deployment is not None:
            self._loop.call_soon_threadsafe(self._deployment.emit, event)

    def _stack_outputs(self, name: str) -> Properties:
        """The outputs of another stack of the backend, as last saved."""
        workspace = self._stack.workspace
        ref = workspace.parse(name)
        if not workspace.backend.exists(ref):
            raise EngineError(f'unknown stack "{name}"')
        other = self._stack if ref == self._stack.ref else workspace.open(ref)
        snapshot = self._state.base if ref == self._stack.ref else SavedState(other).peek()
        for state in snapshot.resources:
            if state.type == "pulumi:pulumi:Stack" and not state.delete:
                return state.outputs
        return {}

    def _resource_state(self, urn: str) -> Any:
        return self._deployment.resource_state(urn) if self._deployment is not None else None

    # -- the person ------------------------------------------------------------------------------------

    def _interrupted(self) -> None:
        """The first interrupt ends the operation soon, the second at once. On a thread of its own."""
        self._interrupts += 1
        loop, deployment, task = self._loop, self._deployment, self._task
        if loop is None or deployment is None or task is None:
            # Nothing was begun. Whatever goes wrong now, this thread is the only one that ends the process.
            try:
                self._state.let_go()
                self._stderr.write("error: interrupted\n")
                self._stderr.flush()
            finally:
                os._exit(EXIT_INTERRUPTED)
        if self._interrupts > 2:
            os._exit(1)  # the journal holds what was done
        try:
            if self._interrupts == 1:
                loop.call_soon_threadsafe(deployment.cancel)
                if self._shown is not None:
                    loop.call_soon_threadsafe(self._shown.cancelling)
            else:
                loop.call_soon_threadsafe(deployment.abandon)
                loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            # The loop is closed: the operation has ended and is being saved, which nothing should cut off.
            pass

    @contextmanager
    def _display(self) -> Iterator[Display]:
        request, world = self._request, self._stack.world
        settings = Settings(
            kind=KINDS[request.kind],
            is_preview=self._preview,
            stack=self._stack.ref.name,
            project=self._stack.project.name,
            color=world.color == "always" or (world.color == "auto" and world.stdout.isatty()),
            show_secrets=request.show_secrets,
            show_sames=request.show_sames,
            show_reads=request.show_reads,
            show_replacement_steps=request.show_replacement_steps,
            show_config=request.show_config,
            show_urns=request.show_urns,
            show_full_output=request.show_full_output,
            suppress_outputs=request.suppress_outputs,
            suppress_progress=request.suppress_progress,
            debug=request.debug,
        )
        with _own_stream(world.stdout) as stdout, _own_stream(world.stderr) as stderr:
            display = make_display(
                settings,
                stdout=stdout,
                stderr=stderr,
                interactive=world.interactive and world.stdout.isatty(),
                diff=request.diff,
                json=request.json,
                stream_previews=world.flag("PULUMI_ENABLE_STREAMING_JSON_PREVIEW"),
                event_log=request.event_log or "",
                secrets=[self._config.values[k] for k in self._config.secret_keys],
            )
            try:
                yield display
            finally:
                display.close()


def likely_plugins(base: Snapshot, of_project: Iterable[PluginPath]) -> list[PluginRequest]:
    """The plugins that an operation most likely loads: those of the stack's providers that have resources.

    Where there are no resources yet, those that the project has brought along.
    """
    if not base.resources:
        return [PluginRequest(plugin.name) for plugin in of_project]
    used = {s.provider for s in base.resources if s.provider}
    return [
        plugin_request(s.urn, s.inputs)
        for s in base.resources
        if s.is_provider and f"{s.urn}::{s.id}" in used
    ]


@contextmanager
def _own_stream(stream: TextIO) -> Iterator[TextIO]:
    """``stream``, apart from the process's standard streams, which become the program's."""
    try:
        fd = stream.fileno()
    except (OSError, ValueError):
        yield stream  # not a file: nobody else writes to it
        return
    stream.flush()
    with os.fdopen(os.dup(fd), "w", encoding="utf-8", errors="replace", buffering=1) as own:
        yield own


def _folder(program: Path) -> Path:
    return program if program.is_dir() else program.parent


def _parallel(request: OperationRequest) -> int:
    if request.parallel is None:
        return 4 * (os.cpu_count() or 1)
    return request.parallel if request.parallel > 0 else 2**31 - 1


def _refreshes(request: OperationRequest, stack: OpenStack) -> bool:
    return stack.project.refresh_always if request.refresh is None else request.refresh

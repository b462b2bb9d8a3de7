"""A program in the engine's own process: no call between the two leaves it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import tidepool.engine
from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.status import ProgramFailed
from tidepool.engine.events import Diagnostic, Severity
from tidepool.engine.program import host
from tidepool.engine.program.main_thread import Interrupts, MainThread
from tidepool.engine.program.outstanding import OutstandingOutputs
from tidepool.engine.program.task import STREAMS, Task, environment, failure, settings

_ENGINE_FOLDER: Final = str(Path(tidepool.engine.__file__).parent)


class InProcessProgram:
    """Runs the program on the main thread. For one program in a process: modules stay imported.

    The process must be the engine's own: its working folder, environment, standard output and standard
    error are the program's while it runs.
    """

    def __init__(
        self,
        task: Task,
        main: MainThread,
        interrupts: Interrupts,
        log: Callable[[Any], None],
        *,
        debug: bool = False,
    ) -> None:
        """``log`` takes the ``engine_pb2.LogRequest`` that the SDK sends, debugging ones if ``debug``; on any thread."""
        self._task = task
        self._main = main
        self._interrupts = interrupts
        self._log = log
        self._debug = debug

    async def run(self, deployment: Deployment) -> None:
        """Run it to its end."""
        loop = asyncio.get_running_loop()
        monitor = deployment.monitor
        engine = LocalEngine(self._log, debug=self._debug)
        task = self._task

        def say(severity: Severity, line: str) -> None:
            event = Diagnostic(severity, line, stream_id=STREAMS[severity])
            loop.call_soon_threadsafe(deployment.emit, event)

        def execute() -> int:
            os.environ.update(environment(deployment))
            os.chdir(task.folder)
            out, err = captured(1, lambda t: say("info", t)), captured(2, lambda t: say("info#err", t))
            with out, err, self._interrupts.shared():
                return host.run(
                    str(task.path),
                    settings={**settings(deployment, task), "monitor": monitor, "engine": engine},
                    config=deployment.request.program_config,
                    secret_keys=deployment.request.secret_config_keys,
                    outputs=OutstandingOutputs(),
                    hidden=[_ENGINE_FOLDER],
                )

        code = await self._main.run(execute)
        if code:
            raise ProgramFailed(failure(code), reported=code == host.REPORTED)


class LocalEngine:
    """The engine service as the SDK of a program in this process sees it."""

    def __init__(self, log: Callable[[Any], None], *, debug: bool) -> None:
        from google.protobuf import empty_pb2
        from pulumi.runtime.proto import engine_pb2

        self._empty = empty_pb2.Empty()
        #: The severity of messages that nobody sees: there are several for each resource.
        self._unseen = None if debug else engine_pb2.DEBUG
        self._log = log
        self._root_urn = ""
        self._messages = engine_pb2

    def Log(self, request: Any, timeout: float | None = None) -> Any:  # noqa: N802 - the service's name
        """Take a message."""
        if request.severity != self._unseen:
            self._log(request)
        return self._empty

    def GetRootResource(self, request: Any) -> Any:  # noqa: N802
        """The stack resource, for SDKs that ask."""
        return self._messages.GetRootResourceResponse(urn=self._root_urn)

    def SetRootResource(self, request: Any) -> Any:  # noqa: N802
        """Remember the stack resource."""
        self._root_urn = request.urn
        return self._messages.SetRootResourceResponse()

    def RequirePulumiVersion(self, request: Any) -> Any:  # noqa: N802
        """Any program may run: the engine follows the CLI of the SDK's version."""
        return self._messages.RequirePulumiVersionResponse()


@contextmanager
def captured(fd: int, say: Callable[[str], None]) -> Iterator[None]:
    """Give what is written to a standard stream, by Python or below it, to ``say``, a line at a time."""
    stream = sys.stdout if fd == 1 else sys.stderr
    stream.flush()
    kept = os.dup(fd)
    read_end, write_end = os.pipe()
    os.dup2(write_end, fd)
    os.close(write_end)

    def pump() -> None:
        with os.fdopen(read_end, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                say(line)

    thread = threading.Thread(target=pump, name=f"program-output-{fd}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stream.flush()
        os.dup2(kept, fd)
        os.close(kept)
        # A process that the program left behind may hold the pipe open: what it says is not waited for.
        thread.join(timeout=1)

"""The ways to run a program: in the engine's process, in one of its own, or where an Automation API caller has it.

Each runs it to its end, and raises ProgramFailed where that is an error; cancelling the coroutine ends the program.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import tidepool.engine
from tidepool.engine import rpc
from tidepool.engine.deployment.deployment import Deployment, RunProgram
from tidepool.engine.deployment.status import ProgramFailed
from tidepool.engine.events import Diagnostic, Severity
from tidepool.engine.program import host
from tidepool.engine.program.checking import Checker
from tidepool.engine.program.main_thread import Interrupts, MainThread
from tidepool.engine.providers.loading import EngineServicer

#: What a program prints is a stream of text, whose pieces belong together: standard output, standard error.
STREAMS: Final[Mapping[Severity, int]] = {"info": 1, "info#err": 2}


@dataclass(frozen=True, slots=True)
class Task:
    """A program of a project. ``path`` is its file or folder, ``folder`` where it is run."""

    path: Path
    folder: Path
    root: Path
    env: Mapping[str, str]


def settings(deployment: Deployment, task: Task) -> dict[str, Any]:
    """The SDK's settings but for monitor and engine."""
    return {
        "project": deployment.request.project,
        "stack": deployment.request.stack,
        "parallel": deployment.request.options.parallel,
        "dry_run": deployment.request.options.preview,
        "organization": deployment.request.organization,
        "root_directory": str(task.root),
    }


def environment(deployment: Deployment) -> dict[str, str]:
    """Variables that a program may read its settings from, as the CLI sets them."""
    return {
        "PULUMI_CONFIG": json.dumps(dict(deployment.request.program_config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(deployment.request.secret_config_keys)),
        "PULUMI_DRY_RUN": "true" if deployment.request.options.preview else "false",
        "PULUMI_ORGANIZATION": deployment.request.organization,
        "PULUMI_PARALLEL": str(deployment.request.options.parallel),
        "PULUMI_PROJECT": deployment.request.project,
        "PULUMI_STACK": deployment.request.stack,
    }


def failure(code: int) -> str:
    """Return the message about a program that ended with that exit code."""
    return f"an unhandled error occurred: program exited with non-zero exit code: {code}"


async def run_checked(run: RunProgram, task: Task, checker: Checker, deployment: Deployment) -> None:
    """Run a program where ``checker`` finds nothing wrong with it."""
    process = await asyncio.create_subprocess_exec(
        *checker.command, env=dict(task.env), cwd=task.folder, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        written, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    code, output = process.returncode or 0, written.decode(errors="replace")
    if checker.is_missing(code, output):
        raise ProgramFailed(checker.missing(), reported=False)
    for line in output.splitlines():
        deployment.emit(Diagnostic("info", f"{line}\n", stream_id=STREAMS["info"]))
    if code:
        raise ProgramFailed(checker.failed(code, output), reported=False)
    await run(deployment)


_ENGINE_FOLDER: Final = str(Path(tidepool.engine.__file__).parent)


async def run_in_process(
    task: Task,
    main: MainThread,
    interrupts: Interrupts,
    log: Callable[[Any], None],
    debug: bool,
    deployment: Deployment,
) -> None:
    """Run the program on the main thread. For one program in a process: modules stay imported.

    The process must be the engine's own: its working folder, environment, standard output and standard
    error are the program's while it runs. ``log`` takes the ``engine_pb2.LogRequest`` that the SDK sends,
    debugging ones if ``debug``; on any thread.
    """
    loop = asyncio.get_running_loop()
    monitor = deployment.monitor
    engine = LocalEngine(log, debug=debug)

    def say(severity: Severity, line: str) -> None:
        event = Diagnostic(severity, line, stream_id=STREAMS[severity])
        loop.call_soon_threadsafe(deployment.emit, event)

    def execute() -> int:
        os.environ.update(environment(deployment))
        os.chdir(task.folder)
        out, err = captured(1, lambda t: say("info", t)), captured(2, lambda t: say("info#err", t))
        with out, err, interrupts.shared():
            return host.run(
                str(task.path),
                settings={**settings(deployment, task), "monitor": monitor, "engine": engine},
                config=deployment.request.program_config,
                secret_keys=deployment.request.secret_config_keys,
                hidden=[_ENGINE_FOLDER],
                debug=debug,
                executor=monitor.executor,
            )

    code = await main.run(execute)
    if code:
        raise ProgramFailed(failure(code), reported=code == host.REPORTED)


class LocalEngine(EngineServicer):
    """The engine service as the SDK of a program in this process sees it."""

    def __init__(self, log: Callable[[Any], None], *, debug: bool) -> None:
        super().__init__(log)
        #: The severity of messages that nobody sees: there are several for each resource.
        self._unseen = None if debug else self._messages.DEBUG

    def Log(self, request: Any, timeout: float | None = None) -> Any:  # noqa: N802 - the service's name
        if request.severity != self._unseen:
            self._log(request)
        return self._empty

    def RequirePulumiVersion(self, request: Any, _context: Any = None) -> Any:  # noqa: N802
        """Compare the range that a program asks for with the CLI's version that the engine follows."""
        return super().RequirePulumiVersion(request, _Raises())


class _Raises:
    """A call's context that ends it by the error that a stub would raise."""

    def abort(self, code: Any, details: str) -> NoReturn:
        from tidepool.engine.deployment.endpoint import RpcFailed

        raise RpcFailed(code, details)


@contextmanager
def captured(fd: int, say: Callable[[str], None]) -> Iterator[None]:
    """Give what is written to a standard stream, by Python or below it, to ``say``, a line at a time.

    At once, as the CLI does, which runs Python with ``-u``: a program may say why it waits.
    """
    stream = sys.stdout if fd == 1 else sys.stderr
    stream.flush()
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(line_buffering=True)
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


_GRACE_S = 5.0


async def run_in_subprocess(
    task: Task, python: Path, engine_address: str, debug: bool, deployment: Deployment
) -> None:
    """Run the program with ``python``, against a monitor on a port."""
    described = {
        "debug": debug,
        "program": str(task.path),
        "folder": str(task.folder),
        "settings": {
            **settings(deployment, task),
            "monitor": deployment.monitor_address,
            "engine": engine_address,
        },
    }
    env = {**task.env, **environment(deployment), "TIDEPOOL_PROGRAM": json.dumps(described)}
    process = await asyncio.create_subprocess_exec(
        str(python),
        "-u",
        host.__file__,
        env=env,
        cwd=task.folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # An interrupt of the terminal is the engine's to give: the program may have to finish first.
        start_new_session=True,
    )
    try:
        await asyncio.gather(
            _pump(process.stdout, "info", deployment), _pump(process.stderr, "info#err", deployment)
        )
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _GRACE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        raise
    if code:
        raise ProgramFailed(failure(code), reported=code == host.REPORTED)


async def run_by_client(task: Task, address: str, engine_address: str, deployment: Deployment) -> None:
    """Ask the language runtime at ``address`` to run its program."""
    from pulumi.runtime.proto import language_pb2, language_pb2_grpc

    request = language_pb2.RunRequest(
        **deployment.request.described(),
        pwd=str(task.folder),
        program=str(task.path),
        args=[engine_address],
        monitor_address=deployment.monitor_address,
    )
    with rpc.open_channel(address) as channel:
        stub = language_pb2_grpc.LanguageRuntimeStub(channel)
        try:
            response = await rpc.call(stub.Run, request)
        except rpc.Failure as failure:
            raise ProgramFailed(
                f"the language runtime at {address} failed: {failure.text}", reported=False
            ) from failure
    if response.bail:
        raise ProgramFailed("run bailed", reported=True)
    if response.error:
        raise ProgramFailed(f"an unhandled error occurred: {response.error}", reported=False)


async def _pump(stream: asyncio.StreamReader | None, severity: Severity, deployment: Deployment) -> None:
    assert stream is not None
    while line := await stream.readline():
        text = line.decode(errors="replace")
        deployment.emit(Diagnostic(severity, text, stream_id=STREAMS[severity]))

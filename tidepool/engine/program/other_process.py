"""A program in a process of its own: with another interpreter, or where an Automation API caller has it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tidepool.engine import rpc
from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.status import ProgramFailed
from tidepool.engine.events import Diagnostic, Severity
from tidepool.engine.program import host
from tidepool.engine.program.task import STREAMS, Task, environment, failure, settings

_GRACE_S = 5.0


class SubprocessProgram:
    """Runs the program with ``python``, against a monitor on a port."""

    def __init__(self, task: Task, python: Path, engine_address: str) -> None:
        self._task = task
        self._python = python
        self._engine_address = engine_address

    async def run(self, deployment: Deployment) -> None:
        """Run it to its end."""
        task = self._task
        described = {
            "program": str(task.path),
            "folder": str(task.folder),
            "settings": {
                **settings(deployment, task),
                "monitor": deployment.monitor_address,
                "engine": self._engine_address,
            },
        }
        env = {**task.env, **environment(deployment), "TIDEPOOL_PROGRAM": json.dumps(described)}
        process = await asyncio.create_subprocess_exec(
            str(self._python),
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


class ClientProgram:
    """Asks the language runtime at ``address`` to run its program."""

    def __init__(self, task: Task, address: str, engine_address: str) -> None:
        self._task = task
        self._address = address
        self._engine_address = engine_address

    async def run(self, deployment: Deployment) -> None:
        """Run it to its end."""
        from pulumi.runtime.proto import language_pb2, language_pb2_grpc

        request = language_pb2.RunRequest(
            project=deployment.request.project,
            stack=deployment.request.stack,
            pwd=str(self._task.folder),
            program=str(self._task.path),
            args=[self._engine_address],
            config=deployment.request.program_config,
            configSecretKeys=deployment.request.secret_config_keys,
            dryRun=deployment.request.options.preview,
            parallel=deployment.request.options.parallel,
            monitor_address=deployment.monitor_address,
            organization=deployment.request.organization,
        )
        with rpc.open_channel(self._address) as channel:
            stub = language_pb2_grpc.LanguageRuntimeStub(channel)
            try:
                response = await rpc.call(stub.Run, request)
            except rpc.Failure as failure:
                raise ProgramFailed(
                    f"the language runtime at {self._address} failed: {failure.text}", reported=False
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

"""A program in the process of an Automation API caller, behind a language runtime service."""

from __future__ import annotations

import grpc
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.deployment.status import ProgramFailed
from tidepool.engine.program.task import Task
from tidepool.engine.rpc import CHANNEL_OPTIONS, call


class ClientProgram:
    """Asks the language runtime at ``address`` to run its program."""

    def __init__(self, task: Task, address: str, engine_address: str) -> None:
        self._task = task
        self._address = address
        self._engine_address = engine_address

    async def run(self, deployment: Deployment) -> None:
        """Run it to its end."""
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
        with grpc.insecure_channel(self._address, options=CHANNEL_OPTIONS) as channel:
            stub = language_pb2_grpc.LanguageRuntimeStub(channel)
            try:
                response = await call(stub.Run, request)
            except grpc.RpcError as error:
                raise ProgramFailed(
                    f"the language runtime at {self._address} failed: {error.details()}", reported=False
                ) from error
        if response.bail:
            raise ProgramFailed("run bailed", reported=True)
        if response.error:
            raise ProgramFailed(f"an unhandled error occurred: {response.error}", reported=False)

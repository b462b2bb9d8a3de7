"""The provider's process: a gRPC server that the engine starts, and ends by a signal.

What is raised is told as a person is to read it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from tidepool.cluster.failures import cause_of, marked
from tidepool.infrastructures.connection import data_folder
from tidepool.provider.kinds import Kinds, import_ahead
from tidepool.provider.provider import VERSION, EngineLog, InitializationFailed, TidepoolProvider
from tidepool.resources.kind import Home, Refusal

#: As the SDK's own servers have it: files may be large, and a call may wait for its turn (in seconds).
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 400 << 20),
    ("grpc.server_max_unrequested_time_in_server", 1800),
)
_T = TypeVar("_T")
#: Beside the data of the machines: what only the makers of Tidepool can read something out of.
_FAULTS: Final = "provider-faults.log"


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Serve until a signal comes. ``arguments`` are the engine's: its address, and flags."""
    # A request's properties are many objects, without cycles: with the collector's defaults a thousand users take ten times as long.
    gc.set_threshold(100_000, 50, 1000)
    address = next((each for each in arguments if not each.startswith("-")), "")
    home = home_of(environment)
    code = 0
    try:
        asyncio.run(
            serve(address, home.data / _FAULTS, partial(TidepoolProvider, Kinds(home).of), import_ahead)
        )
    except Exception as error:  # noqa: BLE001 - the process ends with it, and says why
        sys.stderr.write(f"{error_text(error, home.data / _FAULTS)}\n")
        sys.stderr.flush()
        code = 1
    # Threads may wait for nodes for minutes; all that they do may be cut off anywhere.
    os._exit(code)


def plugin() -> None:
    """Be the program ``pulumi-resource-tidepool``, which pip installs."""
    main(sys.argv[1:])


def home_of(environment: Mapping[str, str]) -> Home:
    """Return the folders that things are kept in: in the data folder, and images in TIDEPOOL_IMAGES, or ``images`` of the data folder."""
    data = data_folder(environment)
    images = Path(environment.get("TIDEPOOL_IMAGES") or data / "images").absolute()
    return Home(data, images, dict(environment))


async def serve(
    engine_address: str,
    faults: Path,
    make_provider: Callable[[EngineLog, Callable[[], None]], TidepoolProvider],
    meanwhile: Callable[[], None] = lambda: None,
    version: str = VERSION,
) -> None:
    """Serve a provider until a signal comes, at a port that is written to stdout; ``meanwhile`` is called after that.

    ``make_provider`` takes the engine's log, and what ends the process.
    """
    server = grpc.aio.server(options=_OPTIONS)
    asked_to_end = asyncio.Event()
    log = EngineLog(engine_address)
    servicer = Servicer(faults, make_provider(log, asked_to_end.set), log, version)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    meanwhile()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_end.set)
    await asked_to_end.wait()


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Pulumi's protocol, whose errors are for people. Faults of ours go to the file ``faults`` besides."""

    def __init__(
        self, faults: Path, provider: TidepoolProvider, log: EngineLog, version: str = VERSION
    ) -> None:
        self._faults = faults
        self._log = log
        self._provider = provider
        self._version = version

    # Names and signatures are the protocol's.
    # ruff: noqa: N802

    async def Attach(self, request: Any, context: Any) -> empty_pb2.Empty:
        """Another operation begins, with an engine of its own; those before it have ended."""
        self._log.attach(request.address)
        self._provider.begin()
        return empty_pb2.Empty()

    async def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._version)

    async def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        self._provider.cancel()
        return empty_pb2.Empty()

    async def GetSchema(self, request: Any, context: Any) -> provider_pb2.GetSchemaResponse:
        return provider_pb2.GetSchemaResponse(schema=await self._answered(context, self._provider.schema()))

    async def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        await self._answered(context, self._provider.configure(request.args.fields))
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    async def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        return await self._answered(context, self._provider.check(request))

    async def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        return await self._answered(context, self._provider.diff(request))

    async def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        return await self._answered(context, self._provider.create(request))

    async def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        return await self._answered(context, self._provider.read(request))

    async def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        return await self._answered(context, self._provider.update(request))

    async def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        await self._answered(context, self._provider.delete(request))
        return empty_pb2.Empty()

    async def _answered(self, context: Any, answer: Coroutine[Any, Any, _T]) -> _T:
        """Return what is answered; what is raised instead ends this one call, with its text."""
        try:
            return await answer
        except InitializationFailed as error:
            await context.abort(grpc.StatusCode.UNKNOWN, error.reason, _initialization_details(error))
            raise
        except Exception as error:
            await context.abort(grpc.StatusCode.UNKNOWN, error_text(error, self._faults))
            raise


def error_text(error: BaseException, faults: Path) -> str:
    """The text of ``error`` for a person. Of a fault of ours, the traceback is added to the file ``faults``."""
    if is_for_people(error):
        return marked(str(error), cause_of(error))
    said = f"{type(error).__name__}: {error}"
    try:
        faults.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(faults, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "a") as file:
            file.writelines(traceback.format_exception(error))
    except OSError as unwritable:
        return f"a fault in the provider tidepool: {said} (where it is could not be written: {unwritable})"
    return f"a fault in the provider tidepool: {said}; {faults} says where"


def is_for_people(error: BaseException) -> bool:
    """Return whether the text of ``error`` was written for a person."""
    if isinstance(error, Refusal):
        return True
    # Those that can be raised are imported by then; who starts up does not wait for them.
    from tidepool.clients.slurm.contract import SlurmError
    from tidepool.cluster.failures import InfrastructureError
    from tidepool.images.errors import ImageError
    from tidepool.infrastructures.local.kernel.errors import LocalError

    return isinstance(error, ImageError | InfrastructureError | LocalError | SlurmError)


def _initialization_details(error: InitializationFailed) -> tuple[tuple[str, bytes], ...]:
    """The metadata by which an engine learns what was made although it failed."""
    failed = provider_pb2.ErrorResourceInitFailed(
        id=error.id, properties=error.properties, reasons=[error.reason]
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=error.reason)
    status.details.add().Pack(failed)
    return (("grpc-status-details-bin", status.SerializeToString()),)

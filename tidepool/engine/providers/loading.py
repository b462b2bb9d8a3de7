"""Providers by name: the engine's own, or a plugin that is found and started; and the service that takes their log messages."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.engine.errors import EngineError
from tidepool.engine.project import Project
from tidepool.engine.providers import discovery, interpreters
from tidepool.engine.providers.builtin import BuiltinProvider, ResourceState, StackOutputs
from tidepool.engine.providers.contract import Provider, ProviderError
from tidepool.engine.providers.discovery import PluginRequest, Version
from tidepool.engine.providers.process import START_DEADLINE_S
from tidepool.engine.rpc import CHANNEL_OPTIONS, messages

if TYPE_CHECKING:
    from tidepool.engine.providers.plugin import PluginProvider

#: Takes an ``engine_pb2.LogRequest``; called on gRPC's threads.
LogSink = Callable[[Any], None]

_WORKERS: Final = 4


class EngineServer:
    """The service on a port of the loopback. It is started when its address is first asked for."""

    def __init__(self, log: LogSink) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._server: Any = None
        self._address = ""

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``."""
        with self._lock:
            if self._server is None:
                self._start()
            return self._address

    def close(self) -> None:
        """Take no more messages."""
        with self._lock:
            if self._server is not None:
                self._server.stop(grace=None)
                self._server = None

    def _start(self) -> None:
        # grpc takes 0.06 s to import; an operation without providers does without.
        from concurrent.futures import ThreadPoolExecutor

        import grpc

        server = grpc.server(
            ThreadPoolExecutor(_WORKERS, thread_name_prefix="engine-service"), options=CHANNEL_OPTIONS
        )
        messages("engine_pb2_grpc").add_EngineServicer_to_server(EngineServicer(self._log), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self._server = server
        self._address = f"127.0.0.1:{port}"


class EngineServicer:
    """The service's methods, as gRPC calls them."""

    def __init__(self, log: LogSink) -> None:
        from google.protobuf import empty_pb2

        self._messages = messages("engine_pb2")
        self._empty = empty_pb2.Empty()
        self._log = log
        self._root_urn = ""

    def Log(self, request: Any, _context: Any = None) -> Any:  # noqa: N802 - the service's names
        self._log(request)
        return self._empty

    def GetRootResource(self, _request: Any, _context: Any = None) -> Any:  # noqa: N802
        return self._messages.GetRootResourceResponse(urn=self._root_urn)

    def SetRootResource(self, request: Any, _context: Any = None) -> Any:  # noqa: N802
        self._root_urn = request.urn
        return self._messages.SetRootResourceResponse()

    def StartDebugging(self, _request: Any, context: Any) -> Any:  # noqa: N802
        import grpc

        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            "attaching a debugger is not supported by the embedded engine; the Pulumi CLI does it",
        )

    def RequirePulumiVersion(self, request: Any, context: Any) -> Any:  # noqa: N802
        import grpc

        try:
            discovery.require_version(request.pulumi_version_range)
        except EngineError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return self._messages.RequirePulumiVersionResponse()


_BUILTIN: Final = "pulumi"
#: Linux' MAX_ARG_STRLEN, less room for a name.
_LONGEST_VARIABLE: Final = 128 * 1024 - 64


@dataclass(kw_only=True)
class PluginLoader:
    """Loads the providers of one operation. Whoever was given a provider closes it."""

    #: Its plugins and its program's runtime options count.
    project: Project
    #: The environment that plugins inherit.
    env: Mapping[str, str]
    #: The folder with ``plugins/``.
    pulumi_home: Path
    #: The interpreter where the project asks for no other.
    python: Path
    #: Takes the ``engine_pb2.LogRequest`` of providers; on any thread.
    log: LogSink
    stack_outputs: StackOutputs
    resource_state: ResourceState
    #: The program's configuration as texts, which plugins find in PULUMI_CONFIG.
    config: Mapping[str, str] | None = None
    #: How long a plugin may take until it tells its port.
    start_deadline_s: float = START_DEADLINE_S

    def __post_init__(self) -> None:
        self._server = EngineServer(self.log)
        self._noticed: set[str] = set()
        self._ahead: dict[PluginRequest, asyncio.Task[Provider]] = {}

    @property
    def engine_address(self) -> str:
        """The address of the Engine service, which is started by the first who asks."""
        return self._server.address

    @property
    def program_python(self) -> Path:
        """The interpreter that the project's program runs with.

        Raises:
            EngineError: when the project asks for an environment that is not there.
        """
        return Path(interpreters.of_project(self.project, self.env, str(self.python)))

    async def load(self, request: PluginRequest) -> Provider:
        """A new provider, not yet configured.

        Raises:
            EngineError: when its plugin is missing or does not come up.
        """
        if request.package == _BUILTIN:
            return BuiltinProvider(self.stack_outputs, self.resource_state, self._warn)
        started = self._ahead.pop(request, None)
        return await (started if started is not None else self._start(request))

    async def start_ahead(self, requests: Iterable[PluginRequest]) -> None:
        """Start plugins that will most likely be loaded, while others are busy; returns at once.

        One that cannot be started is told of when it is loaded.
        """
        for request in requests:
            if request.package != _BUILTIN and request not in self._ahead:
                self._ahead[request] = asyncio.create_task(self._start(request))
        await asyncio.sleep(0)  # lets each come as far as its process

    async def _start(self, request: PluginRequest) -> Provider:
        # Imports grpc, which operations without plugins do without.
        from tidepool.engine.providers.connection import Connection, attach_port
        from tidepool.engine.providers.plugin import PluginProvider

        if (port := attach_port(request.package, self.env)) is not None:
            connection = await Connection.attach(request.package, port, engine_address=self.engine_address)
            return PluginProvider(connection)
        command = discovery.find(
            request,
            project_plugins=self.project.providers,
            environ=self.env,
            pulumi_home=self.pulumi_home,
            python=str(self.program_python),
        )
        if command.notice:
            self._warn_once(command.notice)
        program = self.project.program
        connection = await Connection.open(
            request.package,
            command,
            cwd=program if program.is_dir() else program.parent,
            environ=self._environment(),
            engine_address=self.engine_address,
            on_log=self._hear if command.shows_output else _hush,
            start_deadline_s=self.start_deadline_s,
        )
        provider = PluginProvider(connection)
        try:
            if command.notice and request.version:
                await self._compare(provider, request, command.argv[0])
        except BaseException:
            # Cancelled: nobody else knows of the process.
            await provider.close()
            raise
        return provider

    async def _compare(self, provider: PluginProvider, request: PluginRequest, program: str) -> None:
        """Warn of a plugin on PATH that is of another version than its package: it is taken whatever it is."""
        try:
            version = await provider.version()
        except ProviderError:
            return  # what ails it is told of by the first call that matters
        wanted = request.version.removeprefix("v")
        if not version or _same_release(version, wanted):
            return
        self._warn_once(
            f"{program} is version {version}, and the program's package asks for {wanted}: put that plugin on PATH "
            f"(`pulumi plugin install resource {request.package} {wanted}` has it), or install the package "
            "of the plugin's version"
        )

    async def close(self) -> None:
        """End plugins that were started and not loaded, and take no more messages."""
        for started in self._ahead.values():
            started.cancel()
            try:
                provider = await started
            except (asyncio.CancelledError, EngineError):
                continue  # nobody asked for it
            await provider.close()
        self._server.close()

    def _environment(self) -> dict[str, str]:
        options = self.project.runtime_options
        environ = {**self.env, "PULUMI_PROJECT": self.project.name}
        environ.update({f"PULUMI_RUNTIME_{k.upper()}": _text(v) for k, v in options.items()})
        config = json.dumps(dict(self.config or {}))
        # The kernel starts no process with a longer one. Plugins have their own configuration by gRPC.
        if self.config and len(config.encode()) < _LONGEST_VARIABLE:
            environ["PULUMI_CONFIG"] = config
        return environ

    def _hear(self, line: str, is_stderr: bool) -> None:
        """A line of a dynamic provider: its author's own words to the person."""
        if line.strip():
            self._say("INFO", "", f"{line}\n", stream_id=2 if is_stderr else 1)

    def _warn_once(self, message: str) -> None:
        if message not in self._noticed:
            self._noticed.add(message)
            self._warn("", message)

    def _warn(self, urn: str, message: str) -> None:
        self._say("WARNING", urn, message)

    def _say(self, severity: str, urn: str, message: str, stream_id: int = 0) -> None:
        from tidepool.engine import rpc

        messages = rpc.messages("engine_pb2")
        self.log(
            messages.LogRequest(
                severity=messages.LogSeverity.Value(severity), urn=urn, message=message, streamId=stream_id
            )
        )


def _same_release(version: str, other: str) -> bool:
    try:
        return Version.parse(version).same_release(Version.parse(other))
    except ValueError:
        return version == other


def _hush(_line: str, _is_stderr: bool) -> None:
    """Ignore what a plugin writes, which is for its authors; the last lines are kept for when it dies."""


def _text(value: Any) -> str:
    # As Go prints a value: true, not True.
    return str(value).lower() if isinstance(value, bool) else str(value)

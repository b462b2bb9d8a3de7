"""A plugin's process and the channel to it: calls, and what it means when the process ends during one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tidepool.engine import rpc
from tidepool.engine.errors import EngineError
from tidepool.engine.providers.contract import ProviderDied
from tidepool.engine.providers.discovery import PluginCommand
from tidepool.engine.providers.messages import Capabilities
from tidepool.engine.providers.process import START_DEADLINE_S, LogSink, PluginProcess, port_of

#: How long a plugin that has told its port may take to answer its first call.
_HANDSHAKE_DEADLINE_S: Final = 10.0
#: A process that dies closes its connections, which the kernel may tell sooner than its end.
_END_AFTER_DISCONNECT_S: Final = 1.0
#: And a connection that stays open after the end (a grandchild holds it) is given up after that time.
_DISCONNECT_AFTER_END_S: Final = 1.0
_CANCEL_DEADLINE_S: Final = 2.0

#: ``NAME:PORT,NAME:PORT``: the plugins that run already, as somebody else's processes. An operation neither starts
#: them nor ends them.
VARIABLE: Final = "PULUMI_DEBUG_PROVIDERS"


class AttachedPlugin:
    """Stands for the process of a plugin that is not ours, on ``port`` of the loopback."""

    def __init__(self, port: int) -> None:
        self.port = port
        #: Done once it answers no more, or this operation has no more use for it.
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def lost(self) -> None:
        """It answers no more."""
        if not self.ended.done():
            self.ended.set_result(0)

    async def drained(self) -> None:
        """Return at once: its owner reads what it writes."""

    def stderr_tail(self) -> str:
        """Its owner has it."""
        return ""

    def describe_end(self) -> str:
        """Describe its end to a person."""
        return f"was attached to by {VARIABLE}, and listens on port {self.port} no more"

    async def stop(self) -> None:
        """Leave it running."""
        self.lost()


class Connection:
    """To one plugin. ``capabilities`` is None where the plugin does not know the handshake."""

    def __init__(self, name: str, process: PluginProcess | AttachedPlugin) -> None:
        self.name = name
        self.capabilities: Capabilities | None = None
        self._process = process
        self._in_flight: set[Any] = set()
        self._closing = False
        self._channel = rpc.open_channel(f"127.0.0.1:{process.port}")
        self._stub = rpc.messages("provider_pb2_grpc").ResourceProviderStub(self._channel)
        process.ended.add_done_callback(self._ended)

    @classmethod
    async def open(
        cls,
        name: str,
        command: PluginCommand,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        engine_address: str,
        on_log: LogSink,
        start_deadline_s: float = START_DEADLINE_S,
    ) -> Connection:
        """Start the plugin of the package ``name``, as :meth:`PluginProcess.start` does, and greet it.

        It runs in the program's folder; the command adds to ``environ``, and ``engine_address`` is where it sends
        its log messages.

        Raises:
            PluginStartError: when its process does not come up.
            EngineError: when it does not answer.
        """
        process = await PluginProcess.start(
            name,
            (*command.argv, engine_address),
            cwd=cwd,
            environ={**environ, **command.environ},
            on_log=on_log,
            deadline_s=start_deadline_s,
        )
        connection = cls(name, process)
        try:
            await connection._greet(engine_address, str(command.folder))
        except BaseException:
            await connection.close(cancel=False)
            raise
        return connection

    @classmethod
    async def attach(cls, name: str, port: int, *, engine_address: str) -> Connection:
        """Greet a plugin that runs already, as somebody else's process, and tell it who its engine is now.

        Raises:
            EngineError: when it does not answer.
        """
        connection = cls(name, AttachedPlugin(port))
        try:
            await connection._greet(engine_address)
            await connection._attach(engine_address)
        except BaseException:
            await connection.close(cancel=False)
            raise
        return connection

    async def call(self, method: str, request: Any, about: str = "") -> Any:
        """Call a method of the plugin.

        Args:
            method: such as ``Create``.
            request: its message.
            about: the URN that it is about, for messages.

        Raises:
            rpc.Failure: when the plugin answered with an error.
            ProviderDied: when its process ended, or was ended by :meth:`close`, before it had answered.
        """
        if self._process.ended.done():
            raise ProviderDied(f"plugin {self.name} is gone: it {self._process.describe_end()}")
        try:
            return await rpc.call(getattr(self._stub, method), request, under_way=self._in_flight)
        except rpc.Failure as failure:
            under_way = f"while {method}{f' of {about}' if about else ''} was under way, so what became of it is not known"
            if self._closing and failure.code in {"UNAVAILABLE", "CANCELLED"}:
                raise ProviderDied(f"plugin {self.name} was ended {under_way}") from failure
            if await self._died(failure):
                raise ProviderDied(
                    f"plugin {self.name} died {under_way}: it {self._process.describe_end()}"
                ) from failure
            raise

    async def close(self, *, cancel: bool = True) -> None:
        """End the process: told first (``cancel``), then asked by signals."""
        if self._closing:
            await asyncio.wait([self._process.ended])
            return
        self._closing = True
        ours = isinstance(self._process, PluginProcess)
        if cancel and ours and not self._process.ended.done():
            await self.cancel()
        self._channel.close()
        await self._process.stop()

    async def cancel(self) -> None:
        """Ask the plugin to end what is under way; one that cannot is ended by signals anyway."""
        from google.protobuf import empty_pb2

        try:
            await rpc.call(self._stub.Cancel, empty_pb2.Empty(), deadline_s=_CANCEL_DEADLINE_S)
        except rpc.Failure:
            return

    async def _greet(self, engine_address: str, folder: str | None = None) -> None:
        messages = rpc.messages("provider_pb2")
        request = messages.ProviderHandshakeRequest(
            engine_address=engine_address,
            root_directory=folder,
            program_directory=folder,
            configure_with_urn=True,
            supports_refresh_before_update=True,
            invoke_with_preview=True,
            accepts_byte_string=True,
        )
        try:
            response = await rpc.call(
                self._stub.Handshake,
                request,
                deadline_s=_HANDSHAKE_DEADLINE_S,
                # One that runs already listens.
                wait_for_ready=isinstance(self._process, PluginProcess),
            )
        except rpc.Failure as failure:
            if failure.code == "UNIMPLEMENTED":
                return
            raise EngineError(
                f"plugin {self.name} did not come alive: {failure.text or failure.code}{self._process.stderr_tail()}"
            ) from failure
        self.capabilities = Capabilities.of_handshake(response)

    async def _attach(self, engine_address: str) -> None:
        request = rpc.messages("plugin_pb2").PluginAttach(address=engine_address)
        try:
            await rpc.call(self._stub.Attach, request, deadline_s=_HANDSHAKE_DEADLINE_S)
        except rpc.Failure as failure:
            raise EngineError(
                f"plugin {self.name}, which runs already, cannot be attached to: {failure.text or failure.code}"
            ) from failure

    async def _died(self, failure: rpc.Failure) -> bool:
        """Tell whether the call failed because the process ended. Plugins use the same codes for reasons of their own."""
        ended = self._process.ended
        if failure.code == "UNAVAILABLE" and isinstance(self._process, AttachedPlugin):
            self._process.lost()
        elif failure.code == "UNAVAILABLE":
            await asyncio.wait([ended], timeout=_END_AFTER_DISCONNECT_S)
        if failure.code not in {"UNAVAILABLE", "CANCELLED"} or not ended.done():
            return False
        await self._process.drained()
        return True

    def _ended(self, _: object) -> None:
        if self._in_flight and not self._closing:
            asyncio.get_running_loop().call_later(_DISCONNECT_AFTER_END_S, self._give_up)

    def _give_up(self) -> None:
        for call in list(self._in_flight):
            call.cancel()


def attach_port(name: str, environ: Mapping[str, str]) -> int | None:
    """The port of the plugin ``name`` that runs already; None where it is to be started.

    Raises:
        EngineError: what the environment says of it is no port.
    """
    for text in environ.get(VARIABLE, "").split(","):
        plugin, _, port = text.partition(":")
        if plugin == name and port:
            found = port_of(port)
            if found is None:
                raise EngineError(f"{VARIABLE}: expected a port for {name}, got {port!r}")
            return found
    return None

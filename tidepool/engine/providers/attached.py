"""Plugins that run already: ``PULUMI_DEBUG_PROVIDERS=NAME:PORT,NAME:PORT`` names those that are attached to.

They are somebody else's processes: an operation neither starts them nor ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from tidepool.engine.errors import EngineError

VARIABLE: Final = "PULUMI_DEBUG_PROVIDERS"


class AttachedPlugin:
    """Stands for the process of a plugin that is not ours, on ``port`` of the loopback."""

    pid: Final = 0

    def __init__(self, name: str, port: int) -> None:
        self.port = port
        #: Done once it answers no more, or this operation has no more use for it.
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._name = name

    def lost(self) -> None:
        """It answers no more."""
        if not self.ended.done():
            self.ended.set_result(0)

    async def drained(self) -> None:
        """What it writes is its owner's to read."""

    def stderr_tail(self) -> str:
        """Its owner has it."""
        return ""

    def describe_end(self) -> str:
        """What is known of its end, for a person."""
        return f"was attached to by {VARIABLE}, and listens on port {self.port} no more"

    async def stop(self) -> None:
        """Leave it running."""
        self.lost()


def attach_port(name: str, environ: Mapping[str, str]) -> int | None:
    """The port of the plugin ``name`` that runs already; None where it is to be started.

    Raises:
        EngineError: what the environment says of it is no port.
    """
    for text in environ.get(VARIABLE, "").split(","):
        plugin, _, port = text.partition(":")
        if plugin == name and port:
            if not (port.isascii() and port.isdecimal() and 0 < int(port) <= 65535):
                raise EngineError(f"{VARIABLE}: expected a port for {name}, got {port!r}")
            return int(port)
    return None

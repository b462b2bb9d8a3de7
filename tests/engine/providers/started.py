"""Real plugin processes for tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidepool.engine.project import PluginPath
from tidepool.engine.providers.connection import Connection
from tidepool.engine.providers.discovery import PluginCommand, PluginRequest, find
from tidepool.engine.providers.loading import EngineServer
from tidepool.engine.providers.plugin import PluginProvider
from tidepool.engine.providers.process import PluginProcess
from tidepool.engine.values import Properties

PLUGINS = Path(__file__).parents[1] / "plugins"
FAKE = PluginPath("fake", PLUGINS / "fake")
PROVIDER_URN = "urn:pulumi:dev::p::pulumi:providers:fake::default"
SEED = bytes(32)


def urn(name: str, type: str = "fake:index:Item") -> str:
    return f"urn:pulumi:dev::p::{type}::{name}"


@dataclass
class Heard:
    """What a plugin said: its output, and its messages to the Engine service."""

    lines: list[tuple[str, bool]] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)


def script(folder: Path, text: str) -> PluginCommand:
    """A plugin that is a shell script."""
    path = folder / "pulumi-resource-odd"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return PluginCommand((str(path),), folder)


def pid_of(provider: PluginProvider) -> int:
    """The id of the plugin's process."""
    process = provider._connection._process
    assert isinstance(process, PluginProcess)
    return process.pid


@asynccontextmanager
async def connected(
    folder: Path, command: PluginCommand | None = None, output_of: Heard | None = None, **environ: str
) -> AsyncIterator[PluginProvider]:
    """A plugin, the fake one by default, whose world is in ``folder``; not yet configured."""
    output_of = output_of or Heard()
    whole = {**os.environ, "FAKE_WORLD": str(folder / "world"), "FAKE_LOG": str(folder / "calls"), **environ}
    server = EngineServer(output_of.messages.append)
    provider = None
    try:
        provider = PluginProvider(
            await Connection.open(
                "fake",
                command or fake_command(whole),
                cwd=folder,
                environ=whole,
                engine_address=server.address,
                on_log=lambda line, is_stderr: output_of.lines.append((line, is_stderr)),
                start_deadline_s=float(environ.get("START_DEADLINE_S", "30")),
            )
        )
        yield provider
    finally:
        if provider is not None:
            await provider.close()
        server.close()


@asynccontextmanager
async def fake(
    folder: Path, configuration: Properties | None = None, **environ: str
) -> AsyncIterator[PluginProvider]:
    """The fake plugin, configured."""
    async with connected(folder, None, None, **environ) as provider:
        await provider.configure(PROVIDER_URN, "1", configuration or {})
        yield provider


def fake_command(environ: Mapping[str, str]) -> PluginCommand:
    home = Path("/nonexistent")
    return find(
        PluginRequest("fake"),
        project_plugins=[FAKE],
        environ=environ,
        pulumi_home=home,
        python=sys.executable,
    )


def world(folder: Path) -> list[dict[str, Any]]:
    """The effects that the fake plugin had."""
    file = folder / "world/world.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def calls(folder: Path) -> list[str]:
    """The methods that the fake plugin was called with."""
    return [json.loads(line)["method"] for line in (folder / "calls").read_text().splitlines()]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("it did not happen within ten seconds")


def is_running(pid: int) -> bool:
    """Whether the process exists, other than as a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends while it is read
        return False
    return state != "Z"

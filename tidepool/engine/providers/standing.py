"""Plugins that are kept running for many operations, which attach to them instead of starting their own."""

from __future__ import annotations

import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Final, Self

from tidepool.engine.errors import EngineError
from tidepool.engine.project import Project
from tidepool.engine.providers import discovery, interpreters, process
from tidepool.engine.providers.connection import VARIABLE
from tidepool.engine.providers.process import port_of

_START_S: Final = 30.0
_END_S: Final = 5.0


class StandingPlugin:
    """The process of one plugin. It ends with `end`, and by itself when nobody has its ``lifeline`` any more."""

    def __init__(self, name: str, argv: Iterable[str], folder: Path, environ: Mapping[str, str]) -> None:
        """Start it, and wait until it has told its port.

        Raises:
            EngineError: it does not come up.
        """
        # No engine's address: each operation tells its own when it attaches.
        try:
            started = process.spawn(argv, folder, environ, stderr=subprocess.DEVNULL, bufsize=0)
        except OSError as error:
            raise EngineError(f"plugin {name} cannot be started: {error}") from error
        self._process, self._watchdog = started
        stdout = self._process.stdout
        assert stdout is not None
        try:
            self.port = _announced_port(stdout, name)
        except BaseException:
            self.end()
            stdout.close()
            raise
        threading.Thread(target=_drain, args=(stdout,), name=f"plugin {name}", daemon=True).start()

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    @property
    def lifeline(self) -> int:
        """A descriptor: whoever has a copy keeps it alive."""
        return self._watchdog.lifeline

    def end(self) -> None:
        """End it. What it is doing is cut off."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watchdog.call_off()


class StandingPlugins:
    """The plugins ``names`` of a project, started when an operation is to begin. For one thread at a time."""

    def __init__(
        self,
        project: Project,
        names: Iterable[str],
        environ: Mapping[str, str],
        is_made_of: Callable[[], object] = lambda: None,
    ) -> None:
        """``environ`` is what they see for as long as they run, whatever an operation's environment is.

        When ``is_made_of`` gives something else than before, they are started anew.
        """
        self._project = project
        self._names = tuple(names)
        self._environ = environ
        self._is_made_of = is_made_of
        self._of: object = None
        self._running: dict[str, StandingPlugin] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ready(self) -> Mapping[str, str]:
        """Start those that do not run; what to add to an operation's environment.

        Raises:
            EngineError: one is not there, or does not come up.
        """
        if self._names and (of := self._is_made_of()) != self._of:
            self.end()
            self._of = of
        for name in self._names:
            if name in self._running and self._running[name].is_there:
                continue
            if (ended := self._running.pop(name, None)) is not None:
                ended.end()
            self._running[name] = self._start(name)
        if not self._running:
            return {}
        return {VARIABLE: ",".join(f"{name}:{plugin.port}" for name, plugin in self._running.items())}

    @property
    def lifelines(self) -> tuple[int, ...]:
        """For an operation to have, so that they outlive it."""
        return tuple(plugin.lifeline for plugin in self._running.values())

    def end(self) -> None:
        """End them all; the next `ready` starts others."""
        while self._running:
            _, plugin = self._running.popitem()
            plugin.end()

    def _start(self, name: str) -> StandingPlugin:
        project, program = self._project, self._project.program
        command = discovery.find(
            discovery.PluginRequest(name),
            project_plugins=project.providers,
            environ=self._environ,
            pulumi_home=Path(self._environ.get("PULUMI_HOME") or Path.home() / ".pulumi"),
            python=interpreters.of_project(project, self._environ, sys.executable),
        )
        folder = program if program.is_dir() else program.parent
        return StandingPlugin(name, command.argv, folder, {**self._environ, **command.environ})


def _announced_port(stdout: IO[bytes], name: str) -> int:
    deadline, told = time.monotonic() + _START_S, b""
    while not told.endswith(b"\n"):
        readable, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise EngineError(f"plugin {name} did not tell its port within {_START_S:g} s")
        # Unbuffered: what follows is for another reader.
        if not (more := stdout.readline()):
            raise EngineError(f"plugin {name} ended before it had told its port")
        told += more
    port = port_of(told.decode("utf-8", "replace"))
    if port is None:
        raise EngineError(f"plugin {name} wrote {told!r} where its port is expected")
    return port


def _drain(stdout: IO[bytes]) -> None:
    with stdout:
        for _ in stdout:
            pass

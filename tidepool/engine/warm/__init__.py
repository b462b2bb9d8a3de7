"""For programs that run one operation after the other: an engine behind the Automation API that is kept warm.

with warm_command(env, folder=project, modules=["what.the.program.imports"], plugins=["name"]) as command:
    stack = automation.select_stack("dev", work_dir=folder, opts=LocalWorkspaceOptions(pulumi_command=command))
    stack.up(...)

It does what `choose_command` of the same environment does, sooner. Importing this imports the SDK.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import create_command_error

from tidepool.engine.automation import (
    ChildOperation,
    Listener,
    Operation,
    choose_command,
    engine_operation,
    followed,
    is_operation,
)
from tidepool.engine.choice import chosen_engine
from tidepool.engine.project import find_project
from tidepool.engine.providers.standing import StandingPlugins
from tidepool.engine.warm.process import NotForked, WarmProcess, stamps

#: Of an operation that came to its end, whatever that is.
_ENDED: Final = frozenset({0, 1})

#: From a command line, its folder, its environment and descriptors that it keeps open.
Begin = Callable[[Sequence[str], str, Mapping[str, str], Sequence[int]], Operation]


class WarmPulumiCommand(PulumiCommand):
    """Does what ``quick`` does, but operations by ``begin`` and with ``plugins`` that run already. See `warm_command`."""

    def __init__(
        self, quick: PulumiCommand, begin: Begin, plugins: StandingPlugins, end: Callable[[], None]
    ) -> None:
        self.command = quick.command
        self.version = quick.version
        self._quick = quick
        self._begin = begin
        self._plugins = plugins
        self._end = end
        self._lock = threading.Lock()
        self._under_way: set[Operation] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Listener | None = None,
        on_error: Listener | None = None,
        descriptors: Sequence[int] = (),
    ) -> CommandResult:
        """Carry out a command line; lines go to the listeners as they come.

        An operation holds copies of ``descriptors`` to its end, though its caller be gone: locks, say.

        Raises:
            CommandError: or one of its kinds, when it fails.
            EngineError: a plugin that should be running cannot be started.
        """
        if not is_operation(args):
            return self._quick.run(args, cwd, additional_env, on_output, on_error)
        env = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        with self._lock:
            env |= self._plugins.ready()
            kept_open = (*self._plugins.lifelines, *descriptors)
            operation = self._begin(["--non-interactive", *args], cwd, env, kept_open)
            self._under_way.add(operation)
        code = 0
        try:
            result = followed(operation, on_output, on_error)
            code = result.code
        finally:
            with self._lock:
                self._under_way.discard(operation)
                if code not in _ENDED and not self._under_way:
                    # What a plugin was at when nobody waited for it any more must not reach into the next operation.
                    self._plugins.end()
        if code != 0:
            raise create_command_error(result)
        return result

    def prepare(self) -> None:
        """Start the plugins that the first operation would wait for.

        Raises:
            EngineError: one cannot be started.
        """
        with self._lock:
            self._plugins.ready()

    def interrupt(self) -> None:
        """Ask what is under way to end soon, and asked again, at once. From any thread."""
        with self._lock:
            for operation in self._under_way:
                operation.interrupt()

    def close(self) -> None:
        """End what is kept. What is under way goes on, as far as it comes without its plugins."""
        with self._lock:
            self._end()
            self._plugins.end()


def warm_command(
    env: Mapping[str, str],
    *,
    folder: Path,
    modules: Sequence[str] = (),
    plugins: Sequence[str] = (),
    watched: Sequence[Path] = (),
) -> WarmPulumiCommand:
    """A command for one project, by the engine that `choose_command` would take.

    The embedded engine imports what it needs from here on, while others go on; plugins wait for `prepare`, or `run`.

    Args:
        env: names the engine, as for `choose_command`; and it is what plugins see, whatever an operation's environment.
        folder: the project's, or one below it.
        modules: what the program imports, to be imported ahead; modules that start no threads.
        plugins: names of those that are kept running. They must be fit to serve one operation after the other.
        watched: files and folders of Python code: when any of it changes, all that is kept is started anew.

    Raises:
        EngineError: there is no project, or the engine that is asked for is not there.
    """
    project = find_project(folder)
    quick = choose_command(env)
    kept = StandingPlugins(project, plugins, env, lambda: stamps(watched))
    if chosen_engine(env) == "pulumi":

        def begin_cli(
            words: Sequence[str], cwd: str, env: Mapping[str, str], kept_open: Sequence[int]
        ) -> Operation:
            return ChildOperation([quick.command, *words], cwd, env, kept_open)

        return WarmPulumiCommand(quick, begin_cli, kept, lambda: None)
    warm = WarmProcess(modules, watched)
    warm.ready(env)

    def begin(words: Sequence[str], cwd: str, env: Mapping[str, str], kept_open: Sequence[int]) -> Operation:
        try:
            return warm.begin(words, cwd, env, kept_open)
        except NotForked:
            # Slower, and as good.
            return engine_operation(words, cwd, env, kept_open)

    return WarmPulumiCommand(quick, begin, kept, warm.end)

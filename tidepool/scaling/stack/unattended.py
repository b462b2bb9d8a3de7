"""Operations of the engine that nobody watches: they hold the stack's turn to their end, and may not hang for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pulumi.automation import CommandResult, PulumiCommand

from tidepool.engine.automation import is_operation
from tidepool.engine.warm import WarmPulumiCommand

#: Beside what the caller says: the CLI knows the flag of the event log only then.
_SETTINGS: Final = {"PULUMI_DEBUG_COMMANDS": "true"}
#: After the first interrupt the engine lets what is under way come to its end; after the second it waits for nothing.
_PATIENCE_S: Final = 90.0

Listener = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of an operation: how long it may take, where its events go, and descriptors that it holds.

    ``config`` is the stack's file that it is told of; None for the person's.
    """

    timeout_s: float
    events: Path
    descriptors: tuple[int, ...] = ()
    config: Path | None = None


class Unattended(PulumiCommand):
    """A command of the Automation API: that behind it, with operations by ``terms``."""

    def __init__(self, behind: WarmPulumiCommand, terms: Terms) -> None:
        """Start nothing: the base class would run ``pulumi version``."""
        self.command = behind.command
        self.version = behind.version
        self._behind = behind
        self._terms = terms

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Listener | None = None,
        on_error: Listener | None = None,
    ) -> CommandResult:
        """Carry out a command line.

        Raises:
            CommandError: or one of its kinds, when it fails; also where it took too long, and was ended.
            EngineError: it could not be started.
        """
        if not is_operation(args):
            return self._behind.run(args, cwd, additional_env, on_output, on_error)
        # The Automation API would read the events while they come, from a server in this process.
        words = [*args, "--event-log", str(self._terms.events)]
        if self._terms.config is not None:
            words += ["--config-file", str(self._terms.config)]
        timers = [
            threading.Timer(self._terms.timeout_s + later_s, self._behind.interrupt)
            for later_s in (0, _PATIENCE_S)
        ]
        try:
            for timer in timers:
                timer.daemon = True
                timer.start()
            return self._behind.holding(
                self._terms.descriptors, words, cwd, {**additional_env, **_SETTINGS}, on_output, on_error
            )
        finally:
            for timer in timers:
                timer.cancel()

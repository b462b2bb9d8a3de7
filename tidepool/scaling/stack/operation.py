"""One operation of the engine that nobody watches: its time, and its folder with its events and a copy of the stack's file.

An operation holds the stack's turn to its end, and may not hang for ever. The stack's file is a person's, who may be
writing in it at any moment, and an engine writes to the one that it is told of: the salt of the stack's secrets. So it is
told of a copy. Of a file that cannot be read, or is gone, the last copy is taken that could be: what is desired is for the
cluster as it was brought up, and the file has no say in it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pulumi.automation import CommandResult, PulumiCommand

from tidepool.engine.automation import is_operation
from tidepool.engine.config_file import read
from tidepool.engine.errors import EngineError
from tidepool.engine.warm import WarmPulumiCommand

#: Beside what the caller says: the CLI knows the flag of the event log only then.
_SETTINGS: Final = {"PULUMI_DEBUG_COMMANDS": "true"}
#: After the first interrupt the engine lets what is under way come to its end; after the second it waits for nothing.
_PATIENCE_S: Final = 90.0

_OPERATION: Final = "operation-"
_PREVIEW: Final = "preview-"
#: Longer than any preview may take.
_OLD_S: Final = 900.0

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
            env = {**additional_env, **_SETTINGS}
            return self._behind.run(words, cwd, env, on_output, on_error, self._terms.descriptors)
        finally:
            for timer in timers:
                timer.cancel()


class Folder:
    """A folder below ``parent`` for one operation on a stack of ``project``. It goes with the context.

    ``file`` is the stack's; None where the engine is to find it by itself.
    """

    def __init__(self, parent: Path, project: str, file: Path | None, *, is_preview: bool = False) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        prefix = _PREVIEW if is_preview else _OPERATION
        self._path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self.events = self._path / "events"
        #: The copy.
        self.config: Path | None = None
        try:
            if file is not None:
                self.config = self._path / file.name
                self.config.write_bytes(_readable(file, parent / file.name, self.config, project))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def clear(parent: Path) -> None:
    """Remove what operations left whose callers were killed. Only for who has the turn: they have ended.

    A preview takes no turn, so that only an old one has.
    """
    for folder in parent.glob(f"{_OPERATION}*"):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in parent.glob(f"{_PREVIEW}*"):
        with contextlib.suppress(FileNotFoundError):  # it ends in this moment
            if time.time() - folder.stat().st_mtime > _OLD_S:
                shutil.rmtree(folder, ignore_errors=True)


def _readable(file: Path, last: Path, scratch: Path, project: str) -> bytes:
    """Return what ``file`` says, where it can be read, which is then kept as ``last``; else what that says, or nothing."""
    try:
        said = file.read_bytes()
        # Of what was read, not of the file: that may be another one by now.
        scratch.write_bytes(said)
        read(scratch, project)
    except (FileNotFoundError, EngineError):
        return last.read_bytes() if last.exists() else b"{}\n"
    if not last.exists() or last.read_bytes() != said:
        scratch.replace(last)
    return said

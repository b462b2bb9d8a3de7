"""The front: a command line becomes a request, which is carried out; what went wrong becomes a line and an exit code.

Each verb is a function of :mod:`tidepool.engine.verbs`, whose arguments are the command's; the request of the operations
(preview, up, refresh, destroy) is here, for the engine takes it. Flags of all commands are in :mod:`tidepool.engine.verbs.commands`,
how words are read in :mod:`tidepool.engine.verbs.grammar`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TextIO, TypeAlias

from tidepool.engine.errors import EXIT_INTERRUPTED, AlreadyReported, EngineError, UsageError

if TYPE_CHECKING:
    from tidepool.engine.verbs.grammar import Command

OperationKind = Literal["preview", "up", "refresh", "destroy"]
Color = Literal["always", "never", "raw", "auto"]

#: The CLI's words for the operations, in history and display.
KINDS: Final[Mapping[str, Literal["preview", "update", "refresh", "destroy"]]] = {
    "preview": "preview",
    "up": "update",
    "refresh": "refresh",
    "destroy": "destroy",
}
_COLORS: Final = ("auto", "always", "never", "raw")


@dataclass(frozen=True, slots=True)
class World:
    """The surroundings of a verb: what it may know of and do to. ``cwd`` is absolute.

    ``interactive`` says that there is a person to ask; ``color`` whether and how to color what is shown;
    ``qualify_names`` asks for full stack names; ``skip_integrity_checks`` lets damaged states pass.
    """

    cwd: Path
    env: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    interactive: bool = False
    color: Color = "auto"
    qualify_names: bool = False
    skip_integrity_checks: bool = False
    #: How much is to be logged, 0 to 11; and whether to stderr instead of nowhere.
    verbosity: int = 0
    log_to_stderr: bool = False
    log_flow: bool = False
    #: What is piped in; None reads the process's own stdin.
    stdin: TextIO | None = None
    #: Whether the process is the engine's own, to run one program in: see :mod:`tidepool.engine.program`.
    owns_process: bool = False

    @property
    def input(self) -> TextIO:
        """The stream that answers and contents are read from."""
        return self.stdin if self.stdin is not None else sys.stdin

    @property
    def home(self) -> Path:
        """The person's home folder."""
        return Path(self.env["HOME"]) if self.env.get("HOME") else Path.home()

    @property
    def pulumi_home(self) -> Path:
        """The folder of Pulumi's own files: logins, plugins, which stack is selected."""
        return (self.cwd / self.env["PULUMI_HOME"]) if self.env.get("PULUMI_HOME") else self.home / ".pulumi"

    def flag(self, name: str) -> bool:
        """Tell whether the environment variable ``name`` switches something on."""
        return self.env.get(name, "").lower() in ("1", "t", "true")

    def say(self, text: str = "") -> None:
        """A line on stdout."""
        self.stdout.write(f"{text}\n")

    def tell(self, text: str) -> None:
        """A line on stderr."""
        self.stderr.write(f"{text}\n")


#: Carries a request out; the exit code, 0 where it is None. Raises EngineError for what a person must be told.
Verb: TypeAlias = Callable[[World], int | None]


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """The request for a preview, up, refresh or destroy. URNs in lists may hold ``*`` and ``**``.

    ``stack`` None is the selected stack. ``parallel`` None is the engine's own choice. ``refresh`` None
    leaves it to the project. ``event_log`` is a path, or ``tcp://HOST:PORT`` of a gRPC server of
    ``pulumirpc.Events``, which the Automation API of SDKs since 3.205 passes. ``client`` is the address
    of a language runtime that runs an inline program; None runs the project's program.
    """

    kind: OperationKind
    stack: str | None = None
    targets: tuple[str, ...] = ()
    target_dependents: bool = False
    replace: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    exclude_dependents: bool = False
    #: destroy: leave protected resources and what they need.
    exclude_protected: bool = False
    parallel: int | None = None
    continue_on_error: bool = False
    #: refresh, destroy: run the program first; None where it was not said.
    run_program: bool | None = None
    refresh: bool | None = None
    expect_no_changes: bool = False
    message: str = ""
    # Approval.
    skip_preview: bool = False
    yes: bool = False
    preview_only: bool = False
    # Pending creates of an operation that was cut off.
    clear_pending_creates: bool = False
    #: destroy: remove the stack afterwards.
    remove: bool = False
    # Configuration: ``KEY=VALUE`` texts, written to the stack's file first.
    config: tuple[str, ...] = ()
    config_path: bool = False
    config_file: str | None = None
    skip_config_validation: bool = False
    # Who runs the program, and who is told.
    client: str | None = None
    exec_kind: str = ""
    exec_agent: str = ""
    event_log: str | None = None
    # What is shown.
    json: bool = False
    diff: bool = False
    debug: bool = False
    show_config: bool = False
    show_full_output: bool = False
    show_reads: bool = False
    show_replacement_steps: bool = False
    show_sames: bool = False
    show_secrets: bool = False
    show_urns: bool = False
    suppress_outputs: bool = False
    suppress_progress: bool = False


def show_help(world: World, path: Sequence[Command], error: str = "") -> int:
    """Show the help of the last command of ``path``; ``error``, the mistake that it answers, follows on stderr."""
    from tidepool.engine.verbs.about import help_text

    world.stdout.write(help_text(path))
    if error:
        world.tell(f"error: {error}")
    return UsageError.exit_code if error else 0


def understand(args: Sequence[str], world: World) -> tuple[Verb, World]:
    """The verb that ``args`` ask for, and the world as the global flags make it.

    Raises:
        UsageError: when a word of it is not known; names it and the nearest known one.
        NotSupportedError: when it asks for something that only the CLI does.
    """
    from tidepool.engine.verbs import commands, grammar

    try:
        parsed = grammar.parse(commands.ROOT, args)
    except grammar.WrongCount as error:
        return partial(show_help, path=error.path, error=str(error)), world
    values = dict(parsed.values)
    if values.pop("output", "default") == "json":
        values["json"] = True
    world = _world(values, world)
    if parsed.help or not parsed.command.function:
        return partial(show_help, path=parsed.path), world
    module, _, name = parsed.command.function.partition(":")
    verb = getattr(import_module(f"tidepool.engine.verbs.{module}"), name)
    return partial(verb, **values), world


def _world(values: dict[str, Any], world: World) -> World:
    """``world`` changed by the global flags, which are taken out of ``values``."""
    color = values.pop("color", world.color)
    if color not in _COLORS:
        raise UsageError(
            f"unsupported color option: '{color}'.  Supported values are: auto, always, never, raw"
        )
    cwd = world.cwd
    if folder := values.pop("cwd", ""):
        cwd = world.cwd / folder
        if not cwd.is_dir():
            raise EngineError(f"chdir {folder}: no such file or directory")
        # As `chdir` and `getwd` do: links are followed, so that the project's path is one and the same.
        cwd = cwd.resolve()
    silent = values.pop("non_interactive", False)
    return replace(
        world,
        cwd=cwd,
        color=color,
        interactive=world.interactive and not silent,
        qualify_names=values.pop("fully_qualify_stack_names", world.qualify_names),
        skip_integrity_checks=values.pop("disable_integrity_checking", world.skip_integrity_checks),
        verbosity=values.pop("verbosity", world.verbosity),
        log_to_stderr=values.pop("logtostderr", world.log_to_stderr),
        log_flow=values.pop("logflow", world.log_flow),
    )


EXIT_INTERNAL: Final = 255


def main(
    args: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    interactive: bool,
    stdin: TextIO | None = None,
    owns_process: bool = False,
) -> int:
    """Carry out the command line ``args`` (without the program's name); the exit code.

    Writes to the given streams only, and never ends the process. ``cwd`` is absolute; ``stdin`` None is
    the process's own. ``owns_process`` lets an operation run its program in this process.
    """
    world = World(
        cwd=cwd,
        env=env,
        stdout=stdout,
        stderr=stderr,
        interactive=interactive,
        stdin=stdin,
        owns_process=owns_process,
    )
    try:
        verb, world = understand(args, world)
        return verb(world) or 0
    except AlreadyReported as error:
        return error.exit_code
    except EngineError as error:
        stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        stderr.write("error: interrupted\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the answer has enough of it, `head` say.
        return EXIT_INTERNAL
    except Exception as error:  # noqa: BLE001  (the last line of defence: a fault of ours, told in one line)
        where = _write_details(args)
        # Its text may hold a secret of the stack; the file is for its owner only.
        stderr.write(
            f"error: this is a fault of the embedded engine, not yours: {type(error).__name__}\n  Details are in {where}; please "
            "report it with that file (it may hold names and values of your stack).\n"
        )
        return EXIT_INTERNAL


def end_process(code: int) -> NoReturn:
    """End the process as Python ends one, for a program may have run in it, but without taking its objects apart.

    Threads that are no daemons come to their end, and then the functions of ``atexit`` are called, which remove temporary
    folders among others. The rest is memory, which the kernel frees at once.
    """
    try:
        import atexit
        import threading

        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = code or EXIT_INTERNAL
    finally:
        os._exit(code)


def _write_details(args: Sequence[str]) -> str:
    """The traceback in a file that only its owner can read; the file's path."""
    import platform
    import tempfile
    import traceback

    descriptor, name = tempfile.mkstemp(prefix="tidepool-engine-fault-", suffix=".txt")  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        # The verb only: further words may be secrets.
        file.write(
            f"command: {' '.join(args[:2])} ({len(args)} words)\nPython {platform.python_version()}\n\n"
        )
        traceback.print_exc(file=file)
    return name

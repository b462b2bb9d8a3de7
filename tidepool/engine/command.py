"""The front: a command line becomes a request, which is carried out; what went wrong becomes a line and an exit code.

Each verb is a function of :mod:`tidepool.engine.verbs`, whose arguments are the command's. Flags of all commands are in :mod:`tidepool.engine.verbs.commands`,
how words are read in :mod:`tidepool.engine.verbs.grammar`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO, TypeAlias

from tidepool.engine.errors import EXIT_INTERRUPTED, AlreadyReported, EngineError, UsageError
from tidepool.engine.request import World

if TYPE_CHECKING:
    from tidepool.engine.verbs.grammar import Command

_COLORS: Final = ("auto", "always", "never", "raw")


#: Carries a request out; the exit code, 0 where it is None. Raises EngineError for what a person must be told.
Verb: TypeAlias = Callable[[World], int | None]


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

"""The front: a command line is carried out, and what went wrong becomes a line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, TextIO

from tidepool.engine.arguments import World, understand
from tidepool.engine.errors import EXIT_INTERRUPTED, AlreadyReported, EngineError

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
        return verb.run(world)
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

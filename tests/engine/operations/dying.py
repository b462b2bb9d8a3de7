"""``python dying.py WHEN WHAT NUMBER ARGS...``: the engine, which kills itself at one point of its own writing.

WHAT is one of the engine's accesses to the backend, as :func:`_name` names them (``write journal``, ``rename
checkpoint``), NUMBER counts it from 1. WHEN is ``before``, ``after``, or ``torn``: in the middle of what it writes.

``python dying.py watch FOLDER 0 ARGS...`` kills nothing: before each access it copies backend and world to a
numbered folder below FOLDER, as they would be found had the engine been killed there.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

WHEN, WHAT, NUMBER = sys.argv[1:4]
BACKEND = Path(os.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
WORLD = Path(os.environ["FAKE_WORLD"])
seen: Counter[str] = Counter()
images = count(1)
copyfile, real_write = shutil.copyfile, os.write


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def _name(access: str, path: Any) -> str:
    """``access`` and what is accessed; empty where it is nothing of the backend."""
    if isinstance(path, int):
        path = os.readlink(f"/proc/self/fd/{path}")
    path = Path(path)
    if not path.is_relative_to(BACKEND):
        return ""
    folder = path.relative_to(BACKEND).parts[1]
    kind = {"stacks": "checkpoint", "journals": "journal", "locks": "lock"}.get(folder, folder)
    return f"{access} {'old ' if '.bak' in path.name else ''}{kind}"


def image(torn: tuple[int, bytes] | None) -> None:
    """Copy what there is; ``torn`` is written in part before, and taken back."""
    folder = Path(WHAT) / f"{next(images):04}"
    if torn is not None:
        fd, text = torn
        length = os.fstat(fd).st_size
        real_write(fd, text[: len(text) // 2])
    shutil.copytree(BACKEND, folder / "backend", copy_function=copyfile)
    shutil.copytree(WORLD, folder / "world", copy_function=copyfile)
    if torn is not None:
        os.ftruncate(fd, length)
        os.lseek(fd, 0, os.SEEK_END)


def watched(access: str, function: Callable[..., Any], place: int = 0) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        name = _name(access, args[place])
        if not name:
            return function(*args, **more)
        seen[name] += 1
        writes = access == "write"
        if WHEN == "watch":
            image(None)
            if writes:
                image((args[0], bytes(args[1])))
        here = (name, seen[name]) == (WHAT, int(NUMBER))
        if here and WHEN == "before":
            die()
        if here and WHEN == "torn":
            real_write(args[0], bytes(args[1])[: len(args[1]) // 2])
            die()
        result = function(*args, **more)
        if here and WHEN == "after":
            die()
        return result

    return call


if __name__ == "__main__":
    os.write = watched("write", os.write)
    os.fsync = watched("sync", os.fsync)
    os.fdatasync = watched("sync", os.fdatasync)
    os.replace = watched("rename", os.replace, 1)
    os.unlink = watched("remove", os.unlink)
    shutil.copyfile = watched("copy", shutil.copyfile, 1)
    sys.argv[1:] = sys.argv[4:]
    # As `python -m` does: the folder of this file is none of the engine's business.
    sys.path[0] = ""
    from tidepool.engine.command import main

    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.exit(main(sys.argv[1:], Path.cwd(), os.environ, sys.stdout, sys.stderr, False, owns_process=True))

"""Operations on a run's folder, on a machine that has it: a bare interpreter runs it, as the run's user.

    python3 -I -c THIS VERB FOLDER ARGUMENTS

Arguments and answers are JSON; contents are base64, for ways to machines carry text. It says what failed on standard error.
"""

import base64
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def main(verb: str, folder: str, arguments: str) -> None:
    """Do one thing, and print the answer."""
    print(json.dumps(_VERBS[verb](Path(folder), **json.loads(arguments))))  # noqa: T201 - this is the answer


def make(folder: Path) -> None:
    """Make the folder, for its user alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def find(folder: Path, globs: list[str], without: list[str]) -> dict[str, object]:
    """Return the files that match, with sizes and checksums, and the globs that match none; links lead to files below."""
    root, found, unmatched = folder.resolve(), set(), []
    for glob in globs:
        matching = {path for path in folder.glob(glob) if _is_output(path, root)}
        matching = {path for path in matching if str(path.relative_to(folder)) not in without}
        found |= matching
        if not matching:
            unmatched.append(glob)
    files = [[str(path.relative_to(folder)), path.stat().st_size, _sha256(path)] for path in sorted(found)]
    return {"files": files, "unmatched": unmatched}


def read(folder: Path, path: str, offset: int, length: int) -> str:
    """Return a part of a file."""
    with (folder / path).open("rb") as file:
        return base64.b64encode(os.pread(file.fileno(), length, offset)).decode()


def state(folder: Path, path: str) -> list[int]:
    """Return the sizes of a file that is staged, and of what is there of it; -1 where there is none."""
    return [each.stat().st_size if each.exists() else -1 for each in (folder / path, _part(folder, path))]


def write(folder: Path, path: str, offset: int) -> None:
    """Write what comes on standard input to what is there of a file, at ``offset``; what was behind it goes."""
    part = _part(folder, path)
    part.parent.mkdir(parents=True, exist_ok=True)
    data = base64.b64decode(sys.stdin.read())
    with part.open("r+b" if part.exists() else "xb") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(data)


def finish(folder: Path, path: str) -> None:
    """Give a file that came whole its name."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = _part(folder, path)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(target)


def _part(folder: Path, path: str) -> Path:
    return folder / ".staging" / path


def _is_output(path: Path, root: Path) -> bool:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return real.is_file() and root in real.parents and ".staging" not in real.relative_to(root).parts


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


_VERBS: dict[str, Any] = {
    "make": make,
    "find": find,
    "read": read,
    "state": state,
    "write": write,
    "finish": finish,
}

if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except FileNotFoundError as error:
        sys.exit(f"{error.filename}: it is not there")
    except OSError as error:
        sys.exit(f"{error.filename or sys.argv[2]}: {error.strerror}")

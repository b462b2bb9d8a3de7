"""The folder of one operation: its events, and the stack's file as it is told of it.

That file is a person's, who may be writing in it at any moment, and an engine writes to the one that it is told of: the
salt of the stack's secrets. So it is told of a copy. Of a file that cannot be read, or is gone, the last copy is taken
that could be: a wish is for the cluster as it was brought up, and the file has no say in it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from tidepool.engine.config_file import read
from tidepool.engine.errors import EngineError

_OPERATION: Final = "operation-"
_PREVIEW: Final = "preview-"
#: Longer than any preview may take.
_OLD_S: Final = 900.0


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

"""A bucket that is a folder: its keys are the files' own paths. And the journal as one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tidepool.engine.errors import EngineError
from tidepool.engine.state import files
from tidepool.engine.state.files import StorageError

_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Folder:
    """The folder ``root``."""

    is_shared = False

    def __init__(self, root: Path) -> None:
        """Open it; nothing is written.

        Raises:
            EngineError: when there is no such folder.
        """
        self.root = root
        if not root.is_dir():
            raise EngineError(
                f'unable to open state directory "file://{root}": no such folder; make it with: mkdir -p {root}'
            )

    def location(self, key: Path) -> str:
        return str(key)

    def read(self, key: Path) -> bytes:
        return files.read(key)

    def write(self, key: Path, content: bytes, *, durable: bool = True, mode: int = 0o600) -> None:
        files.write(key, content, durable=durable, mode=mode)

    def write_new(self, key: Path, content: bytes) -> bool:
        return files.write_new(key, content)

    def copy(self, key: Path, target: Path) -> bool:
        return files.copy(key, target)

    def move(self, key: Path, target: Path) -> None:
        files.move(key, target)

    def remove(self, key: Path) -> None:
        files.remove(key)

    def names(self, folder: Path) -> list[str]:
        return files.names(folder)

    def folders(self, folder: Path) -> list[str]:
        try:
            return sorted(path.name for path in folder.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []

    def dated(self, folder: Path, prefix: str = "") -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for name in files.names(folder):
            if name.startswith(prefix):
                try:
                    found.append(((folder / name).stat().st_mtime_ns, name))
                except FileNotFoundError:
                    continue  # removed since
        return found

    def remove_unfinished(self, key: Path) -> None:
        files.remove_unfinished(key)

    def log(self, key: Path) -> FileLog:
        return FileLog(key)


class FileLog:
    """The journal in the file ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._length = 0

    @property
    def location(self) -> str:
        return str(self.path)

    def write(self, text: bytes) -> None:
        try:
            if self._fd is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._fd = os.open(self.path, _OPEN, 0o600)
                files.sync_folder(self.path.parent)
            try:
                view = memoryview(text)
                while view:
                    view = view[os.write(self._fd, view) :]
                os.fdatasync(self._fd)
            except OSError:
                os.ftruncate(self._fd, self._length)
                raise
        except OSError as error:
            raise self._unwritable(error) from error
        self._length += len(text)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def remove(self) -> None:
        if self._fd is None:
            return
        own = os.fstat(self._fd)
        os.close(self._fd)
        # Where the lock was broken, the file may be that of another operation by now.
        if self.path.exists() and os.path.samestat(own, self.path.stat()):
            self.path.unlink(missing_ok=True)

    def read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read the journal {self.path}: {error.strerror}") from error

    def amend(self, line: bytes) -> None:
        try:
            with self.path.open("rb+") as file:
                # A last line that was cut off would swallow what follows it.
                file.seek(file.read().rfind(b"\n") + 1)
                file.truncate()
                file.write(line)
                file.flush()
                os.fdatasync(file.fileno())
        except FileNotFoundError as error:
            raise StorageError(
                f"the journal {self.path} is gone: whoever wrote it has ended. Look again"
            ) from error
        except OSError as error:
            raise self._unwritable(error) from error

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write the journal {self.path}: {error.strerror}")

"""Results in a folder: of this machine, or of a file system that others have too.

A file is written aside, below ``.parts``, is on the disk, and then has its name by one link, which fails where the name is
taken: so it is whole, and there once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidepool.runs.ports import Refused, RunError
from tidepool.runs.results.store import PART, Differs, Fingerprint, Source, spans

_PARTS: Final = ".parts"
_REMEDIES: Final = {
    errno.ENOSPC: "make room there; then it goes on",
    errno.EDQUOT: "the quota is used up: make room, or have it raised; then it goes on",
    errno.EFBIG: "files as large as this are not allowed there; take another place",
    errno.EROFS: "the file system is read-only; mount it to be written, or take another place",
    errno.EACCES: "give the one who runs this the right to write there, or take another place",
    errno.EPERM: "give the one who runs this the right to write there, or take another place",
    errno.ENOTDIR: "something on the way is no folder; take another place",
    errno.EIO: "see the disk, and the kernel's log",
}
_NEVER: Final = frozenset(
    {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EFBIG, errno.ENAMETOOLONG}
)


class FolderStore:
    """The folder ``root``, which has to be there."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def location(self, name: str) -> str:
        return str(self._path(name)) if name else str(self._root)

    def check(self) -> None:
        if not self._root.is_dir():
            raise Refused(f"{self._root} is no folder that is there; make it, or name another place")
        name = f"check-{secrets.token_hex(4)}"
        self.write(name, b"")
        self.remove(name)

    def read(self, name: str) -> bytes:
        with self._explained("read", name):
            return self._path(name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        with self._explained("written", name):
            part = self._written(name, content)
            try:
                os.replace(part, self._path(name))
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            self._sync(self._path(name).parent)

    def write_new(self, name: str, content: bytes) -> bool:
        with self._explained("written", name):
            part = self._written(name, content)
            try:
                return self._named(part, name)
            finally:
                part.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        with self._explained("removed", name):
            self._path(name).unlink(missing_ok=True)

    def names(self, prefix: str) -> list[str]:
        with self._explained("listed", prefix):
            return sorted(name for name in self._below(self._root) if name.startswith(prefix))

    def upload(self, name: str, source: Source, sent: Callable[[int], None]) -> bool:
        if self._path(name).exists():
            self._require_same(name, source)
            sent(source.size)
            return False
        part = self._root / _PARTS / name
        with self._explained("written", name):
            self._make_folders(part, self._path(name))
            if self._copied(part, source, sent) != source.sha256:
                # What was there was of another time; what is there now is all of this one's.
                part.unlink()
                if self._copied(part, source, sent) != source.sha256:
                    part.unlink()
                    raise RunError(f"{name} changes while it is kept; see what still writes to it")
            is_new = self._named(part, name)
            part.unlink()
        if not is_new:
            self._require_same(name, source)
        return is_new

    def missing_parts(self, name: str, size: int, sha256: str, checksums: Sequence[str]) -> tuple[int, ...]:
        told = Fingerprint(size, sha256)
        if self._path(name).exists():
            self._require_same(name, told)
            return ()
        part, parts = self._root / _PARTS / name, spans(size)
        with self._explained("written", name):
            there = part.stat().st_size if part.is_file() else -1
            if there < size:
                return (sum(offset + length <= there for offset, length in parts) + 1,)
            with part.open("rb") as file:
                came = hashlib.file_digest(file, "sha256").hexdigest()
            if there != size or came != sha256:
                # What was there was of another time.
                part.unlink()
                return (1,)
            self._make_folders(self._path(name))
            is_new = self._named(part, name)
            part.unlink()
        if not is_new:
            self._require_same(name, told)
        return ()

    def put_part(self, name: str, size: int, number: int, data: bytes) -> None:
        offset, length = spans(size)[number - 1]
        part = self._root / _PARTS / name
        with self._explained("written", name):
            self._make_folders(part)
            with part.open("a+b") as file:
                if len(data) != length or file.seek(0, os.SEEK_END) < offset:
                    raise Refused(f"part {number} of {name} is not what comes next")
                file.truncate(offset)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

    def sha256(self, name: str) -> str:
        with self._explained("read", name), self._path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def size(self, name: str) -> int:
        with self._explained("read", name):
            return self._path(name).stat().st_size

    def fetch(self, name: str, offset: int, length: int) -> bytes:
        with self._explained("read", name), self._path(name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def unfinished(self, prefix: str) -> list[str]:
        with self._explained("listed", prefix):
            return sorted(name for name in self._below(self._root / _PARTS) if name.startswith(prefix))

    def abandon(self, prefix: str) -> None:
        for name in self.unfinished(prefix):
            with self._explained("removed", name):
                (self._root / _PARTS / name).unlink(missing_ok=True)
        with self._explained("removed", prefix):
            self._remove_empty(self._root / _PARTS)

    def close(self) -> None:
        pass

    def _path(self, name: str) -> Path:
        path = self._root / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise Refused(f"{name!r} is no name below {self._root}")
        return path

    def _copied(self, part: Path, source: Source, sent: Callable[[int], None]) -> str:
        """Copy what is missing behind what is there; returns the checksum of all."""
        digest = hashlib.sha256()
        with part.open("a+b") as file:
            there = file.seek(0, os.SEEK_END)
            there = there - there % PART if there <= source.size else 0
            file.truncate(there)
            file.seek(0)
            for _ in range(0, there, PART):
                digest.update(file.read(PART))
            sent(there)
            for at in range(there, source.size, PART):
                data = source.read(at, min(PART, source.size - at))
                digest.update(data)
                file.write(data)
                file.flush()
                sent(len(data))
            os.fsync(file.fileno())
        return digest.hexdigest()

    def _written(self, name: str, content: bytes) -> Path:
        part = self._root / _PARTS / f"{name}.{secrets.token_hex(8)}"
        self._make_folders(part, self._path(name))
        try:
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return part

    def _make_folders(self, *files: Path) -> None:
        self._require_root()
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)

    def _require_root(self) -> None:
        if not self._root.is_dir():
            # Perhaps what it is on is not mounted now: what is behind it is neither read nor written.
            raise FileNotFoundError(errno.ENOENT, "it is gone", str(self._root))

    def _named(self, part: Path, name: str) -> bool:
        try:
            os.link(part, self._path(name))
        except FileExistsError:
            return False
        self._sync(self._path(name).parent)
        return True

    def _require_same(self, name: str, source: Source | Fingerprint) -> None:
        if self.size(name) != source.size or self.sha256(name) != source.sha256:
            raise Differs(
                f"{self.location(name)} is there already, and is another file; move it away, or take another place"
            )

    def _below(self, folder: Path) -> Iterator[str]:
        self._require_root()
        for path, folders, files in os.walk(folder, onerror=_raise_unless_gone):
            if Path(path) == self._root:
                folders[:] = [each for each in folders if each != _PARTS]
            yield from (str((Path(path) / file).relative_to(folder)) for file in files)

    def _remove_empty(self, folder: Path) -> None:
        for path, _, _ in os.walk(folder, topdown=False, onerror=_raise_unless_gone):
            try:
                Path(path).rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                    raise

    @staticmethod
    def _sync(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _explained(self, done: str, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if done == "read" and self._root.is_dir():
                raise
            raise RunError(
                f"{self._root} is gone; make it, or mount what it is on; then it goes on"
            ) from None
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "see the disk that it is on")
            kind = Refused if error.errno in _NEVER else RunError
            raise kind(f"{self.location(name)} cannot be {done}: {error.strerror}; {remedy}") from error


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error

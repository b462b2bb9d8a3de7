"""Reading and writing whole files so that a crash at any moment leaves either the old or the new one."""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidepool.engine.errors import EngineError, NotSupportedError

GZIP: Final = ".gz"
ZSTD: Final = ".zst"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_PRIVATE: Final = 0o600
#: Where the CLI keeps a file's content type and checksum; stale after a write of ours, and not needed.
_ATTRIBUTES: Final = ".attrs"


class StorageError(EngineError):
    """The place refused, or cannot be reached: no space left, no permission, a broken disk, a server that is away."""


class ContentDamaged(StorageError):
    """Content that was read is not what was written."""


def read(path: Path) -> bytes:
    """The content of ``path``, uncompressed.

    Raises:
        FileNotFoundError: when there is no such file.
        NotSupportedError: when it is compressed with zstd.
        StorageError: when it cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    return unpacked(content, str(path))


def unpacked(content: bytes, location: str) -> bytes:
    """Return what was stored at ``location`` without its compression; errors as :func:`read`."""
    if content.startswith(_GZIP_MAGIC):
        try:
            return gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise ContentDamaged(f"cannot read {location}: damaged gzip file: {error}") from error
    if content.startswith(_ZSTD_MAGIC):
        raise NotSupportedError(f"a state file compressed with zstd ({location})")
    return content


def packed(content: bytes, name: str) -> bytes:
    """Return what is stored under ``name``: compressed where that ends in .gz."""
    return gzip.compress(content, compresslevel=6, mtime=0) if name.endswith(GZIP) else content


def write(path: Path, content: bytes, *, durable: bool = True, mode: int = _PRIVATE) -> None:
    """Replace ``path`` by ``content``, or leave it as it was.

    ``durable``: return only when the content is on disk. A name that ends in .gz is compressed. A new
    file gets ``mode``, private to its user where nothing else is said; one that is replaced keeps its own.
    Folders are made.

    Raises:
        StorageError: when it cannot be written; ``path`` is then as it was before.
    """
    content = packed(content, path.name)
    try:
        with _replacing(path) as temporary:
            _write_new(temporary, content, _permissions(path, mode), durable)
        if durable:
            sync_folder(path.parent)
        _unlink_attributes(path)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}. The file is as it was before; free the space or fix "
            "the permissions and run the command again"
        ) from error


def write_new(path: Path, content: bytes) -> bool:
    """Make ``path``, private to its user, durable and whole, where there is none; returns whether it was made.

    Raises:
        StorageError: when it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_new(temporary, content, _PRIVATE, durable=True)
            os.link(temporary, path)
            sync_folder(path.parent)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    return True


def copy(path: Path, copy: Path) -> bool:
    """Make ``copy`` what ``path`` is now, atomically; returns whether ``path`` exists.

    Raises:
        StorageError: when the copy cannot be made.
    """
    try:
        with _replacing(copy) as temporary:
            # Not a hard link: damage to one file must not be damage to its backup.
            shutil.copyfile(path, temporary)
            temporary.chmod(_permissions(path))
        _unlink_attributes(copy)
    except FileNotFoundError as error:
        if error.filename in (str(path), path):
            return False
        raise StorageError(f"cannot copy {path} to {copy}: {error.strerror}") from error
    except OSError as error:
        raise StorageError(f"cannot copy {path} to {copy}: {error.strerror}. {path} is as it was") from error
    return True


def move(path: Path, target: Path) -> None:
    """Rename ``path`` to ``target``, making its folder. FileNotFoundError where there is no ``path``.

    Raises:
        StorageError: when it cannot be renamed.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        _unlink_attributes(path)
        _unlink_attributes(target)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot rename {path} to {target}: {error.strerror}") from error


def remove(path: Path) -> bool:
    """Remove a file and what the CLI noted about it; returns whether it was there.

    Raises:
        StorageError: when it cannot be removed.
    """
    try:
        _unlink_attributes(path)
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {error.strerror}") from error
    return True


def names(folder: Path) -> list[str]:
    """The names of the files in ``folder``, in order, but for the CLI's notes and unfinished writes.

    Raises:
        StorageError: when the folder cannot be read; one that does not exist is empty.
    """
    try:
        with os.scandir(folder) as entries:
            found = [e.name for e in entries if e.is_file()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot read the folder {folder}: {error.strerror}") from error
    return sorted(n for n in found if not n.endswith((_ATTRIBUTES, ".tmp")))


def remove_unfinished(path: Path) -> None:
    """Remove what writes of ``path`` and its ``.bak`` left that were killed. Only for who holds the lock."""
    with contextlib.suppress(FileNotFoundError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(f".{path.name}.") and entry.name.endswith(".tmp"):
                Path(entry.path).unlink(missing_ok=True)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a file to write, which becomes ``path`` where that succeeds. Folders' permissions follow the umask, as for the CLI."""
    # Beside the target, since a rename is atomic only within one file system.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _unlink_attributes(path: Path) -> None:
    path.with_name(path.name + _ATTRIBUTES).unlink(missing_ok=True)


def _permissions(path: Path, otherwise: int = _PRIVATE) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return otherwise


def _write_new(path: Path, content: bytes, mode: int, durable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fchmod(descriptor, mode)  # the umask may have taken bits away
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Return when the names in ``folder`` are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

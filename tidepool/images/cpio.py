"""Archives that the kernel unpacks as its initramfs: cpio in the form newc."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

FILE: Final = 0o100000
FOLDER: Final = 0o040000
LINK: Final = 0o120000
_CHUNK: Final = 2**20


class Target(Protocol):
    """A file, or what takes bytes as one."""

    def write(self, data: bytes, /) -> int: ...


@dataclass(frozen=True)
class Entry:
    """A file of a cpio: ``mode`` with its kind; ``data`` is what is in it, where it leads to, or the file that it is a copy of."""

    path: str
    mode: int
    data: bytes | Path = b""


def cpio(entries: Iterable[Entry], target: Target) -> None:
    """Write a cpio with root's files, of no time."""
    for number, each in enumerate(entries, 1):
        _write(each, number, target)
    _write(Entry("TRAILER!!!", 0), 0, target)


def _write(entry: Entry, number: int, target: Target) -> None:
    data, name = entry.data, entry.path.encode() + b"\0"
    size = len(data) if isinstance(data, bytes) else data.stat().st_size
    fields = (number, entry.mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    target.write(head + b"\0" * (-len(head) % 4))
    if isinstance(data, bytes):
        target.write(data)
    else:
        with data.open("rb") as file:
            while chunk := file.read(_CHUNK):
                target.write(chunk)
    target.write(b"\0" * (-size % 4))

"""Detecting that a process has imported code which is another on the disk by now."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

#: Of a file: its time of change in ns, its size, and which file it is.
Stamp = tuple[str, int, int, int]


def stamps(paths: Iterable[Path]) -> frozenset[Stamp]:
    """Stamp the Python files at or below ``paths``, and what is installed for this interpreter.

    With others, what was imported before is old.
    """
    found = set(_installed())
    for path in paths:
        found.update(_stamps(path))
    return frozenset(found)


def _installed() -> Iterator[Stamp]:
    """Packages come and go as entries of these folders, and their versions are in the entries' names."""
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sys.prefix}:
        yield from _stamp(folder, Path(folder).stat)


def _stamps(path: Path) -> Iterator[Stamp]:
    if not path.is_dir():
        yield from _stamp(str(path), path.stat)
        return
    folders = [str(path)]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            continue  # it went in this moment, and what was in it with it
        with entries:
            for entry in entries:
                if entry.is_dir():
                    if not entry.name.startswith((".", "__pycache__")):
                        folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    yield from _stamp(entry.path, entry.stat)


def _stamp(path: str, look: Callable[[], os.stat_result]) -> Iterator[Stamp]:
    try:
        found = look()
    except OSError:
        return
    yield path, found.st_mtime_ns, found.st_size, found.st_ino

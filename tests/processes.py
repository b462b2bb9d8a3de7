"""What the kernel tells of processes: a small system has no ``ps``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def children(pid: int) -> set[int]:
    """Those that a process, any of its threads, has started and not reaped; nothing of one that has ended."""
    found: set[int] = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
                found.update(map(int, (task / "children").read_text().split()))
    return found

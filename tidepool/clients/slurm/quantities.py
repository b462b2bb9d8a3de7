"""Slurm's way to write sizes, times and TRES, read into numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

#: What Slurm writes where there is nothing to write.
NOTHING: Final = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "none"})

_UNITS: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def text(written: str) -> str:
    """``written``, empty where Slurm says that there is nothing."""
    return "" if written in NOTHING else written


def memory_mib(written: str) -> int:
    """``8G``, ``8000M``, ``8000`` (MiB) or ``1.50G`` in MiB."""
    number = written.rstrip("KMGTP")
    return round(float(number) * _UNITS[written[len(number) :]])


def duration_s(written: str) -> int | None:
    """``1-02:03:04``, ``02:03`` (minutes and seconds) in seconds; none where unlimited or not set.

    Slurm's commands always write seconds: a lone number is not read as minutes, as their arguments are.
    """
    if written in NOTHING or written in {"UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit"}:
        return None
    match = _DURATION.fullmatch(written)
    if not match:
        raise ValueError(f"{written!r} is no duration")
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is not None:
        parts = [int(days), *parts, *([0] * (3 - len(parts)))]
    seconds = 0
    for part, factor in zip(reversed(parts), (1, 60, 3600, 86400), strict=False):
        seconds += part * factor
    return seconds


def moment(written: str) -> datetime | None:
    """Seconds since the epoch, as ``SLURM_TIME_FORMAT=%s`` makes Slurm write all times; none where there is none."""
    return None if written in NOTHING else datetime.fromtimestamp(int(written), UTC)


def tres(written: str) -> Mapping[str, str]:
    """``cpu=4,mem=8G,gres/gpu=2`` by name; also ``gres:gpu:a100:2``, as requests are written, as ``gres/gpu:a100``.

    Amounts stay as Slurm wrote them; `count` and `memory_mib` read them.
    """
    found: dict[str, str] = {}
    if written not in NOTHING:
        for item in written.split(","):
            name, equals, amount = item.partition("=")
            if not equals:
                name, colon, amount = item.rpartition(":")
                if not colon or not amount[:1].isdigit():
                    name, amount = item, "1"
                name = name.replace(":", "/", 1) if name.startswith(("gres:", "license:")) else name
            found[name] = amount
    return MappingProxyType(found)


def array_size(tasks: str) -> int:
    """Count the tasks of an array ``0-9:2,12%4``; 1 for a job without an array.

    The number after ``%`` limits how many run at once, and is not counted.
    """
    if not tasks:
        return 1
    size = 0
    for part in tasks.partition("%")[0].split(","):
        match = _TASKS.fullmatch(part)
        if not match:
            raise ValueError(f"{tasks!r} are no array tasks")
        first, last, step = (int(group) if group else None for group in match.groups())
        assert first is not None
        size += (last - first) // (step or 1) + 1 if last is not None else 1
    return size


def array_indices(tasks: str) -> Iterator[int]:
    """Yield the indices of an array ``0-9:2,12%4``, range by range."""
    for part in tasks.partition("%")[0].split(","):
        match = _TASKS.fullmatch(part)
        if not match:
            raise ValueError(f"{tasks!r} are no array tasks")
        first, last, step = (int(group) if group else None for group in match.groups())
        assert first is not None
        yield from range(first, (first if last is None else last) + 1, step or 1)

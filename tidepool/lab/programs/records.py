"""Records that processes write of themselves (`record.h` says how), read into `ProcessRecord`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tidepool.lab.errors import LabError
from tidepool.lab.outcome import ProcessRecord

_FILE: Final = re.compile(r"(?P<rank>\d+)\.(?P<start_ns>\d+)\.(?P<pid>\d+)")
_NS: Final = 1_000_000_000


def read_records(records: Path, began: float) -> Mapping[str, tuple[ProcessRecord, ...]]:
    """The records of all processes that have begun, by the name of their job, in the order of their starts.

    Args:
        records: the trial's folder; one that is not there has none.
        began: the trial's beginning, in seconds since the epoch; times are counted from it.

    A process's attempt is told by its starts: the second process of a rank is its second attempt. One that was killed has no
    end; what it was writing then is left out.

    Raises:
        LabError: a file there is no record.
    """
    folders = sorted(each for each in records.iterdir() if each.is_dir()) if records.is_dir() else []
    return MappingProxyType({folder.name: _read_job(folder, round(began * _NS)) for folder in folders})


def _read_job(folder: Path, began_ns: int) -> tuple[ProcessRecord, ...]:
    starts = []
    for path in folder.iterdir():
        name = _FILE.fullmatch(path.name)
        if not name:
            raise LabError(f"{path} is no record of a process: its name is not RANK.START.PID; take it away")
        starts.append((int(name["start_ns"]), int(name["rank"]), path))
    attempts: Counter[int] = Counter()
    read = []
    for start_ns, rank, path in sorted(starts):
        attempts[rank] += 1
        read.append(_read(path, rank, attempts[rank], start_ns, began_ns))
    return tuple(read)


def _read(path: Path, rank: int, attempt: int, start_ns: int, began_ns: int) -> ProcessRecord:
    machine, ended_s, exit_code = "", None, None
    cpus: tuple[int, ...] = ()
    figures: dict[str, float] = {}
    # What stands behind the last end of a line is being written, or was when its process was killed.
    for line in path.read_text().split("\n")[:-1]:
        try:
            match line.split(" "):
                case ["machine", machine]:
                    pass
                case ["cpus", listed]:
                    cpus = tuple(map(int, listed.split(",")))
                case ["figure", name, value]:
                    figures[name] = float(value)
                case ["end", end_ns, code]:
                    ended_s, exit_code = (int(end_ns) - began_ns) / _NS, int(code)
                case _:
                    raise ValueError("no line of a record")
        except ValueError as fault:
            raise LabError(
                f"{path}: {line!r} is not understood ({fault}); is it of another release?"
            ) from fault
    return ProcessRecord(
        rank=rank,
        attempt=attempt,
        machine=machine,
        cpus=cpus,
        started_s=(start_ns - began_ns) / _NS,
        ended_s=ended_s,
        exit_code=exit_code,
        figures=MappingProxyType(figures),
    )

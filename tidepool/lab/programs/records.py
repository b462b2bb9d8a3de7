"""Records that processes write of themselves (`record.h` says how), read into `ProcessRecord`."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tidepool.lab.errors import LabError
from tidepool.lab.outcome import ProcessRecord

_FILE: Final = re.compile(r"(?P<rank>\d+)\.(?P<start_ns>\d+)\.(?P<pid>\d+)")
_NS: Final = 1_000_000_000
#: The least that file systems give a file, in bytes.
_PAGE: Final = 4096


def read_records(
    records: Path, began: float, *, own_clocks: bool = False
) -> Mapping[str, tuple[ProcessRecord, ...]]:
    """The records of all processes that have begun, by the name of their job, in the order of their starts.

    Args:
        records: the trial's folder; one that is not there has none.
        began: the trial's beginning, in seconds since the epoch; times are counted from it.
        own_clocks: machines have clocks that are not this host's. Their times are moved by how far the host's is ahead, which the files tell:
            a process makes its own at its start, and this host's file system, which machines share, notes when that was. What that takes
            is in it, at the quickest of a machine's processes.

    A process's attempt is told by its starts: the second process of a rank is its second attempt. One that was killed has no
    end; what it was writing then is left out.

    Raises:
        LabError: a file there is no record.
    """
    folders = sorted(each for each in records.iterdir() if each.is_dir()) if records.is_dir() else []
    found = {folder.name: _read_job(folder, round(began * _NS)) for folder in folders}
    if own_clocks:
        ahead_s = _ahead_s(each for of_job in found.values() for each in of_job)
        found = {
            name: [_moved(each, ahead_s[each[0].machine]) for each in job] for name, job in found.items()
        }
    return MappingProxyType({name: tuple(record for record, _ in job) for name, job in found.items()})


def clear_records(records: Path) -> None:
    """Make a trial's folder, or empty it: whoever runs a job writes into it, root in Slurm, root in pods.

    Raises:
        LabError: nothing can be written there.
    """
    with _written(records):
        if records.exists():
            shutil.rmtree(records)
        records.mkdir(parents=True)
        records.chmod(0o1777)


def refuse_full(records: Path) -> None:
    """Write where processes have written: where nobody can, they could not either, and their jobs have failed for it.

    Raises:
        LabError: nothing can be written there.
    """
    with _written(records), tempfile.NamedTemporaryFile(dir=records, buffering=0) as file:
        file.write(bytes(_PAGE))


@contextmanager
def _written(records: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LabError(
            f"{records}, where processes write their records, takes no more: {error.strerror}; free some space and run the campaign "
            "again, which goes on with this trial"
        ) from error


_Made = tuple[ProcessRecord, float]
"""A record, and how long after its start its file was made, by this host's clock, in seconds."""


def _ahead_s(records: Iterable[_Made]) -> Mapping[str, float]:
    """Return by machine how far this host's clock is ahead of its own, in seconds."""
    ahead_s: dict[str, float] = {}
    for record, later_s in records:
        ahead_s[record.machine] = min(later_s, ahead_s.get(record.machine, later_s))
    return ahead_s


def _moved(made: _Made, by_s: float) -> _Made:
    record, later_s = made
    ended_s = None if record.ended_s is None else record.ended_s + by_s
    return replace(record, started_s=record.started_s + by_s, ended_s=ended_s), later_s - by_s


def _read_job(folder: Path, began_ns: int) -> list[_Made]:
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
        # The time of the last access is that of its making: nobody has read it since.
        later_s = (path.stat().st_atime_ns - start_ns) / _NS
        read.append((_read(path, rank, attempts[rank], start_ns, began_ns), later_s))
    return read


def _read(path: Path, rank: int, attempt: int, start_ns: int, began_ns: int) -> ProcessRecord:
    machine, ended_s, exit_code = "", None, None
    cpus: tuple[int, ...] = ()
    figures: dict[str, float] = {}
    # What stands behind the last end of a line is being written, or was when its process was killed.
    for line in _text(path).split("\n")[:-1]:
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


def _text(path: Path) -> str:
    """Return what is in a file, and leave the time of its last access."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOATIME | os.O_CLOEXEC), encoding="utf-8") as file:
        return file.read()

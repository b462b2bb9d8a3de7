"""Samples of what a scheduler's programs use, and of the host, taken beside a trial."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidepool.lab.outcome import HostSample, UsageSample

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
#: Of other programs those that are named: the ones that used most.
_NAMED: Final = 5
Parts = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """A process's use of time and memory; ``started`` tells it from another of its id, in ticks since the boot."""

    started: int
    cpu_s: float
    memory_bytes: int


def process_usage(pid: int, proc: Path = Path("/proc")) -> ProcessUsage | None:
    """Return what a process has used itself; None where it is gone.

    Not what its children have: those of slurmstepd are jobs.
    """
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    # proc(5): utime and stime are fields 14 and 15, starttime is 22, rss is 24; the first here is field 3.
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(int(fields[19]), ticks / _TICKS, int(fields[21]) * _PAGE)


@dataclass
class PartUsage:
    """Sums by part over processes that come and go: the time of one that has ended stays as it was seen last."""

    _seen: dict[str, dict[tuple[int, int], float]] = field(default_factory=dict)

    def add(
        self, at_s: float, parts: Parts, usage: Callable[[int], ProcessUsage | None]
    ) -> Iterator[UsageSample]:
        """Look at the processes of all parts, and yield a sample for each part."""
        for part, pids in parts.items():
            times = self._seen.setdefault(part, {})
            memory = 0
            for pid in pids:
                if (used := usage(pid)) is not None:
                    times[pid, used.started] = used.cpu_s
                    memory += used.memory_bytes
            yield UsageSample(at_s, part, sum(times.values()), memory)


@dataclass
class Samples:
    """All that was seen so far; whole when the sampling has ended."""

    usage: list[UsageSample] = field(default_factory=list)
    host: list[HostSample] = field(default_factory=list)
    #: Of other programs by name: the processor time that they were seen to have used at the first look, and so far.
    others: dict[str, tuple[float, float]] = field(default_factory=dict)

    def largest_others(self) -> Mapping[str, float]:
        """Return the names of the programs that used most since the first look, with their processor time."""
        used = {name: last - first for name, (first, last) in self.others.items() if last > first}
        return dict(sorted(used.items(), key=lambda each: -each[1])[:_NAMED])


@contextmanager
def sampling(
    now_s: Callable[[], float],
    parts: Callable[[], Parts],
    host: Callable[[float], HostSample],
    every_s: float,
    usage: Callable[[int], ProcessUsage | None] = process_usage,
    others: Callable[[], Parts] = dict,
) -> Iterator[Samples]:
    """Take samples every so many seconds in a thread of its own, one at once and one at the end.

    Args:
        now_s: seconds since the trial's beginning.
        parts: the process ids of the scheduler's programs by part.
        host: looks at the host at such a moment.
        every_s: between two looks, in this process's seconds.
        usage: looks at a process.
        others: the process ids of programs that are none of the laboratory's, by their names.

    Raises:
        Exception: what a look raised, when the sampling ends.
    """
    found, summed, ended = Samples(), PartUsage(), threading.Event()
    of_others = PartUsage()
    failures: list[Exception] = []

    def look() -> None:
        at_s = now_s()
        found.host.append(host(at_s))
        found.usage += summed.add(at_s, parts(), usage)
        is_first = len(found.host) == 1
        for sample in of_others.add(at_s, others(), usage):
            first, _ = found.others.get(sample.part, (sample.cpu_s if is_first else 0.0, 0.0))
            found.others[sample.part] = (first, sample.cpu_s)

    def go_on() -> None:
        try:
            while not ended.wait(every_s):
                look()
        except Exception as error:  # noqa: BLE001 - raised where the sampling ends
            failures.append(error)

    look()
    thread = threading.Thread(target=go_on, name="sampling", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
    for failure in failures:
        raise failure
    look()

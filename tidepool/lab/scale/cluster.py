"""`SimulatedCluster`: what is measured, by the same steps for each scheduler; and what its kinds have in common."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from tidepool.lab.errors import SchedulerFailed

NODE_CPUS: Final = 8
"""Processors of each simulated node."""
_T = TypeVar("_T")


class Times(NamedTuple):
    """Times of one job, in seconds since the epoch: as in `tidepool.lab.scale.launches.Launch`."""

    submitted_s: float
    decided_s: float
    started_s: float


class TakesJobs(Protocol):
    """A scheduler with nodes, one of which is full for ever: what wants that one waits. All may raise `SchedulerFailed`."""

    def queue(self, count: int) -> None:
        """Have so many jobs wait for the full node, those of before among them."""
        ...

    def launch(self, count: int) -> Sequence[Times]:
        """Submit so many jobs at once, each for a processor of any other node, and return when all have started and gone."""
        ...


class SimulatedCluster(TakesJobs, Protocol):
    """One that is started here, with simulated nodes."""

    def start(self) -> None:
        """Start the scheduler, and nodes until all are ready to take jobs."""
        ...

    def ready(self) -> int:
        """Return how many nodes are ready, but for the full one."""
        ...

    def scheduler_pids(self) -> Iterable[int]:
        """Return the processes that are the scheduler, its API and store among them."""
        ...

    def node_pids(self) -> Iterable[int]:
        """Return the processes that play nodes."""
        ...

    def versions(self) -> Mapping[str, str]: ...

    def settings(self) -> Mapping[str, str]:
        """Return settings that are not as they are where nobody says anything."""
        ...


@dataclass(frozen=True, slots=True)
class Waits:
    """Limits of how long a step may take."""

    ready_s: float = 900.0
    launch_s: float = 300.0


def wait_for(
    look: Callable[[], _T], wanted: Callable[[_T], bool], limit_s: float, what: str, step_s: float = 0.01
) -> _T:
    """Return what ``look`` gives once it is as ``wanted``.

    Raises:
        SchedulerFailed: ``what`` did not come within the limit; says how far it came.
    """
    deadline = time.monotonic() + limit_s
    while True:
        found = look()
        if wanted(found):
            return found
        if time.monotonic() > deadline:
            raise SchedulerFailed(f"{what}: not within {limit_s:g} s; the last look gave {found}")
        time.sleep(step_s)


def memory_mib(pids: Iterable[int]) -> float:
    """Return the memory of processes together; what several share is counted once (PSS)."""
    total_kib = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total_kib += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total_kib / 1024


def pids_of(*programs: str) -> tuple[int, ...]:
    """Return the processes of these names in this PID namespace."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                if (folder / "comm").read_text().strip() in {name[:15] for name in programs}:
                    found.append(int(folder.name))
    return tuple(found)


def spawn(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a daemon, what it says into ``log``. It ends with the namespaces that it is in."""
    with log.open("ab") as said:
        return subprocess.Popen(
            argv, env=dict(environment), cwd="/", stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )


def alive(process: subprocess.Popen[bytes], log: Path) -> None:
    """Raise `SchedulerFailed` with the end of its log where a daemon has ended."""
    if process.poll() is not None:
        end = log.read_text(errors="replace")[-1500:]
        raise SchedulerFailed(f"{log.stem} ended with {process.returncode}: {end}")

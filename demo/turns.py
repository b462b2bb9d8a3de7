"""The workload of the demo of pools: jobs and pods in turns, and what must come of them. No I/O but reading the scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from demo.workload import SCRIPTS, Stamp
from tidepool.clients.slurm import JobRequest

#: How long a task and a pod run, in seconds.
RUN_S: Final = 2
_POD: Final = 'began=$(date +%s); sleep {run_s}; echo "$NODE $began $(date +%s)" > /dev/termination-log'


@dataclass(frozen=True, slots=True)
class Tasks:
    """An array of tasks that say where they ran, and from when to when: each with a machine's processors to itself."""

    name: str
    count: int

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that they write."""
        return tuple(f"{self.name}-{task}.out" for task in range(self.count))

    def request(self, folder: str) -> JobRequest:
        """As a researcher submits it, to work in ``folder`` of the home."""
        return JobRequest(
            (SCRIPTS / "breath.sh").read_text().replace("$DEMO_SECONDS", str(RUN_S)),
            name=self.name,
            array=f"0-{self.count - 1}",
            exclusive=True,
            output=f"{self.name}-%a.out",
            work_dir=folder,
            time_limit_s=120,
        )

    def complaints(self, said: Mapping[str, str]) -> list[str]:
        """Return what is wrong with what they wrote."""
        return [
            f"{name} says {said.get(name, '')!r}" for name in self.outputs if not is_stamp(said.get(name, ""))
        ]


@dataclass(frozen=True, slots=True)
class PodWave:
    """Pods that are alike: each asks for most of a machine, and leaves a stamp when it ends."""

    name: str
    count: int

    @property
    def names(self) -> tuple[str, ...]:
        """The pods."""
        return tuple(f"{self.name}-{number}" for number in range(self.count))

    @property
    def script(self) -> str:
        """Return what each runs."""
        return _POD.format(run_s=RUN_S)


@dataclass(frozen=True, slots=True)
class Turn:
    """Work that is submitted together; it is submitted as soon as what came ``after`` has begun to run, or has ended."""

    what: str
    tasks: Tasks | None = None
    pods: PodWave | None = None
    after: Literal["begun", "ended"] = "ended"


def turns(machines: int, most: int | None = None) -> tuple[Turn, ...]:
    """The workload for a pool of so many machines; only the first ``most`` turns."""
    both = max(1, machines // 2)
    found = (
        Turn("jobs for all machines", Tasks("first", 2 * machines)),
        Turn("pods for all machines", pods=PodWave("first", 2 * machines)),
        Turn("jobs again", Tasks("second", machines), after="begun"),
        Turn("jobs and pods, side by side", Tasks("third", both), PodWave("third", 2 * both)),
    )
    return found[:most]


def is_stamp(line: str) -> bool:
    """Return whether it is what a task or a pod leaves that ran to its end."""
    try:
        stamp = Stamp.parse(line)
    except ValueError:
        return False
    return stamp.ended_s - stamp.began_s >= RUN_S - 1

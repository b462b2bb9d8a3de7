"""The jobs of the demo: what is submitted, and what must come of it. No I/O but reading the scripts beside it."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Final, Self

from tidepool.clients.slurm import JobRequest

SCRIPTS: Final = Path(__file__).parent / "jobs"
ARRAY_TASKS: Final = 8
#: How long a small task runs.
SMALL_S: Final = 2
#: Beside the scripts of jobs, what they start.
PROGRAMS: Final = ("pingpong.py",)


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A job, the files that it writes in its folder, and what is wrong with what stands in them (nothing: empty).

    In those that are ``stamped``, tasks say where they ran, and from when to when.
    """

    what: str
    request: JobRequest
    outputs: tuple[str, ...]
    verdict: Callable[[Mapping[str, str]], str]
    stamped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stamp:
    """Times that a small task tells of itself: where it ran, from when to when, in seconds since the epoch."""

    node: str
    began_s: float
    ended_s: float

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read what `breath.sh` wrote.

        Raises:
            ValueError: it is something else.
        """
        node, began, ended = line.split()
        return cls(node, float(began), float(ended))


@dataclass(frozen=True, slots=True)
class Wave:
    """Jobs that are submitted together: ``at_s`` seconds after the first at the earliest, ``by_s`` at the latest.

    Between the two, when no node is left.
    """

    at_s: float
    by_s: float
    jobs: tuple[DemoJob, ...]


def waves(folders: Sequence[str], most: int | None = None) -> tuple[Wave, ...]:
    """The workload: what differs first, then many small ones, and after a lull, in which nodes go, a few more.

    The waves are of the users whose homes have ``folders``, in turns, where their jobs work; only the first ``most``.
    """
    jobs = (
        (0, 0, (_small("first", 4), _array(), _mpi(), _memory())),
        (5, 5, (_small("second", 28),)),
        (11, 24, (_small("third", 10),)),
    )
    return tuple(
        Wave(at_s, by_s, tuple(replace(job, request=replace(job.request, work_dir=folder)) for job in wave))
        for (at_s, by_s, wave), folder in zip(jobs[:most], cycle(folders), strict=False)
    )


def _small(name: str, tasks: int) -> DemoJob:
    """An array of tasks that tell when they ran."""
    outputs = tuple(f"{name}-{task}.out" for task in range(tasks))

    def verdict(said: Mapping[str, str]) -> str:
        wrong = [f"{file} says {said[file]!r}" for file in outputs if not _is_right(said[file])]
        return "; ".join(wrong)

    script = (SCRIPTS / "breath.sh").read_text().replace("$DEMO_SECONDS", str(SMALL_S))
    request = JobRequest(
        script,
        name=name,
        array=f"0-{tasks - 1}",
        memory_mib=100,
        output=f"{name}-%a.out",
        time_limit_s=60,
    )
    return DemoJob(f"{tasks} small tasks", request, outputs, verdict, outputs)


def _is_right(line: str) -> bool:
    try:
        ran = Stamp.parse(line)
    except ValueError:
        return False
    return ran.ended_s - ran.began_s >= SMALL_S


def _array() -> DemoJob:
    script = (SCRIPTS / "primes.py").read_text()
    answer = runpy.run_path(str(SCRIPTS / "primes.py"))["answer"]
    expected = {f"primes-{task}.out": answer(task) for task in range(ARRAY_TASKS)}

    def verdict(outputs: Mapping[str, str]) -> str:
        wrong = [
            f"{name} says {outputs[name]!r}, not {line!r}"
            for name, line in expected.items()
            if outputs[name] != line
        ]
        return "; ".join(wrong)

    request = JobRequest(
        script,
        name="primes",
        array=f"0-{ARRAY_TASKS - 1}",
        memory_mib=100,
        output="primes-%a.out",
        time_limit_s=120,
    )
    return DemoJob(f"an array of {ARRAY_TASKS} tasks", request, tuple(expected), verdict)


def _mpi() -> DemoJob:
    # Where one rank dies, the other does not wait for it until the time is over.
    script = "#!/bin/sh\nexec srun --mpi=pmix --kill-on-bad-exit=1 python3 pingpong.py\n"

    def verdict(outputs: Mapping[str, str]) -> str:
        lines = outputs["pingpong.out"].splitlines()
        hosts = {line.split(":")[0].split()[-1] for line in lines if line.startswith("rank ")}
        ok = len(lines) == 2 and len(hosts) == 2
        return (
            "" if ok else f"two ranks on two nodes were expected to report, not {outputs['pingpong.out']!r}"
        )

    request = JobRequest(
        script,
        name="pingpong",
        nodes="2",
        tasks=2,
        memory_mib=200,
        output="pingpong.out",
        time_limit_s=120,
        more=("--ntasks-per-node=1",),
    )
    return DemoJob("MPI between two nodes", request, ("pingpong.out",), verdict)


def _memory() -> DemoJob:
    script = (SCRIPTS / "memory.py").read_text()

    def verdict(outputs: Mapping[str, str]) -> str:
        said = outputs["memory.out"]
        return (
            "" if said.startswith("1000 MiB on large-") and said.endswith(": whole") else f"it says {said!r}"
        )

    request = JobRequest(
        script, name="memory", features="himem", memory_mib=2_000, output="memory.out", time_limit_s=120
    )
    return DemoJob("2,000 MiB on a node with the feature `himem`", request, ("memory.out",), verdict)

"""The jobs of the demo: what is submitted, and what must come of it. No I/O but reading the scripts beside it."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidepool.slurm import JobRequest

SCRIPTS: Final = Path(__file__).parent / "jobs"
USER: Final = "researcher"
ARRAY_TASKS: Final = 8
#: Beside the scripts of jobs, what they start.
PROGRAMS: Final = ("pingpong.py",)


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A job, the files that it writes in its folder, and what is wrong with what stands in them (nothing: empty)."""

    what: str
    request: JobRequest
    outputs: tuple[str, ...]
    verdict: Callable[[Mapping[str, str]], str]


def workload(folder: str) -> tuple[DemoJob, ...]:
    """The jobs, which work in ``folder`` of their user's home."""
    return tuple(
        replace(job, request=replace(job.request, work_dir=folder)) for job in (_array(), _mpi(), _memory())
    )


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
    script = "#!/bin/sh\nexec srun --mpi=pmix python3 pingpong.py\n"

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

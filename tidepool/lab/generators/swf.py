"""Traces in the standard workload format (SWF) of the Parallel Workloads Archive, scaled to the laboratory's time and machines.

S. J. Chapin and others, Benchmarks and standards for the evaluation of parallel job schedulers, Job Scheduling Strategies for Parallel
Processing, 1999. A line is a job: 18 numbers with spaces between them, -1 where one is unknown; lines of comments begin with ``;``.
"""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, TextIO

from pydantic import Field

from tidepool.cluster.part import Whole
from tidepool.lab.errors import LabError
from tidepool.lab.generators.parameters import TaskParameters, limit_s, numbered
from tidepool.lab.workload import Job

_FIELDS: Final = 18
_UNKNOWN: Final = -1.0
#: Of seconds, kilobytes and processors alike, and far beyond all of them.
_GREATEST: Final = 1e12
_SYSTEM: Final = re.compile(r";\s*Max(Procs|Nodes):\s*(\d+)")
#: Parts of jobs that were swapped out, which another line has as a whole.
_PARTIAL: Final = frozenset({2.0, 3.0, 4.0})
_SHORTEST_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace, as far as it is replayed; times in seconds of the trace.

    Attributes:
        number: its number there.
        submit_s: since the trace's beginning.
        processors: that it asked for, or had where that is unknown.
        requested_s: the limit that its user asked for; None where it is unknown.
        preceding: the number of the job that it came after; None where there is none.
    """

    number: int
    submit_s: float
    run_s: float
    processors: int
    requested_s: float | None
    preceding: int | None


class Swf(TaskParameters):
    """Parameters of a replayed trace."""

    file: str = Field(
        min_length=1, description="The trace: a file in the standard workload format, also with .gz"
    )
    first: Whole = Field(default=1, ge=1, description="Which of its jobs is the first, counted from 1")
    number: Whole = Field(
        default=100,
        ge=1,
        le=100_000,
        description="How many of its jobs, from the first on; fewer where it ends",
    )
    time_scale: float = Field(
        default=0.001,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Seconds of the laboratory for a second of the trace, of run times and arrivals",
    )
    max_tasks: Whole | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Tasks of a job that had the whole system of the trace; smaller ones in proportion. Without it sizes stay",
    )
    dependencies: bool = Field(
        default=False,
        description="Whether a job waits for the one that the trace says it came after (its field 17)",
    )

    def jobs(self, chance: Random) -> tuple[Job, ...]:
        del chance  # a trace is what it is
        path = Path(self.file)
        try:
            with _opened(path) as lines:
                trace = Trace(path, lines)
                taken = sorted(
                    islice(trace.jobs(), self.first - 1, self.first - 1 + self.number),
                    key=lambda job: job.submit_s,
                )
        except (OSError, EOFError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise LabError(
                f"the trace {path} cannot be read: {reason}; name a file in the standard workload format"
            ) from error
        if not taken:
            raise LabError(f"the trace {path} has no job number {self.first} that ran; lower `first`")
        system = trace.processors or max(each.processors for each in taken)
        names = {each.number: numbered("job", place + 1, len(taken)) for place, each in enumerate(taken)}
        return tuple(self._job(each, taken[0].submit_s, system, names) for each in taken)

    def _job(self, trace: TraceJob, begin_s: float, system: int, names: dict[int, str]) -> Job:
        seconds = max(_SHORTEST_S, round(trace.run_s * self.time_scale, 3))
        tasks = trace.processors
        if self.max_tasks is not None:
            tasks = min(self.max_tasks, max(1, round(trace.processors * self.max_tasks / system)))
        requested_s = 60.0 * math.ceil((trace.requested_s or 0.0) * self.time_scale / 60)
        is_after = (
            self.dependencies and trace.preceding in names and names[trace.preceding] < names[trace.number]
        )
        return Job(
            name=names[trace.number],
            submit_at_s=round((trace.submit_s - begin_s) * self.time_scale, 6),
            program=self.program_of(seconds),
            tasks=tasks,
            cpus_per_task=self.cpus_per_task,
            memory_mib=self.memory_mib,
            # What starting takes is not scaled, so no limit is shorter than that of a job without one.
            limit_s=max(requested_s, limit_s(seconds)),
            after=(names[trace.preceding],) if is_after and trace.preceding is not None else (),
        )


class Trace:
    """A trace that is being read.

    Attributes:
        processors: of the system that it is of, by its comments; None where they do not say it.
    """

    def __init__(self, path: Path, lines: TextIO) -> None:
        self._path = path
        self._lines = lines
        self.processors: int | None = None

    def jobs(self) -> Iterator[TraceJob]:
        """Yield the jobs that ran; those that never did, and parts of jobs, are left out.

        Raises:
            LabError: a line is no job, with its number.
        """
        for number, line in enumerate(self._lines, start=1):
            text = line.strip()
            if text.startswith(";"):
                self._read_comment(text)
            elif text and (job := _job(self._fields(number, text))) is not None:
                yield job

    def _read_comment(self, text: str) -> None:
        found = _SYSTEM.match(text)
        if found and (found[1] == "Procs" or self.processors is None):
            self.processors = int(found[2]) or None

    def _fields(self, number: int, text: str) -> Sequence[float]:
        words = text.split()
        if len(words) != _FIELDS:
            raise self._malformed(number, text, f"it has {len(words)} fields, and a job has {_FIELDS}")
        try:
            fields = [float(word) for word in words]
        except ValueError:
            raise self._malformed(number, text, "a field is no number") from None
        for place, value in enumerate(fields, start=1):
            if not (0 <= value <= _GREATEST or value == _UNKNOWN):
                raise self._malformed(
                    number,
                    text,
                    f"its field {place} is {value:g}, and only -1 and numbers from 0 to {_GREATEST:g} are allowed",
                )
        if fields[0] == _UNKNOWN or fields[1] == _UNKNOWN:
            raise self._malformed(
                number, text, "the job's number and when it was submitted have to be known (fields 1 and 2)"
            )
        return fields

    def _malformed(self, number: int, text: str, reason: str) -> LabError:
        shown = text if len(text) <= 60 else text[:57] + "..."
        return LabError(
            f"{self._path}, line {number}: {shown!r} is no job of the standard workload format: {reason}; mend or remove it"
        )


def _job(fields: Sequence[float]) -> TraceJob | None:
    number, submit_s, _, run_s, allocated, _, _, requested, requested_s, _, status, *_ = fields
    processors = int(requested if requested > 0 else allocated)
    if run_s <= 0 or processors <= 0 or status in _PARTIAL:
        return None
    return TraceJob(
        number=int(number),
        submit_s=submit_s,
        run_s=run_s,
        processors=processors,
        requested_s=requested_s if requested_s > 0 else None,
        preceding=int(fields[16]) if fields[16] > 0 else None,
    )


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")

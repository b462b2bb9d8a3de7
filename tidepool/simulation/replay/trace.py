"""Traces: jobs of the past, when they came, what they asked for, how long they ran; and the files they are read from.

A trace is a file of the Standard Workload Format, packed with gzip or not, or a journal of the scaler's. The format has a
line for each job, 18 numbers; ``;`` begins a comment, and -1 is not known.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Final, TextIO

from tidepool.clients.slurm import JobRequest
from tidepool.clients.slurm.quantities import memory_mib
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.ports import JobRecord
from tidepool.simulation.cluster import sleeping


class TraceError(Exception):
    """A trace cannot be read at all. The text is for a person."""


@dataclass(frozen=True, slots=True)
class TracedJob:
    """One job, or one task of an array.

    ``name`` is what it was called there. ``submit_s`` counts from the trace's begin. ``memory_per_cpu_mib`` and
    ``memory_per_node_mib`` are 0 where it did not say; one of them at most is not. ``gres`` is for each node.
    """

    name: str
    submit_s: float
    run_s: float
    cpus: int
    nodes: int = 0
    memory_per_cpu_mib: int = 0
    memory_per_node_mib: int = 0
    time_limit_s: int | None = None
    partition: str = ""
    features: str = ""
    gres: str = ""
    account: str = ""
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A line, or a record, that could not be used, and why."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs by submission, and what was left out: what was ``broken``, and jobs that never ran (``not_run``)."""

    begin: datetime
    jobs: tuple[TracedJob, ...]
    broken: tuple[Broken, ...] = ()
    not_run: int = 0


def fitted(job: TracedJob, spec: ClusterSpec) -> JobRequest:
    """The request of ``job`` on the cluster of ``spec``.

    A job that says how many processors it needs, and not on how many nodes, has as few nodes as its partition's
    largest have room for. One that does not say how much memory has its CPUs' share of it. A partition that the cluster
    does not have is the default one.
    """
    partition = job.partition if job.partition in {each.name for each in spec.partitions} else ""
    named = next((each for each in spec.partitions if each.name == partition), None)
    fleets = [f for f in spec.fleets if named is None or named.fleets is None or f.name in named.fleets]
    shapes = [fleet.shape for fleet in fleets]
    widest = max((shape.cpus for shape in shapes), default=1)
    nodes = job.nodes or -(-job.cpus // widest)
    memory_mib = job.memory_per_cpu_mib
    if not memory_mib and not job.memory_per_node_mib:
        memory_mib = min((shape.memory_mib // shape.cpus for shape in shapes), default=1)
    known = {feature for fleet in spec.fleets for feature in (fleet.name, *fleet.features)}
    return JobRequest(
        sleeping(job.run_s),
        name=job.name,
        partition=partition,
        account=job.account,
        nodes=str(nodes),
        tasks=max(job.cpus, nodes),
        memory_per_cpu_mib=0 if job.memory_per_node_mib else memory_mib,
        memory_mib=job.memory_per_node_mib,
        features=job.features if job.features in known else "",
        gres=job.gres,
        time_limit_s=job.time_limit_s or 0,
        exclusive=job.exclusive,
    )


_FIELDS: Final = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "number of allocated processors",
    "average CPU time",
    "used memory",
    "requested number of processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
_START: Final = re.compile(r";\s*UnixStartTime:\s*(\d{1,11})\b", re.IGNORECASE)
#: Of traces that do not say when they begin.
_SOME_MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)
#: Longer than any job may run, and than any trace: a century.
_MOST_S: Final = 100 * 366 * 86400
_MOST_CPUS: Final = 10_000_000
_LONGEST_LINE: Final = 4096


def read_swf(lines: Iterable[str]) -> Trace:
    """The trace in ``lines``. Lines that are broken are named and left out."""
    begin = _SOME_MONDAY
    jobs: list[TracedJob] = []
    broken: list[Broken] = []
    not_run = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(";"):
            if found := _START.match(text):
                begin = datetime.fromtimestamp(int(found[1]), UTC)
            continue
        try:
            job = _job(text)
        except ValueError as error:
            broken.append(Broken(number, str(error)))
            continue
        if job is None:
            not_run += 1
        else:
            jobs.append(job)
    # Some traces are not quite in order.
    jobs.sort(key=lambda job: job.submit_s)
    return Trace(begin, tuple(jobs), tuple(broken), not_run)


def _job(text: str) -> TracedJob | None:
    """The job of a line; None for one that was cancelled before it began.

    Raises:
        ValueError: the line is broken; says how.
    """
    if len(text) > _LONGEST_LINE:
        raise ValueError(f"it is {len(text)} characters long, which no job is")
    words = text.split()
    if len(words) != len(_FIELDS):
        raise ValueError(f"it has {len(words)} fields in place of {len(_FIELDS)}")
    values = [_number(word, name) for word, name in zip(words, _FIELDS, strict=True)]
    number, submit_s, _, run_s, allocated, _, used_kib, asked, limit_s, asked_kib, status = values[:11]
    if not 0 <= submit_s <= _MOST_S:
        raise ValueError(f"its submit time is {submit_s:g}")
    if run_s <= 0:
        if status in {0, 1, 5, -1} and run_s in {0, -1}:
            return None
        raise ValueError(f"its run time is {run_s:g}")
    if run_s > _MOST_S:
        raise ValueError(f"its run time is {run_s:g}")
    cpus = int(asked if asked > 0 else allocated)
    if not 0 < cpus <= _MOST_CPUS:
        raise ValueError(f"it asks for {asked:g} processors, and had {allocated:g}")
    memory_kib = asked_kib if asked_kib > 0 else used_kib
    # Whole seconds are what Slurm has; and what ran longer than it asked for was let run.
    limit = int(max(limit_s, run_s)) + 1 if limit_s > 0 else None
    return TracedJob(
        name=f"{number:g}",
        submit_s=submit_s,
        run_s=run_s,
        cpus=cpus,
        memory_per_cpu_mib=-(-int(memory_kib) // 1024) if memory_kib > 0 else 0,
        time_limit_s=limit,
        account=f"group-{values[12]:g}" if values[12] >= 0 else "",
    )


def _number(word: str, name: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise ValueError(f"its {name} is {word[:40]!r}, which is no number") from None
    if not isfinite(value):
        raise ValueError(f"its {name} is {word[:40]!r}, which is no number")
    return value


def read_recorded(jobs: Sequence[JobRecord]) -> Trace:
    """The trace of ``jobs``. Those that have not ended yet are counted as not run.

    Raises:
        TraceError: there are none.
    """
    if not jobs:
        raise TraceError("the journal holds no jobs; the daemon writes down those that it sees")
    begin = min(job.submitted for job in jobs)
    traced: list[TracedJob] = []
    broken: list[Broken] = []
    not_run = 0
    for place, job in enumerate(jobs, 1):
        if job.started is None or job.ended is None:
            not_run += 1
            continue
        try:
            traced.append(_recorded_job(job, (job.submitted - begin).total_seconds()))
        except (KeyError, TypeError, ValueError) as error:
            broken.append(Broken(place, f"job {job.job_id} cannot be read: {error!r}"))
    traced.sort(key=lambda job: job.submit_s)
    return Trace(begin, tuple(traced), tuple(broken), not_run)


def _recorded_job(job: JobRecord, submit_s: float) -> TracedJob:
    assert job.started is not None
    assert job.ended is not None
    asked = job.request
    nodes, cpus = int(asked.get("nodes", 1)), int(asked.get("cpus", 1))
    memory = int(asked.get("min_memory_mib", 0))
    limit = asked.get("time_limit_s")
    tres = asked.get("tres", {})
    whole = memory_mib(str(tres["mem"])) if "mem" in tres else None
    per_cpu = whole is not None and memory > 0 and whole == memory * cpus and whole != memory * nodes
    return TracedJob(
        name=str(job.job_id),
        submit_s=submit_s,
        run_s=max((job.ended - job.started).total_seconds(), 0.001),
        cpus=cpus,
        nodes=nodes,
        memory_per_cpu_mib=memory if per_cpu else 0,
        memory_per_node_mib=0 if per_cpu else memory,
        time_limit_s=None if limit is None else int(limit),
        partition=",".join(asked.get("partitions", ())),
        features=str(asked.get("features", "")),
        gres=_gres(asked, nodes),
        account=str(asked.get("account", "")),
        exclusive=asked.get("oversubscribe") == "NO",
    )


def _gres(asked: Any, nodes: int) -> str:
    """Return what each node has to have, as ``--gres`` says it."""
    for key, times in (("tres_per_node", 1), ("tres_per_job", nodes), ("tres_per_task", 1)):
        parts = []
        for name, count in (asked.get(key) or {}).items():
            if name.startswith("gres/"):
                parts.append(f"{name[5:]}:{-(-int(count) // max(times, 1))}")
        if parts:
            return ",".join(parts)
    return ""


_GZIP: Final = b"\x1f\x8b"
_SQLITE: Final = b"SQLite format 3\0"


def read_trace(path: Path) -> Trace:
    """The trace in the file ``path``; what it is shows in its first bytes.

    Raises:
        TraceError: it cannot be read, or holds no job.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
        if head == _SQLITE:
            return _journal(path)
        with _unpacked(path, head.startswith(_GZIP)) as lines:
            trace = read_swf(lines)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: it is packed with gzip, and damaged: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error
    if not trace.jobs:
        broken = (
            f": {len(trace.broken)} lines are broken, the first is {trace.broken[0]}" if trace.broken else ""
        )
        raise TraceError(
            f"{path}: no job in it{broken}; a trace is in the Standard Workload Format, or a journal of the scaler's"
        )
    return trace


def _unpacked(path: Path, is_gzip: bool) -> TextIO:
    if is_gzip:
        return io.TextIOWrapper(gzip.GzipFile(path), errors="replace")
    return path.open(errors="replace")


def _journal(path: Path) -> Trace:
    from tidepool.scaling.journal.journal import SqlJournal
    from tidepool.scaling.journal.sqlite import SqliteDatabase
    from tidepool.scaling.ports import JournalError

    try:
        journal = SqlJournal(SqliteDatabase(path))
        try:
            return read_recorded(journal.jobs())
        finally:
            journal.close()
    except JournalError as error:
        raise TraceError(str(error)) from error

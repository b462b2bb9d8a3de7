"""Jobs of the past, wherever they were written down: when they came, what they asked for, how long they ran."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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

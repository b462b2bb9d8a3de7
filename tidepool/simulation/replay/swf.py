"""The Standard Workload Format: a line for each job, 18 numbers; ``;`` begins a comment, and -1 is not known.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from math import isfinite
from typing import Final

from tidepool.simulation.replay.trace import Broken, Trace, TracedJob

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
    if run_s <= 0 or (status == 5 and run_s <= 0):
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

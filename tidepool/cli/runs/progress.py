"""Progress of a run: lines for a person, events for a program, and the exit code that says which part failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from tidepool.runs.record import Phase, Run

#: By the phase in which it turned out that a run does not succeed: 10 and more, behind the command's own.
EXIT_CODES: Final[Mapping[Phase, int]] = {
    "checked": 10,
    "up": 11,
    "staging": 12,
    "submitting": 13,
    "running": 14,
    "stopping": 14,
    "collecting": 15,
    "verifying": 16,
}
DEADLINE: Final = 20
BUDGET: Final = 21
CANCELLED: Final = 22


def exit_code(run: Run) -> int:
    """Return the exit code of a run that has ended."""
    match run.outcome:
        case "succeeded":
            return 0
        case "deadline":
            return DEADLINE
        case "budget":
            return BUDGET
        case "cancelled":
            return CANCELLED
        case _:
            return EXIT_CODES.get(run.turned_in or "checked", 1)


def line(run: Run, now: datetime, sent: int = 0) -> str:
    """Return all that a person wants to know at one look: phase, jobs, results, cost so far, time left.

    ``sent`` is how many bytes of the results are there, as far as that is known.
    """
    parts = [f"{run.phase:<10}"]
    if run.jobs:
        counts = Counter(job.standing for job in run.jobs)
        parts.append("jobs " + ", ".join(f"{count} {standing}" for standing, count in sorted(counts.items())))
    if run.outputs:
        kept = [output for output in run.outputs if output.is_kept]
        there = max(sent, sum(each.size for each in kept))
        whole = sum(each.size for each in run.outputs)
        of = f" of {_size(whole)}" if there < whole else ""
        parts.append(f"results {len(kept)} of {len(run.outputs)}, {_size(min(there, whole))}{of}")
    if run.cost.usd:
        most = f" of {run.order.budget_usd:g}" if run.order.budget_usd is not None else ""
        parts.append(f"{run.cost.usd:.2f}{most} USD")
    parts.append(_time((now - run.order.at).total_seconds()))
    if run.ends_at is not None:
        parts.append(f"{_time(max(0.0, (run.ends_at - now).total_seconds()))} left")
    if run.text:
        parts.append(run.text)
    return " | ".join(parts)


def events(before: Run | None, run: Run, now: datetime) -> Iterator[Mapping[str, Any]]:
    """Yield what has changed, as `--json` shows it: a document for each."""
    at = {"at": now.isoformat(timespec="milliseconds"), "run": run.id}
    if before is None or before.phase != run.phase:
        yield {**at, "event": "phase", "phase": run.phase, "outcome": run.outcome, "because": run.because}
    jobs = {job.name: job for job in before.jobs} if before else {}
    for job in run.jobs:
        if job.name not in jobs or jobs[job.name].standing != job.standing:
            yield {
                **at,
                "event": "job",
                "job": job.name,
                "id": job.job_id,
                "standing": job.standing,
                "text": job.text,
            }
    kept = {output.path for output in before.outputs if output.is_kept} if before else set()
    for output in run.outputs:
        if output.is_kept and output.path not in kept:
            yield {**at, "event": "output", "path": output.path, "size": output.size, "sha256": output.sha256}
    if before is not None and before.cost != run.cost:
        yield {**at, "event": "cost", "usd": run.cost.usd, "node_hours": dict(run.cost.node_hours)}
    if run.text and (before is None or before.text != run.text):
        yield {**at, "event": "text", "text": run.text}


def sent_event(run: Run, now: datetime, sent: int) -> Mapping[str, Any]:
    """Return how much of the results is there, as `--json` shows it."""
    whole = sum(output.size for output in run.outputs)
    at = {"at": now.isoformat(timespec="milliseconds"), "run": run.id}
    return {**at, "event": "sent", "bytes": min(sent, whole), "of": whole}


def _size(size: int) -> str:
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

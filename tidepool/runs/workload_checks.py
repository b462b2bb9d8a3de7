"""Checks that the parts of a workload agree with each other: names, dependencies, paths. They look at a plain mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from tidepool.cluster.spec_entries import Entry, Mistake, listed, nearest, numbered


def disagreements(workload: Mapping[str, Any]) -> list[Mistake]:
    """Return all that does not agree; what is not what it should be is passed over, as reading tells of it."""
    return [mistake for check in _CHECKS for mistake in check(workload)]


def _names_twice(workload: Mapping[str, Any]) -> Iterator[Mistake]:
    first: dict[str, str] = {}
    for job in listed(workload, "jobs"):
        if job.name is not None and job.name in first:
            yield job.mistake("name", f"{first[job.name]} has this name already; give each its own")
        first.setdefault(job.name or "", job.path)


def _paths_twice(workload: Mapping[str, Any]) -> Iterator[Mistake]:
    first: dict[str, str] = {}
    for entry in listed(workload, "inputs"):
        path = entry.keys.get("path")
        if isinstance(path, str):
            if path in first:
                yield entry.mistake("path", f"{first[path]} goes there already; give each a path of its own")
            first.setdefault(path, entry.path)


def _jobs_unknown(workload: Mapping[str, Any]) -> Iterator[Mistake]:
    known = [job.name for job in listed(workload, "jobs") if job.name is not None]
    arrays = {job.name for job in listed(workload, "jobs") if job.keys.get("array") is not None}
    for job in listed(workload, "jobs"):
        seen = set[str]()
        for place, name, ends in _befores(job):
            if name not in known:
                yield Mistake(f"{job.path}.{place}", name, f"there is no such job; {nearest(name, known)}")
            elif ends == "corr" and name not in arrays:
                yield Mistake(
                    f"{job.path}.{place}", name, "it is no array, and `corr` is of two arrays; write `ok`"
                )
            elif name in seen:
                yield Mistake(f"{job.path}.{place}", name, "this job is named twice; leave one out")
            seen.add(name)


def _cycles(workload: Mapping[str, Any]) -> Iterator[Mistake]:
    jobs = {job.name: job for job in listed(workload, "jobs") if job.name is not None}
    # Lists, so that the same cycle is told each time.
    graph = {name: [before for _, before, _ in _befores(job) if before in jobs] for name, job in jobs.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # From the one that comes before to the one that waits, and the first once more.
        found: list[str] = error.args[1]
        last = jobs[found[1]]
        yield Mistake(
            f"{last.path}.after",
            None,
            f"the jobs wait for each other, so none of them ever begins: {' before '.join(found)}; take one of these out",
        )


def _befores(job: Entry) -> Iterator[tuple[str, str, object]]:
    """Yield the jobs that come before one: where that is said, the name, and how it has to end."""
    for i, after in numbered(job.keys.get("after")):
        name = after.get("job") if isinstance(after, Mapping) else after
        if isinstance(name, str):
            yield f"after[{i}]", name, after.get("ends") if isinstance(after, Mapping) else None


_CHECKS: Final = (_names_twice, _paths_twice, _jobs_unknown, _cycles)

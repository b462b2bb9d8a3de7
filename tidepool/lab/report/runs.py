"""Runs of a campaign as the report looks at them: each trial's outcome beside its workload, read once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidepool.lab.outcome import TrialOutcome
from tidepool.lab.results.store import Results
from tidepool.lab.workload import Workload


@dataclass(frozen=True, slots=True)
class Run:
    """A trial that is in figures, and the jobs that were run in it."""

    outcome: TrialOutcome
    workload: Workload


def runs_of(results: Results) -> tuple[Run, ...]:
    """Return all that count, by repeat and in the campaign's order of workloads and schedulers; warm-ups are none of them.

    Raises:
        LabError: a file of theirs cannot be read.
    """
    order = results.campaign.workloads, results.campaign.schedulers
    found = sorted(
        results.outcomes(),
        key=lambda each: (each.repeat, order[0].index(each.workload), order[1].index(each.scheduler)),
    )
    return tuple(Run(each, results.workload(each.workload, each.repeat)) for each in found)


def machines_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the names of all machines on which something ran, in their natural order."""
    names = {process.machine for run in runs for job in run.outcome.jobs for process in job.processes}
    return tuple(sorted(names, key=_natural))


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))

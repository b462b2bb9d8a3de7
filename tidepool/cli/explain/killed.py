"""The death of a job that took more memory than it asked for: in words, with the remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidepool.cli.explain.facts import Fact
from tidepool.clients.slurm import Job, JobState


@dataclass(frozen=True, slots=True)
class Killed:
    """A job killed for memory. ``asked_mib`` is for each node, 0 where it asked for no amount; ``peak_mib`` is None where nobody noted it."""

    asked_mib: int
    peak_mib: int | None


def killed(job: Job | None, peak_mib: int | None) -> Killed | None:
    """Return how ``job`` was killed; None where it was not, for memory."""
    if job is None or job.state is not JobState.OUT_OF_MEMORY:
        return None
    return Killed(job.memory_per_node_mib, peak_mib)


def killed_facts(told: Killed | None) -> Iterator[Fact]:
    """Yield what a person is told of it."""
    if told is None:
        return
    asked = f"the {told.asked_mib:,} MiB on each node that it asked for" if told.asked_mib else "its node has"
    yield Fact("killed", f"by the kernel, alone: it took more memory than {asked}", "red")
    # Samples miss what was taken just before the end.
    peak = "not known: `controller: {accounting: {}}` keeps it"
    if told.peak_mib is not None:
        peak = f"{told.peak_mib:,} MiB when it was last looked at (MaxRSS); what it took then was not seen"
    yield Fact("peak", peak)
    more = f"`sbatch --mem={2 * told.asked_mib}M`" if told.asked_mib else "a larger node"
    yield Fact("remedy", f"ask for more ({more}), or have it use less")

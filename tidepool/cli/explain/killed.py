"""The death of a job that took more memory than it asked for: in words, with the remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidepool.cli.explain.facts import Fact
from tidepool.clients.slurm import Job, JobState
from tidepool.cluster.slurm_conf import fleets_and_pools
from tidepool.cluster.spec import ClusterSpec


@dataclass(frozen=True, slots=True)
class Killed:
    """A job killed for memory. ``asked_mib`` is for each node, 0 where it asked for no amount; ``peak_mib`` is None where nobody noted it.

    ``most_mib`` is what a node has at most, 0 where that is not known; ``has_slurmdbd`` says whether peaks are kept.
    """

    asked_mib: int
    peak_mib: int | None
    most_mib: int
    has_slurmdbd: bool


def killed(job: Job | None, peak_mib: int | None, spec: ClusterSpec | None) -> Killed | None:
    """Return how ``job`` was killed; None where it was not, for memory."""
    if job is None or job.state is not JobState.OUT_OF_MEMORY:
        return None
    shapes = [each.shape for each in fleets_and_pools(spec)] if spec else []
    return Killed(
        job.memory_per_node_mib,
        peak_mib,
        max((shape.memory_mib for shape in shapes), default=0),
        spec is not None and spec.controller.accounting is not None,
    )


def killed_facts(told: Killed | None) -> Iterator[Fact]:
    """Yield what a person is told of it."""
    if told is None:
        return
    asked = f"the {told.asked_mib:,} MiB on each node that it asked for" if told.asked_mib else "its node has"
    yield Fact("killed", f"by the kernel, alone: it took more memory than {asked}", "red")
    # Samples miss what was taken just before the end.
    peak = "not known: `controller: {accounting: {}}` keeps it"
    if told.has_slurmdbd:
        peak = "not known: slurmdbd has none of it, as of a job that ended before it was looked at"
    if told.peak_mib is not None:
        peak = f"{told.peak_mib:,} MiB when it was last looked at (MaxRSS); what it took then was not seen"
    yield Fact("peak", peak)
    yield Fact("remedy", _remedy(told))


def _remedy(told: Killed) -> str:
    if not told.asked_mib:
        return "ask for a node with more memory (`sbatch --mem`), or have it use less"
    amount = min(2 * told.asked_mib, told.most_mib) if told.most_mib else 2 * told.asked_mib
    if amount <= told.asked_mib:
        return "have it use less: no node has more memory"
    return f"ask for more (`sbatch --mem={amount}M`), or have it use less"

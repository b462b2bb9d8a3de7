"""A few nodes looked at once more, just before something is done to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidepool.cluster.hostlist import HostlistError, expand
from tidepool.infrastructure import Machine
from tidepool.scaling.world import Recorded
from tidepool.slurm import Job, JobState, Node, NodeFlag


@dataclass(frozen=True, slots=True)
class Fresh:
    """Some nodes at this very moment. ``machines`` are None where they were not listed."""

    nodes: Mapping[str, Node]
    jobs: tuple[Job, ...]
    machines: tuple[Machine, ...] | None
    recorded: Mapping[str, Recorded]

    def has_jobs(self, name: str) -> bool:
        """Whether something runs there, or is at its end."""
        node = self.nodes.get(name)
        if node is not None and (node.cpus_alloc or NodeFlag.COMPLETING in node.state.flags):
            return True
        return any(name in _places(job) for job in self.jobs)

    def is_dead(self, name: str) -> bool:
        """Whether its machine was looked for, and does not run."""
        if self.machines is None:
            return False
        return not any(each.key.node == name and each.state == "running" for each in self.machines)


def _places(job: Job) -> Collection[str]:
    if not job.nodelist or job.state is JobState.PENDING or job.state.has_ended:
        return ()
    try:
        return expand(job.nodelist)
    except HostlistError:
        return ()

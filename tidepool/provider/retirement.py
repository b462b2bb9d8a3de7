"""Taking nodes out of service, several at a time: drained, found to be without jobs, and slots again.

Nodes of Slurm's power saving (CLOUD) are slots again by powering down. For them it calls SuspendProgram too, which asks
for what is done already.

Measured with 22.05.8: a node that is FUTURE stays so while its slurmd lives on, over a reconfigure and a restart of
slurmctld; only a slurmd that is started again comes back. So a node leaves before its machine does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidepool.clients.slurm import Job, JobState, Node, NodeBase, NodeFlag, Refused, SlurmClient
from tidepool.cluster.hostlist import expand, fold

#: By it a drain of ours is told from one of a person.
REASON: Final = "tidepool: leaves the cluster"


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node that is to go. Where its machine does not run, nothing runs on it, whatever Slurm still believes."""

    name: str
    machine_runs: bool
    #: Whether the end of a job that is ending may be waited for.
    may_wait: bool = False


def left_behind(names: Iterable[str], there: Mapping[str, Node]) -> tuple[str, ...]:
    """Return the nodes that were leaving, and run nothing: a slurmctld whose power was cut has forgotten that they had left."""
    return tuple(
        name
        for name in names
        if (node := there.get(name)) is not None
        and is_leaving(node)
        and not node.state.is_slot
        and not node.cpus_alloc
        and NodeFlag.CLOUD not in node.state.flags
    )


def is_leaving(node: Node) -> bool:
    """Return whether a drain of ours has it leave."""
    return node.state.is_draining and node.reason is not None and node.reason.text == REASON


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for a node that was to go: it left, unless there is a ``reason`` why it stays.

    With ``is_ending`` it stays for a moment only, and is drained meanwhile: ask again.
    """

    reason: str = ""
    is_ending: bool = False


def retire(slurm: SlurmClient, leaving: Sequence[Leaving]) -> dict[Leaving, Outcome]:
    """Make slots of nodes, as far as that goes at once. One that runs jobs goes on as before.

    Raises:
        SlurmError: Slurm does not answer; some may be drained.
    """
    there = _nodes(slurm)
    running, dead = _by_machine(leaving, there)
    if down := [name for name in dead if there[name].state.base is not NodeBase.DOWN]:
        slurm.down(fold(down), REASON)  # by it their jobs are put back into the queue
    if drain := [name for name in running if not there[name].state.is_draining]:
        slurm.drain(fold(drain), REASON)
    # Drained by a person before, and so for ever.
    drained_before = {name for name in running if name not in drain and not is_leaving(there[name])}
    there = _nodes(slurm)
    running, dead = _by_machine(leaving, there)
    # These still have their processors; whether others run beside what ends shows when it has ended.
    completing = {name for name in running if NodeFlag.COMPLETING in there[name].state.flags}
    busy = {name for name in running if name not in completing and there[name].cpus_alloc}
    idle = [name for name in running if name not in completing | busy]
    # Slurm holds them for allocated although they run nothing, as 22.05 may after a reconfigure.
    if miscounted := [name for name in idle if there[name].state.runs_jobs]:
        slurm.down(fold(miscounted), REASON)
    free = [*idle, *dead]
    if cloud := [name for name in free if NodeFlag.CLOUD in there[name].state.flags]:
        slurm.power_down(fold(cloud))
    refused = _freed(slurm, tuple(name for name in free if name not in cloud))
    staying = busy | completing | refused
    if not staying:
        return dict.fromkeys(leaving, Outcome())
    jobs = slurm.jobs()
    outcomes = {}
    for each in leaving:
        ids = job_ids(jobs, {each.name}) if each.name in staying else ()
        # A job may have ended between the look at its node and the one at jobs.
        is_ending = each.name in staying and (each.name in completing or not ids)
        if each.name not in staying:
            outcomes[each] = Outcome()
        elif is_ending and each.may_wait:
            outcomes[each] = Outcome(is_ending=True)
        else:
            outcomes[each] = Outcome(why_it_stays(each.name, ids))
    stays = [each.name for each, outcome in outcomes.items() if outcome.reason]
    if ours := [name for name in stays if name not in drained_before]:
        slurm.undrain(fold(ours))
    return outcomes


def why_it_stays(node: str, ids: Collection[int]) -> str:
    """Return the refusal for a node that runs the jobs ``ids``."""
    if not ids:
        return f"node {node} is at work on the end of a job, and stays; try again when it is done"
    listed = ", ".join(map(str, ids))
    end = " ".join(map(str, ids))
    return f"node {node} runs the jobs {listed}, and stays; wait for their end, or end them: `scancel {end}`"


def _freed(slurm: SlurmClient, names: tuple[str, ...]) -> set[str]:
    """Make slots of them; gives those that Slurm refused."""
    if not names:
        return set()
    try:
        slurm.to_future(fold(names))
    except Refused:
        # One of them got a job, or is a slot by now; the others go one by one.
        refused = set()
        for name in names:
            try:
                slurm.to_future(name)
            except Refused:
                refused.add(name)
        there = _nodes(slurm)
        return {name for name in refused if name in there and not there[name].state.is_slot}
    return set()


def _by_machine(leaving: Iterable[Leaving], there: Mapping[str, Node]) -> tuple[list[str], list[str]]:
    """The names of those that have not left: whose machines run, and whose do not."""
    present = [each for each in leaving if each.name in there and not _has_left(there[each.name])]
    runs = [each.name for each in present if each.machine_runs]
    return runs, [each.name for each in present if not each.machine_runs]


def _has_left(node: Node) -> bool:
    return node.state.is_slot or (NodeFlag.POWERING_DOWN in node.state.flags and not node.cpus_alloc)


def _nodes(slurm: SlurmClient) -> dict[str, Node]:
    return {node.name: node for node in slurm.nodes()}


def job_ids(jobs: Iterable[Job], nodes: Collection[str]) -> tuple[int, ...]:
    """The ids of the jobs that have one of ``nodes``, in order."""
    found = {
        job.job_id
        for job in jobs
        if job.state is not JobState.PENDING and any(name in nodes for name in expand(job.nodelist))
    }
    return tuple(sorted(found))

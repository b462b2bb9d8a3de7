"""Taking nodes out of service, several at a time: drained, found to be without jobs, and slots again.

Measured with 22.05.8: a node that is FUTURE stays so while its slurmd lives on, over a reconfigure and a restart of
slurmctld; only a slurmd that is started again comes back. So a node leaves before its machine does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.hostlist import fold
from tidepool.provider.node_jobs import job_ids
from tidepool.slurm import Job, Node, NodeBase, NodeFlag, Refused, SlurmClient

#: By it a drain of ours is told from one of a person.
REASON: Final = "tidepool: leaves the cluster"
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node that is to go. Where its machine does not run, nothing runs on it, whatever Slurm still believes."""

    name: str
    machine_runs: bool


@dataclass(frozen=True, slots=True)
class First:
    """What has to be said to Slurm before anything else is known."""

    #: Those whose machine is gone: their jobs are put back into the queue by it.
    down: tuple[str, ...]
    drain: tuple[str, ...]
    #: Drained by a person before, and so for ever.
    drained_before: frozenset[str]


def first(leaving: Iterable[Leaving], there: Mapping[str, Node]) -> First:
    """Pure: what to begin with. Nodes that are slots, or not there, have left already."""
    down, drain, before = [], [], set()
    for each in leaving:
        node = there.get(each.name)
        if node is None or node.state.is_slot:
            continue
        if not each.machine_runs:
            if node.state.base is not NodeBase.DOWN:
                down.append(each.name)
        elif not node.state.is_draining:
            drain.append(each.name)
        elif node.reason is None or node.reason.text != REASON:
            before.add(each.name)
    return First(tuple(down), tuple(drain), frozenset(before))


@dataclass(frozen=True, slots=True)
class Then:
    """What the look after the drain tells: these may go, these run jobs, these are about to be done with one."""

    free: tuple[str, ...]
    busy: tuple[str, ...]
    completing: tuple[str, ...]
    #: Those of ``free`` that Slurm holds for allocated although they run nothing, as 22.05 may after a reconfigure.
    miscounted: tuple[str, ...] = ()


def then(leaving: Iterable[Leaving], there: Mapping[str, Node]) -> Then:
    """Pure: who may go."""
    free, busy, completing, miscounted = [], [], [], []
    for each in leaving:
        node = there.get(each.name)
        if node is None or node.state.is_slot:
            continue
        if not each.machine_runs:
            free.append(each.name)
        elif NodeFlag.COMPLETING in node.state.flags:
            # It still has its processors; whether others run beside it shows when it has ended.
            completing.append(each.name)
        elif node.cpus_alloc:
            busy.append(each.name)
        else:
            free.append(each.name)
            if node.state.runs_jobs:
                miscounted.append(each.name)
    return Then(tuple(free), tuple(busy), tuple(completing), tuple(miscounted))


def retire(slurm: SlurmClient, leaving: Sequence[Leaving], patience_s: float) -> dict[Leaving, str]:
    """Make slots of nodes; gives, for each, why it stays: empty for those that left.

    One that runs jobs goes on as before. A job that is ending is waited for, for ``patience_s``.

    Raises:
        SlurmError: Slurm does not answer; some may be drained.
    """
    begin = first(leaving, _nodes(slurm))
    if begin.down:
        slurm.down(fold(begin.down), REASON)
    if begin.drain:
        slurm.drain(fold(begin.drain), REASON)
    deadline, pause = time.monotonic() + patience_s, threading.Event()
    found = then(leaving, _nodes(slurm))
    while _is_about_to_be_free(found, slurm) and time.monotonic() < deadline:
        pause.wait(_LOOK_S)
        found = then(leaving, _nodes(slurm))
    if found.miscounted:
        slurm.down(fold(found.miscounted), REASON)
    staying = {*found.busy, *found.completing, *_freed(slurm, found.free)}
    reasons = _stay(slurm, staying, begin.drained_before)
    return {each: reasons.get(each.name, "") for each in leaving}


def _is_about_to_be_free(found: Then, slurm: SlurmClient) -> bool:
    """Whether another look may find more free nodes: a job is ending, or ended between the look and now."""
    if found.completing or not found.busy:
        return bool(found.completing)
    jobs = slurm.jobs()
    return any(not job_ids(jobs, {name}) for name in found.busy)


def why_it_stays(node: str, ids: Collection[int]) -> str:
    """What a person is told of a node that runs the jobs ``ids``."""
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


def _stay(slurm: SlurmClient, names: Collection[str], drained_before: Collection[str]) -> dict[str, str]:
    if not names:
        return {}
    if ours := [name for name in names if name not in drained_before]:
        slurm.undrain(fold(ours))
    jobs: tuple[Job, ...] = slurm.jobs()
    return {name: why_it_stays(name, job_ids(jobs, {name})) for name in names}


def _nodes(slurm: SlurmClient) -> dict[str, Node]:
    return {node.name: node for node in slurm.nodes()}

"""Submits the turns, shows how machines move until all jobs and pods have ended, and finds what is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.live import Live

from demo.breathing import AsUser, new_folder, outputs, user_names
from demo.pods import PodRecord, Pods
from demo.shown import Shown
from demo.turns import PodWave, Tasks, Turn, is_stamp, turns
from demo.workload import Stamp
from tidepool.clients.slurm import Job, JobState, Slurm, Transport
from tidepool.conversion.journal import Journal as Conversions
from tidepool.conversion.record import Conversion
from tidepool.scaling.ports import Journal, Look

#: Longer than all turns may take.
_LONGEST_S: Final = 300.0
_LOOK_AGAIN_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class JobTurn:
    """An array that was submitted, when (in seconds since the epoch), and its records as Slurm has them now."""

    tasks: Tasks
    job_id: int
    submitted_s: float
    records: tuple[Job, ...] = ()

    @property
    def has_begun(self) -> bool:
        return any(record.state is not JobState.PENDING for record in self.records)

    @property
    def has_ended(self) -> bool:
        return bool(self.records) and all(record.state.has_ended for record in self.records)


@dataclass(frozen=True, slots=True)
class PodTurn:
    """Pods that were made, when, and what is known of those that are there."""

    wave: PodWave
    made_s: float
    seen: tuple[PodRecord, ...] = ()

    def looked_at(self, there: Mapping[str, PodRecord]) -> PodTurn:
        """With what is there now. One that ended goes with its Node; it stays known."""
        known = {pod.name: pod for pod in self.seen if pod.has_ended} | {
            name: pod for name, pod in there.items() if name in self.wave.names
        }
        return replace(self, seen=tuple(known[name] for name in self.wave.names if name in known))

    @property
    def has_begun(self) -> bool:
        return any(pod.phase != "Pending" for pod in self.seen)

    @property
    def has_ended(self) -> bool:
        return len(self.seen) == self.wave.count and all(pod.has_ended for pod in self.seen)


@dataclass(frozen=True, slots=True)
class Moved:
    """Outcome of the demo. ``outputs`` is by file of a task what it says."""

    pool: str
    jobs: tuple[JobTurn, ...]
    pods: tuple[PodTurn, ...]
    outputs: Mapping[str, str]
    conversions: tuple[Conversion, ...]

    @property
    def job_waits_s(self) -> tuple[float, ...]:
        """From submission to the first instruction of each task, from the least to the most."""
        lines = [
            (each.submitted_s, self.outputs.get(name, ""))
            for each in self.jobs
            for name in each.tasks.outputs
        ]
        return _waits(lines)

    @property
    def pod_waits_s(self) -> tuple[float, ...]:
        """The same of pods, to the second."""
        return _waits([(each.made_s, pod.said) for each in self.pods for pod in each.seen])


def move(
    login: Transport,
    pods: Pods,
    journal: Journal,
    conversions: Conversions,
    stack: str,
    console: Console,
    most_turns: int | None,
) -> Moved:
    """Run the turns from ``login``, until all that they brought has ended.

    Raises:
        SlurmError: Slurm does not answer.
        KubernetesError: Kubernetes does not.
        JournalError: the journal cannot be read.
    """
    began, user = datetime.now(UTC), AsUser(login, user_names(login)[0])
    look = journal.last_look()
    assert look is not None, "the scaler leads, so it has looked"
    pool, machines = _pool(look)
    with Slurm(user) as slurm, Live(console=console, auto_refresh=False, transient=True) as live:
        folder = new_folder(user)
        state = _Turns(slurm, pods, pool, folder, Shown(live, journal, stack))
        state.clean(turns(machines))
        state.run(turns(machines, most_turns))
    names = [name for each in state.jobs for name in each.tasks.outputs]
    ours = tuple(each for each in conversions.conversions(since=began) if each.order.at >= began)
    return Moved(pool, tuple(state.jobs), tuple(state.pods), outputs(login, folder, names), ours)


def complaints(moved: Moved) -> Iterator[str]:
    """Return all that is not as it should be."""
    for each in moved.jobs:
        states = {record.state for record in each.records}
        if states != {JobState.COMPLETED}:
            yield f"jobs {each.tasks.name} ({each.job_id}) are {', '.join(sorted(map(str, states)))}, not all COMPLETED"
        yield from each.tasks.complaints(moved.outputs)
    for wave in moved.pods:
        by_name = {pod.name: pod for pod in wave.seen}
        for name in wave.wave.names:
            pod = by_name.get(name)
            if pod is None or pod.phase != "Succeeded":
                yield f"pod {name} is {pod.phase if pod else 'gone'}, not Succeeded"
            elif not is_stamp(pod.said) or pod.restarts:
                yield f"pod {name} says {pod.said!r}, and was begun {pod.restarts + 1} times"
    for conversion in moved.conversions:
        if conversion.phase == "failed":
            yield f"the conversion of {conversion.order.node} failed: {conversion.text}"
    if not any(each.phase == "done" for each in moved.conversions):
        yield "no machine moved"


@dataclass(slots=True)
class _Turns:
    """The turns that were submitted so far."""

    slurm: Slurm
    kubernetes: Pods
    pool: str
    folder: str
    shown: Shown
    turn: str = ""
    jobs: list[JobTurn] = field(default_factory=list)
    pods: list[PodTurn] = field(default_factory=list)

    def clean(self, planned: Sequence[Turn]) -> None:
        """Take away what an earlier demo left."""
        self.kubernetes.remove([name for turn in planned if turn.pods for name in turn.pods.names])

    def run(self, planned: Sequence[Turn]) -> None:
        deadline = time.monotonic() + _LONGEST_S
        for turn in planned:
            self._until(turn.after, deadline)
            if turn.tasks is not None:
                submitted_s = time.time()
                made = self.slurm.submit(turn.tasks.request(self.folder))
                self.jobs.append(JobTurn(turn.tasks, made.job_id, submitted_s))
            if turn.pods is not None:
                made_s = time.time()
                for name in turn.pods.names:
                    self.kubernetes.make(name, turn.pods.script, pool=self.pool, cpu="900m")
                self.pods.append(PodTurn(turn.pods, made_s))
            self.turn = turn.what
        self._until("ended", deadline)

    def _until(self, what: str, deadline: float) -> None:
        """Until all that was submitted has begun, or ended; or it has taken too long."""
        while True:
            self._look()
            all_of_it: list[JobTurn | PodTurn] = [*self.jobs, *self.pods]
            if all(each.has_begun if what == "begun" else each.has_ended for each in all_of_it):
                return
            if time.monotonic() > deadline:
                return
            time.sleep(_LOOK_AGAIN_S)

    def _look(self) -> None:
        self.jobs = [
            each if each.has_ended else replace(each, records=self.slurm.job(each.job_id))
            for each in self.jobs
        ]
        if any(not each.has_ended for each in self.pods):
            there = {pod.name: pod for pod in self.kubernetes.records()}
            self.pods = [each.looked_at(there) for each in self.pods]
        _show(self.shown, self.turn, self.jobs, self.pods)


def _show(shown: Shown, turn: str, jobs: Sequence[JobTurn], pods: Sequence[PodTurn]) -> None:
    view = shown.view()
    counts = [*map(_jobs_line, jobs), *map(_pods_line, pods)]
    machines = "; ".join(
        f"{pool.name}: {pool.roles.get('slurm', 0)} Slurm, {pool.roles.get('kubernetes', 0)} Kubernetes, "
        f"{pool.roles.get(None, 0)} on their way"
        for pool in view.pools
    )
    shown.show(view, [turn, *counts], f"{machines} | {', '.join(counts)}")


def _pool(look: Look) -> tuple[str, int]:
    """The name of the first pool, and how many machines it has."""
    if not look.spec.pools:
        raise SystemExit("the stack has no converged pool; see Pulumi.converged.yaml")
    return look.spec.pools[0].name, look.spec.pools[0].machines


def _jobs_line(each: JobTurn) -> str:
    counts: dict[str, int] = {}
    for record in each.records:
        counts[str(record.state)] = counts.get(str(record.state), 0) + record.size
    told = " ".join(f"{count} {state}" for state, count in counts.items())
    return f"jobs {each.tasks.name}: {told or 'submitted'}"


def _pods_line(each: PodTurn) -> str:
    counts: dict[str, int] = {}
    for pod in each.seen:
        counts[pod.phase] = counts.get(pod.phase, 0) + 1
    told = " ".join(f"{count} {phase}" for phase, count in counts.items())
    return f"pods {each.wave.name}: {told or 'made'}"


def _waits(lines: Sequence[tuple[float, str]]) -> tuple[float, ...]:
    found = []
    for submitted_s, line in lines:
        try:
            # Pods tell whole seconds, so they may seem to begin before they were made.
            found.append(max(0.0, Stamp.parse(line).began_s - submitted_s))
        except ValueError:
            continue  # its complaint tells of it
    return tuple(sorted(found))

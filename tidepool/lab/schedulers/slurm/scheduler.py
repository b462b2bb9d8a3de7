"""`SlurmScheduler`: Slurm, as the laboratory asks it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

from tidepool.clients.slurm import JobState as SlurmState
from tidepool.clients.slurm import SlurmError
from tidepool.clients.slurm.client import ENVIRONMENT
from tidepool.clients.slurm.commands import judge
from tidepool.cluster.names import (
    ACCOUNTING_HOST,
    BACKUP_CONTROLLER_HOST,
    CONTROLLER_HOST,
    RESERVED_PARTITIONS,
)
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.contract import JobState, Pause
from tidepool.lab.schedulers.slurm.answers import TOLD_SETTINGS, read_requests, read_settings
from tidepool.lab.schedulers.slurm.parameters import KEY, use_parameters
from tidepool.lab.schedulers.slurm.requests import JOB_PREFIX, Folders, Partitions, batches, request
from tidepool.lab.schedulers.slurm.states import job_states
from tidepool.lab.testbed import Testbed
from tidepool.lab.workload import Job

#: Slurm's programs by the parts that they are of; names as the kernel has them, cut off at 15 characters.
_PARTS: Final[Mapping[str, str]] = {
    "slurmctld": "slurmctld",
    "slurmscriptd": "slurmctld",
    "slurmdbd": "slurmdbd",
    "slurmd": "slurmd",
    "slurmstepd": "slurmstepd",
}
#: Between two looks at the queue: one request of slurmctld's each.
_LOOK_S: Final = 1.0
#: How long slurmctld may be too busy to answer before a trial is given up.
_SILENT_S: Final = 60.0
#: How long jobs that were cancelled may take to be gone, those on a machine that has just died among them (SlurmdTimeout).
_END_S: Final = 120.0
_COMMAND_S: Final = 30.0


class SlurmScheduler:
    """Slurm on a testbed's machines, all of which serve it.

    Jobs go to the partition of the lowest tier. Those that preempt go to the one of the highest, where slurm.conf says
    ``PreemptType=preempt/partition_prio``: they push out jobs of the lower tier whatever their priority.

    Slurm counts time limits in whole minutes, and forgets jobs that have ended after MinJobAge.
    """

    def __init__(
        self,
        testbed: Testbed,
        pause: Pause = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        parameters: str | None = None,
    ) -> None:
        """Take Slurm as the spec has it, or with other SchedulerParameters while a trial lasts."""
        self._testbed, self._pause, self._monotonic = testbed, pause, monotonic
        self._parameters = parameters
        self._slurm = testbed.slurm
        self._settings: Mapping[str, str] = {}
        self._partitions = Partitions("")
        self._records: PurePath = testbed.records
        #: Slurm's numbers of jobs by name, and the reverse; and what was last heard of each.
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._states: dict[str, JobState] = {}

    @property
    def can(self) -> frozenset[str]:
        always = {"gang", "array", "dependencies", "priority"}
        return frozenset(always | ({"preemption"} if self._find_partitions().preempting else set()))

    def begin(self, trial: str, records: PurePath) -> None:
        """Begin with nothing of another trial; the queue is there already, by the stack's spec."""
        self._use(self._parameters)
        self._records = records
        self._partitions = self._find_partitions()
        self._ids.clear()
        self._names.clear()
        self._states.clear()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hand over jobs in this order, each by a request of its own, those of an array by one."""
        folders = Folders(self._testbed.programs, self._records)
        for batch in batches(jobs):
            # Slurm may have forgotten a job that ended long ago, and would refuse who waits for it.
            ids = {name: self._id(name) for name in batch[0].after if not self._has_succeeded(name)}
            with _failures(f"submit {batch[0].name}"):
                number = self._slurm.submit(request(batch, folders, self._partitions, ids)).job_id
            for index, job in enumerate(batch):
                own = f"{number}_{index}" if len(batch) > 1 else str(number)
                self._ids[job.name], self._names[own] = own, job.name

    def cancel(self, names: Sequence[str]) -> None:
        for name in names:
            number, _, index = self._id(name).partition("_")
            with _failures(f"cancel {name}"):
                self._slurm.cancel(int(number), array_id=self._id(name) if index else "")

    def watch(self, pause: Pause | None = None) -> Iterator[Sequence[JobState]]:
        """Yield what has changed since the last look, once a second; the first time, all."""
        answered, last = self._monotonic(), dict[str, JobState]()
        while True:
            began = self._monotonic()
            try:
                records = self._slurm.jobs(set(SlurmState))
            except SlurmError as error:
                if self._monotonic() - answered > _SILENT_S:
                    raise SchedulerFailed(f"Slurm has not answered for {_SILENT_S:g} s: {error}") from error
                records = ()
            else:
                answered = self._monotonic()
            states = job_states(records, self._names)
            changed = {state.name: state for state in states if last.get(state.name) != state}
            last |= changed
            self._states |= changed
            yield tuple(changed.values())
            (pause or self._pause)(max(0.0, began + _LOOK_S - self._monotonic()))

    def parts(self) -> Mapping[str, Sequence[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        own = (CONTROLLER_HOST, BACKUP_CONTROLLER_HOST, ACCOUNTING_HOST)
        for machine in (*own, *self._testbed.machines):
            for pid, name in self._testbed.pids(machine).items():
                if name in _PARTS:
                    found[_PARTS[name]].append(pid)
        return MappingProxyType(dict(found))

    def requests(self) -> Mapping[str, int]:
        with _failures("sdiag"):
            return read_requests(self._ask("sdiag"))

    def settings(self) -> Mapping[str, str]:
        known = self._read_settings()
        return {name: known[name] for name in TOLD_SETTINGS if name in known}

    def end(self) -> None:
        """Cancel all jobs of the laboratory, wait until they are gone, and have Slurm decide as the spec says."""
        until = self._monotonic() + _END_S
        cancelled: set[int] = set()
        with _failures("end"):
            while left := {
                job.array_job_id or job.job_id
                for job in self._slurm.jobs()
                if job.name.startswith(JOB_PREFIX)
            }:
                for number in left - cancelled:
                    self._slurm.cancel(number)
                cancelled |= left
                if self._monotonic() > until:
                    raise SchedulerFailed(
                        f"jobs {', '.join(map(str, sorted(left)))} of Slurm are still there {_END_S:g} s after they were "
                        "cancelled; see `tidepool status` for nodes that do not answer"
                    )
                self._pause(0.2)
        self._use(None)

    def _use(self, parameters: str | None) -> None:
        with _failures(f"use {KEY}"):
            use_parameters(self._testbed.controller, parameters, self._pause)
        self._settings = {}

    def _id(self, name: str) -> str:
        if name not in self._ids:
            raise SchedulerFailed(f"Slurm was never given a job {name} in this trial; submit it first")
        return self._ids[name]

    def _has_succeeded(self, name: str) -> bool:
        return name in self._states and self._states[name].succeeded

    def _find_partitions(self) -> Partitions:
        with _failures("partitions"):
            known = [
                each for each in self._slurm.partitions() if not each.name.startswith(RESERVED_PARTITIONS)
            ]
        tiers = sorted(known, key=lambda each: (each.priority_tier, not each.is_default))
        if not tiers:
            raise SchedulerFailed("Slurm has no partition; write one under `partitions` of the stack's spec")
        usual, first = tiers[0], tiers[-1]
        preempts = self._read_settings().get("PreemptType") == "preempt/partition_prio"
        is_higher = first.priority_tier > usual.priority_tier
        preempting = first.name if preempts and is_higher else ""
        # Partitions have what the spec says, nodes of other pools and fleets among it.
        return Partitions(usual.name, preempting, self._testbed.pool)

    def _read_settings(self) -> Mapping[str, str]:
        if not self._settings:
            with _failures("settings"):
                self._settings = read_settings(self._ask("scontrol", "show", "config"))
        return self._settings

    def _ask(self, *argv: str) -> str:
        reached = self._testbed.controller
        return judge(argv, reached.run([*ENVIRONMENT, *argv], timeout_s=_COMMAND_S), reached.where)


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """Say of what Slurm's client raises that the trial failed, and in what."""
    try:
        yield
    except (SlurmError, ValueError) as error:
        raise SchedulerFailed(f"Slurm: {what}: {error}") from error

"""`FluxScheduler`: Flux's own scheduler on the laboratory's machines, by brokers that come and go with each trial."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.contract import JobState, Pause
from tidepool.lab.schedulers.flux.brokers import Brokers
from tidepool.lab.schedulers.flux.jobspec import jobspec, urgency
from tidepool.lab.schedulers.flux.listing import read_listing
from tidepool.lab.workload import Job

#: Flux ends no job for another's sake; arrays are jobs that are submitted in one go.
_CAN: Final = frozenset({"gang", "array", "dependencies", "priority"})
_AGENT: Final = Path(__file__).with_name("bulk_submission.py")
_LOOK_EVERY_S: Final = 0.5
#: Jobs are listed in the order of their ends, which is not quite that in which they come into the list.
_LOOK_BACK_S: Final = 5.0
_SUBMIT_S: Final = 300.0


class FluxScheduler:
    """Flux, from the beginning of a trial to its end. It keeps `tidepool.lab.schedulers.contract.Scheduler`."""

    def __init__(self, brokers: Brokers, programs: PurePath, sleep: Pause = time.sleep) -> None:
        self._brokers = brokers
        self._programs = programs
        self._sleep = sleep
        self._records = PurePath()
        self._ids: dict[str, str] = {}

    @property
    def can(self) -> frozenset[str]:
        return _CAN

    def begin(self, trial: str, records: Path) -> None:
        del trial  # a Flux of its own, which has no other jobs
        self._records, self._ids = records, {}
        self._brokers.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hand over jobs: a single one by a program that is quick to start, several, and those that wait, together."""
        if len(jobs) == 1 and not jobs[0].after:
            (job,) = jobs
            self._ids[job.name] = self._ask(
                "job", "submit", f"--urgency={urgency(job)}", stdin=json.dumps(self._jobspec(job))
            ).strip()
            return
        wanted = [
            {"name": job.name, "jobspec": self._jobspec(job), "urgency": urgency(job), "after": job.after}
            for job in jobs
        ]
        known = {name: self._ids[name] for job in jobs for name in job.after if name in self._ids}
        said = json.dumps({"jobs": wanted, "ids": known})
        ended = self._brokers.run("python", "-c", _AGENT.read_text(), stdin=said, timeout_s=_SUBMIT_S)
        if ended.exit_code:
            raise SchedulerFailed(f"Flux took no jobs: {ended.stderr.strip()}")
        self._ids.update(json.loads(ended.stdout))
        if ended.stderr.strip():
            raise SchedulerFailed(f"Flux refused {ended.stderr.strip()}")

    def cancel(self, names: Sequence[str]) -> None:
        ids = [self._ids[name] for name in names if name in self._ids]
        if not ids:
            return
        ended = self._brokers.run("cancel", *ids)
        # One that ended by itself meanwhile is where it was to be.
        wrong = [line for line in ended.stderr.splitlines() if "inactive" not in line]
        if ended.exit_code and wrong:
            raise SchedulerFailed(f"Flux did not cancel: {'; '.join(wrong)}")

    def watch(self, pause: Pause | None = None) -> Iterator[Sequence[JobState]]:
        shown: dict[str, JobState] = {}
        since = 0.0
        while True:
            # Active ones first: one that ends in between is in both.
            states = {each.name: each for each in read_listing(self._ask("job", "list"))}
            ended = read_listing(self._ask("job", "list-inactive", f"--since={since:.6f}"))
            states |= {each.name: each for each in ended}
            since = max([since, *(each.told["t_inactive"] - _LOOK_BACK_S for each in ended)])
            changed = [each for each in states.values() if shown.get(each.name) != each]
            shown |= {each.name: each for each in changed}
            yield changed
            (pause or self._sleep)(_LOOK_EVERY_S)
            self._brokers.start_those_that_ended()

    def parts(self) -> Mapping[str, Sequence[int]]:
        return self._brokers.parts()

    def requests(self) -> Mapping[str, int]:
        return {}  # its brokers count no requests

    def settings(self) -> Mapping[str, str]:
        return {
            "flux": " ".join(self._ask("--version").split()),
            "urgency": "16 + priority, from 1 to 30",
            "memory": "not allotted: flux-core's scheduler allots cores",
            "machines that die": "their jobs fail, and are not requeued",
        }

    def end(self) -> None:
        self._brokers.stop()

    def _jobspec(self, job: Job) -> Mapping[str, object]:
        return jobspec(job, self._programs, self._records)

    def _ask(self, *arguments: str, stdin: str = "") -> str:
        ended = self._brokers.run(*arguments, stdin=stdin)
        if ended.exit_code:
            raise SchedulerFailed(f"`flux {' '.join(arguments)}` failed: {ended.stderr.strip()}")
        return ended.stdout

"""Drives a run to its end, or goes on with it where another process was killed: one look, one step, and again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.journals.poll_interval import PollInterval
from tidepool.journals.processes import new_driver
from tidepool.runs.journal import Journal
from tidepool.runs.next_step import Act, Enter, Looks, Mark, Observed, Wait, looks, next_step
from tidepool.runs.ports import Parties, Refused, RunError, TakenOver
from tidepool.runs.record import Output, Phase, Run, RunJob, deadline, with_jobs, with_outputs
from tidepool.runs.workload import Workload

#: A driver that has said nothing for so long, in seconds, is taken for dead; one of this machine whose process is gone is so
#: at once. On other machines it is the copy that says until when: their clocks may differ by a part of it.
LEASE_S: Final = 300.0
RENEWED_AFTER_S: Final = 60.0
#: Between two looks.
_SHORTEST_S, _LONGEST_S = 0.05, 5.0
#: The cost is asked for so seldom, in seconds; and that the cluster answers is written down.
_USE_S: Final = 30.0


def drive(
    run: Run,
    workload: Workload,
    parties: Parties,
    journal: Journal,
    *,
    now: Callable[[], datetime],
    wait: Callable[[float], None],
    told: Callable[[Run], None],
    beside: Callable[[Callable[[], None]], AbstractContextManager[None]] | None = None,
) -> Run:
    """Drive ``run`` to its end, and give it as it ended. Where another process drives it, that one is waited for.

    ``workload`` is the order's, read. ``wait`` sleeps for so many seconds; what it raises ends the driving: whoever comes next
    goes on. ``told`` hears of each change, for progress. ``beside`` calls what it is given each minute while it is entered, by
    default in a thread: a step may take longer than the lease.

    Raises:
        RunError: the journal cannot be used.
        TakenOver: another machine drives it; its copy tells how far it is.
    """
    driver = new_driver()
    pace = PollInterval(now, wait, _SHORTEST_S, _LONGEST_S)
    try:
        while run.is_under_way:
            if journal.take_over(run.id, driver, now(), LEASE_S):
                driving = _Drive(journal.run(run.id), workload, driver, parties, journal, pace, told)
                with (beside or _each_minute)(driving.renew):
                    return driving.to_the_end()
            pace.wait()
            if (seen := journal.run(run.id)) != run:
                run = seen
                told(run)
    finally:
        with contextlib.suppress(RunError):
            journal.let_go(run.id, driver)
    return run


@contextmanager
def _each_minute(call: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(RENEWED_AFTER_S):
            call()

    thread = threading.Thread(target=beat, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass
class _Drive:
    """One process's driving of one run. What it knows besides the journal may be lost at any moment."""

    run: Run
    workload: Workload
    driver: str
    parties: Parties
    journal: Journal
    pace: PollInterval
    told: Callable[[Run], None]
    #: When the copy was written last; that somebody else drives it, as the thread beside has found.
    _copied: datetime | None = None
    _lost: bool = False
    _used: datetime | None = None
    _failing: str = ""
    _refused: str = ""
    #: The phase that the copy tells of, as far as it was written; and whether this driver has the epoch there.
    _published: Phase | None = None
    _claimed: bool = False

    def to_the_end(self) -> Run:
        """Look, do, write; until it has ended.

        Raises:
            TakenOver: another process drives it by now.
        """
        self.pace.progress()
        self._write(began=self._marked("driver/since"))
        if "checked/claimed" in self.run.began:
            self._copy()
        while self.run.is_under_way:
            self._stay()
            self._step()
        return self.run

    def _stay(self) -> None:
        """See that nobody else drives it, hear of a cancel, and write the copy where it is due."""
        seen = self.journal.run(self.run.id)
        if self._lost or seen.driver != self.driver:
            raise TakenOver(f"run {self.run.id} is driven by another process")
        self.run = seen
        is_old = self._copied is None or self.pace.now() - self._copied > timedelta(seconds=RENEWED_AFTER_S)
        if "checked/claimed" in self.run.began and (is_old or self._published != self.run.phase):
            self._copy()

    def renew(self) -> None:
        """Be the one that drives it for some time more, here and where results are; in a thread beside."""
        now = self.pace.now()
        try:
            if not self.journal.take_over(self.run.id, self.driver, now, LEASE_S):
                self._lost = True
            elif self._claimed:
                self.parties.records.renew(self.run, now + timedelta(seconds=LEASE_S))
        except TakenOver:
            self._lost = True
        except RunError:
            # Of results that are away it is the lease that tells how long one is waited for.
            return

    def _step(self) -> None:
        seen = self._look(looks(self.run))
        step = next_step(self.run, self.workload, seen, self.pace.now())
        match step:
            case Enter():
                self._enter(step)
            case Mark(mark):
                self._write(began=self._marked(f"{self.run.phase}/{mark}"))
            case Wait(text):
                self._write_if_changed(text=text)
                self.pace.wait()
            case Act():
                self._act(step)

    def _enter(self, step: Enter) -> None:
        now = self.pace.now()
        began = {**self.run.began, step.phase: now}
        if step.mark:
            began[f"{step.phase}/{step.mark}"] = now
        changes: dict[str, object] = {
            "phase": step.phase,
            "began": FrozenDict(began),
            "text": "",
            "ended": now if step.phase == "done" else None,
        }
        if step.outcome and not self.run.outcome:
            turned_in = None if step.outcome == "succeeded" else self.run.phase
            changes |= {"outcome": step.outcome, "because": step.because, "turned_in": turned_in}
        elif step.because:
            changes |= {"because": f"{self.run.because}; then {step.because}"}
        if step.phase == "done" and not self._is_published(replace(self.run, **changes)):  # type: ignore[arg-type]
            self.pace.wait()
            return
        self._write(**changes)
        self._failing = self._refused = ""
        self.pace.progress()

    def _act(self, act: Act) -> None:
        try:
            self._do(act)
        except TakenOver:
            raise
        except RunError as error:
            self._failing = str(error)
            self._refused = str(error) if isinstance(error, Refused) else ""
            self._write_if_changed(text=str(error))
            self.pace.wait()
            return
        self._failing = ""
        if act.mark:
            self._write(began=self._marked(f"{self.run.phase}/{act.mark}"), text="")
        if act.waits:
            self._write_if_changed(text=act.text)
            self.pace.wait()
        else:
            self.pace.progress()

    def _do(self, act: Act) -> None:
        cluster, jobs, files = self.parties.cluster, self.parties.jobs, self.parties.files
        ids = [self.run.job_ids[name] for name in act.jobs if name in self.run.job_ids]
        match act.verb:
            case "claim":
                self._claim()
                self.parties.records.publish(self.run)
            case "up":
                cluster.up()
            case "stage":
                files.stage()
            case "submit":
                for name in act.jobs:
                    # Written down at once; whoever is killed before leaves it in Slurm, held, where it is found.
                    submitted = RunJob(name, jobs.submit(name, self.run.job_ids))
                    self._write(jobs=with_jobs(self.run, [submitted]).jobs)
            case "release":
                jobs.release(ids)
            case "stop":
                jobs.stop(ids)
            case "list":
                listed = files.list()
                self._write(outputs=listed.outputs, unmatched=listed.unmatched)
            case "upload":
                files.upload(self.run.missing, self._kept)
            case "verify":
                bad = {output.path for output in files.verify(self.run.outputs)}
                checked = [
                    replace(each, is_kept=each.path not in bad, is_verified=each.path not in bad)
                    for each in self.run.outputs
                ]
                self._write(outputs=with_outputs(self.run, checked).outputs)
            case "abandon":
                cluster.remove_file()
                files.abandon()
            case "down":
                self._see_use()
                cluster.down(with_home=self.run.is_home_done)

    def _kept(self, output: Output) -> None:
        self._write(
            outputs=with_outputs(self.run, [replace(output, is_kept=True)]).outputs,
            began=self._marked(f"{self.run.phase}/kept"),
        )
        self._stay()

    def _look(self, wanted: Looks) -> Observed:
        """Observe what is wanted; jobs that are seen are written down, so that none is unknown to who comes next."""
        found = Observed(failing=self._failing, refused=self._refused)
        try:
            if wanted.cluster:
                found = replace(found, cluster=self.parties.cluster.see())
            if wanted.jobs and found.cluster != "absent":
                seen = self.parties.jobs.see()
                found = replace(found, jobs=FrozenDict({job.name: job for job in seen}))
                self._write_if_changed(jobs=with_jobs(self.run, seen).jobs)
                self._answered()
        except RunError as error:
            return replace(found, unknown=str(error))
        if wanted.cluster and found.cluster == "up":
            self._see_use_if_due()
        return found

    def _answered(self) -> None:
        if self._due(self.run.began.get("cluster/answered")):
            self._write(began=self._marked("cluster/answered"))

    def _see_use_if_due(self) -> None:
        if self._due(self._used):
            self._used = self.pace.now()
            self._see_use()

    def _due(self, last: datetime | None) -> bool:
        return last is None or self.pace.now() - last >= timedelta(seconds=_USE_S)

    def _see_use(self) -> None:
        # Not known now is known at the next look; the last is kept.
        with contextlib.suppress(RunError):
            use = self.parties.cluster.use()
            nodes = tuple(dict.fromkeys((*self.run.nodes, *use.nodes)))
            images = FrozenDict({**self.run.images, **use.images})
            if (nodes, images, use.cost) != (self.run.nodes, self.run.images, self.run.cost):
                self._write(nodes=nodes, images=images, cost=use.cost)

    def _copy(self) -> None:
        """Write the copy; while results cannot be reached the run goes on here, and it is written when they can."""
        try:
            self._claim()
            self.parties.records.publish(self.run)
            self._published, self._copied = self.run.phase, self.pace.now()
        except TakenOver:
            raise
        except RunError as error:
            self._write_if_changed(text=str(error))

    def _is_published(self, run: Run) -> bool:
        """Tell where results are that it has ended, before it has: nobody of this machine comes for it after that.

        Where they stay away, whoever finds the copy before ends it once more, and there is nothing to do for that.
        """
        if "checked/claimed" not in run.began:
            return True
        try:
            self._claim()
            self.parties.records.publish(replace(run, epoch=self.run.epoch))
        except TakenOver:
            raise
        except RunError as error:
            self._write_if_changed(text=str(error))
            until = deadline(self.run)
            return until is None or self.pace.now() >= until
        return True

    def _claim(self) -> None:
        if not self._claimed:
            self._write(epoch=self.parties.records.claim(self.run, self.pace.now()))
            self._claimed = True

    def _marked(self, name: str) -> Mapping[str, datetime]:
        return FrozenDict({**self.run.began, name: self.pace.now()})

    def _write_if_changed(self, **changes: object) -> None:
        if any(getattr(self.run, name) != value for name, value in changes.items()):
            self._write(**changes)

    def _write(self, **changes: object) -> None:
        self.run = self.journal.write(replace(self.run, **changes))  # type: ignore[arg-type]
        self.told(self.run)

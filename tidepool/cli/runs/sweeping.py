"""Driving the runs of a sweep: each in a process of its own, so one that fails, or is killed, spoils no other."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidepool.cli import show
from tidepool.cli.errors import Failure
from tidepool.cli.options import Choice
from tidepool.cli.runs.driving import RUNS
from tidepool.cli.runs.order import Request, order
from tidepool.cli.runs.progress import events, line
from tidepool.cli.runs.verbs import Verb, VerbServer
from tidepool.cli.stack_copy import StackCopy
from tidepool.runs.ports import NotOrdered, RunError
from tidepool.runs.sweeps.capacity import Capacity, may_begin

if TYPE_CHECKING:
    from tidepool.runs.journal import Journal
    from tidepool.runs.record import Run
    from tidepool.runs.sweeps.sweep import Sweep

#: Between two looks at the journal and at the processes, in seconds.
_POLL_S: Final = 0.3
#: A run that was left is gone on with so often.
_AGAIN: Final = 2


@dataclass
class Sweeping:
    """The runs of one sweep, of which some may have ended, or be under way, from an earlier time.

    ``copies`` are copies of its stack, by the number of the point; ``needs`` what a run of it may use of ``machine``.
    """

    choice: Choice
    verbs: VerbServer
    sweep: Sweep
    request: Request
    copies: Sequence[StackCopy]
    needs: Sequence[Capacity]
    machine: Capacity
    journal: Journal
    told: Callable[[str, Run | None, Run], None]
    _running: dict[str, Verb] = field(default_factory=dict)
    _seen: dict[str, Run] = field(default_factory=dict)
    _times_left: Counter[str] = field(default_factory=Counter)

    def run(self, ended: Mapping[str, Run | None]) -> None:
        """Have all runs come to their ends; those that have in ``ended`` are left alone. What a run fails of is in its record.

        Raises:
            RunError: the journal of this machine cannot be used, or whoever forks runs is gone.
        """
        point_of = {each.id: each.point for each in self.sweep.runs}
        waiting = [id for id in point_of if (run := ended.get(id)) is None or run.is_under_way]
        while waiting or self._running:
            running = [self.needs[point_of[id]] for id in self._running]
            count = may_begin(
                [self.needs[point_of[id]] for id in waiting], running, self.machine, self.sweep.at_once
            )
            for id in waiting[:count]:
                self._begin(id, self.copies[point_of[id]], is_new=ended.get(id) is None)
            del waiting[:count]
            self._look()
            if self._running:
                time.sleep(_POLL_S)

    def _begin(self, id: str, copy: StackCopy, *, is_new: bool) -> None:
        if is_new:
            try:
                order(self.journal, self.request, copy, self.sweep.by, id)
            except NotOrdered:
                pass  # it was ordered when the sweep was cut off
            except Failure as error:
                show.warn(f"{id} was not begun: {error.what}")
                return
        self._drive(id)

    def _drive(self, id: str) -> None:
        words = ["run", "--resume", id, "--json"]
        try:
            self.journal.run(id)
        except NotOrdered:
            words += ["--results", self.request.results]  # another machine began it
        log = self._log(id)
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("ab") as said:
            try:
                self._running[id] = self.verbs.begin(words, said.fileno())
            except OSError as error:
                raise RunError(
                    f"{id} was not begun: {error}; `tidepool sweep --resume {self.sweep.id}` begins it, and others go on"
                ) from error

    def _log(self, id: str) -> Path:
        return self.choice.context.data / RUNS / f"{id}.driver.log"

    def _look(self) -> None:
        """Tell what has changed, and let go of those whose processes have ended."""
        over = {id: code for id, each in self._running.items() if (code := each.wait(0)) is not None}
        for id in self._running:
            try:
                run = self.journal.run(id)
            except NotOrdered:
                continue  # another machine began it, and its process has not read the copy yet
            if (before := self._seen.get(id)) != run:
                self._seen[id] = run
                self.told(id, before, run)
        for id, code in over.items():
            del self._running[id]
            seen = self._seen.get(id)
            if seen is None or seen.is_under_way:
                self._left(id, code)

    def _left(self, id: str, code: int) -> None:
        """Go on with a run that its process has left, some times: it has a cluster."""
        self._times_left[id] += 1
        told = f"{id} was left by its process (exit code {code}; {self._log(id)})"
        if self._times_left[id] <= _AGAIN:
            show.warn(f"{told}; it is gone on with")
            self._drive(id)
        else:
            show.warn(f"{told}; `tidepool run --resume {id}` ends it, and so does `tidepool reap`")


def progress(sweep: Sweep, *, as_json: bool) -> Callable[[str, Run | None, Run], None]:
    """Return what tells of the runs of a sweep: events on standard output, or a line on standard error for each phase."""
    labels = {each.id: sweep.points[each.point].label for each in sweep.runs}

    def report(id: str, before: Run | None, run: Run) -> None:
        now = datetime.now(UTC)
        if as_json:
            for event in events(before, run, now):
                click.echo(json.dumps(event))
        elif before is None or before.phase != run.phase:
            ended = f"{run.outcome}. {run.because}".strip() if run.phase == "done" else line(run, now)
            show.tell(f"{id}  {labels[id]}  {ended}")

    return report


def this_machine() -> Capacity:
    """Return the processors that this process may use, and the memory that is free."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free_kib = next(int(each.split()[1]) for each in lines if each.startswith("MemAvailable:"))
    return Capacity(len(os.sched_getaffinity(0)), free_kib >> 10)

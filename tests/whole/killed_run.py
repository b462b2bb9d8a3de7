"""`tidepool`, which kills itself as `kill -9` does at one step of its run's journal.

python -m tests.whole.killed_run STEP before|after WORDS...

A step is what the journal says has begun or is done (``up``, ``up/made``); it dies just before that is written, when the step has
been done and nobody knows, or just after, when the next one has not begun.
"""

from __future__ import annotations

import os
import signal
import sys

from tidepool.cli.__main__ import main
from tidepool.runs.journal import Journal
from tidepool.runs.record import Order, Run


def _armed(step: str, when: str) -> None:
    order, write = Journal.order, Journal.write

    def ordered(self: Journal, id: str, asked: Order) -> Run:
        is_time = step == "checked"
        _die(is_time and when == "before")
        run = order(self, id, asked)
        _die(is_time)
        return run

    def written(self: Journal, run: Run) -> Run:
        is_time = step in run.began and step not in self.run(run.id).began
        _die(is_time and when == "before")
        now = write(self, run)
        _die(is_time)
        return now

    Journal.order, Journal.write = ordered, written  # type: ignore[method-assign, assignment]


def _die(is_time: bool) -> None:
    if is_time:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _armed(*sys.argv[1:3])
    sys.argv[1:] = sys.argv[3:]
    main()

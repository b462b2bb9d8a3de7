"""Brings a stack's cluster up, has it breathe with a workload that comes in waves, shows it, and checks what came of it.

    .venv/bin/python -m demo [--stack dev] [--charts charts] [--waves 3]

Exit code 0: every job is COMPLETED and wrote what it should have, and the nodes that came for them are gone; else 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from demo.breathing import breathe, complaints
from demo.course import Came, Course, led
from demo.report import numbers, table_of_shares, table_of_times, write_charts

_GO_ON: Final = """\
Go on:
  {tidepool} -s {stack} scale            # nodes come and go with the queue, until Ctrl-C
  {tidepool} -s {stack} watch            # beside it: what it does, and why
  {tidepool} -s {stack} ssh login-1      # as the first of its users: sbatch, squeue, /home on all machines
  {tidepool} -s {stack} why job 1        # what it waited for; also: why node cpu-1, why fleet cpu
  edit Pulumi.{stack}.yaml, then: {tidepool} -s {stack} preview, {tidepool} -s {stack} up
Tear down:
  {tidepool} -s {stack} down             # nothing is left but /home; --purge takes that too"""


def _breathe(stack: str, console: Console, most_waves: int | None, folder: Path) -> Came:
    """The workload, with a scaler beside it."""
    with led(stack) as cluster:
        breathed = breathe(cluster.login, cluster.journal, stack, console, most_waves)
    charts = write_charts(breathed, folder, stack)
    return Came(
        (
            numbers(breathed.ran),
            *([table_of_shares(breathed)] if breathed.shares else []),
            table_of_times(breathed),
        ),
        (*breathed.said, f"chart: {', '.join(map(str, charts))}"),
        tuple(complaints(breathed)),
        "All jobs are COMPLETED, and wrote what they should; the nodes that came for them are gone.",
        _GO_ON,
    )


DEMO: Final = Course("demo", "The demo of Tidepool.", "dev", "waves", _breathe)

if __name__ == "__main__":
    sys.exit(DEMO.main())

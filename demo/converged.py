"""Brings a stack with a converged pool up, has jobs and pods arrive in turns, shows how machines move, and checks all.

    .venv/bin/python -m demo.converged [--stack converged] [--charts charts] [--turns 4]

Exit code 0: every job is COMPLETED and every pod Succeeded, each wrote what it should have, and every conversion came to
its end; else 1. The cluster stays up.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Final

from rich.console import Console

from demo.course import Came, Course, led
from demo.moving import complaints, move
from demo.pods import Pods
from demo.tables import conversions_table, waits_table, write_report
from tidepool.conversion.journal import Journal

_GO_ON: Final = """\
Go on:
  {tidepool} -s {stack} pool show                          # each machine, from both sides
  {tidepool} -s {stack} convert NODE --to kubernetes   # by hand; --force, --cancel
  {tidepool} -s {stack} scale                              # machines move with both queues, until Ctrl-C
  {tidepool} -s {stack} watch                              # beside it: what it does, and why
  {tidepool} -s {stack} why node NODE                  # also: why pod NAME, why job 1
  {tidepool} -s {stack} pool report --svg conversions.svg
Tear down:
  {tidepool} -s {stack} down                               # nothing is left but /home; --purge takes that too"""


def _move(stack: str, console: Console, most_turns: int | None, folder: Path) -> Came:
    """The turns, with a scaler beside them."""
    with (
        led(stack) as cluster,
        closing(Journal(cluster.data / stack / "conversions.db")) as conversions,
        Pods(cluster.data, stack) as pods,
    ):
        moved = move(cluster.login, pods, cluster.journal, conversions, stack, console, most_turns)
    return Came(
        (waits_table(moved), conversions_table(moved)),
        tuple(f"written: {path}" for path in write_report(moved, folder)),
        tuple(complaints(moved)),
        "All jobs are COMPLETED and all pods Succeeded, and no machine was in two roles.",
        _GO_ON.replace("NODE", f"{moved.pool}-1"),
    )


DEMO: Final = Course("demo.converged", "The demo of converged pools.", "converged", "turns", _move)

if __name__ == "__main__":
    sys.exit(DEMO.main())

"""Brings a stack's cluster up, has it breathe with a workload that comes in waves, shows it, and checks what came of it.

    .venv/bin/python -m demo [--stack dev] [--charts charts] [--waves 3]

Exit code 0: every job is COMPLETED and wrote what it should have, and the nodes that came for them are gone; else 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from rich.console import Console

from demo.breathing import Breathed, breathe, complaints
from demo.report import numbers, table_of_times, write_charts
from demo.scaler import ScalerError, scaler, until_it_leads
from tidepool.connection import data_folder, transport
from tidepool.scaling.chart import ChartError
from tidepool.scaling.journal import open_journal
from tidepool.scaling.ports import JournalError
from tidepool.slurm import SlurmError

_TIDEPOOL: Final = str(Path(sys.executable).with_name("tidepool"))
_SUDO: Final = "sudo " if "SUDO_UID" in os.environ else ""
_GO_ON: Final = """\
Go on:
  {tidepool} -s {stack} scale            # nodes come and go with the queue, until Ctrl-C
  {tidepool} -s {stack} watch            # beside it: what it does, and why
  {tidepool} -s {stack} ssh login-1      # as a researcher: sbatch, squeue, /home on all machines
  {tidepool} -s {stack} why job 1        # what it waited for; also: why node cpu-1, why fleet cpu
  edit Pulumi.{stack}.yaml, then: {tidepool} -s {stack} preview, {tidepool} -s {stack} up
Tear down:
  {tidepool} -s {stack} down             # nothing is left but /home; --purge takes that too"""


def main(arguments: list[str] | None = None) -> int:
    """Run it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="The demo of Tidepool.")
    parser.add_argument("--stack", default="dev")
    parser.add_argument("--charts", type=Path, default=Path("charts"), help="the folder for the charts")
    parser.add_argument("--waves", type=int, help="only so many of the waves")
    said = parser.parse_args(arguments)
    console = Console(highlight=False)
    begun = time.monotonic()
    up = subprocess.run([_TIDEPOOL, "--stack", said.stack, "up", "--yes"], check=False)
    if up.returncode:
        return 1
    up_s = time.monotonic() - begun
    try:
        breathed = _breathe(said.stack, console, said.waves)
        wrong = list(complaints(breathed))
        console.print(numbers(breathed.ran))
        console.print(table_of_times(breathed))
        charts = write_charts(breathed, said.charts, said.stack)
    except (ChartError, JournalError, ScalerError, SlurmError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(
            "interrupted; jobs that were submitted are still there, and nodes stay as they are\n"
        )
        return 130
    for line in (
        *breathed.said,
        f"chart: {', '.join(map(str, charts))}",
        *(f"WRONG: {each}" for each in wrong),
    ):
        console.print(line, markup=False, soft_wrap=True)
    jobs_s = time.monotonic() - begun - up_s
    verdict = (
        "Not all was as it should be."
        if wrong
        else "All jobs are COMPLETED, and wrote what they should; the nodes that came for them are gone."
    )
    console.print(f"\n{verdict} The cluster took {up_s:.1f} s, the jobs {jobs_s:.1f} s.\n", soft_wrap=True)
    console.print(
        _GO_ON.format(tidepool=f"{_SUDO}.venv/bin/tidepool", stack=said.stack), markup=False, soft_wrap=True
    )
    return 1 if wrong else 0


def _breathe(stack: str, console: Console, most_waves: int | None) -> Breathed:
    """The workload, with a daemon beside it."""
    data = data_folder(os.environ)
    folder = data / stack / "scaler"
    log = folder / "demo.log"
    login = transport({"kind": "local", "stack": stack, "machine": "login-1"}, data)
    with closing(login), closing(open_journal(folder, os.environ, stack=stack)) as journal:
        since_s = time.time()
        with scaler(_TIDEPOOL, stack, log) as child:
            until_it_leads(child, journal, since_s, log)
            return breathe(login, journal, stack, console, most_waves)


if __name__ == "__main__":
    sys.exit(main())

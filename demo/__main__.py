"""Brings a stack's cluster up, runs the demo's workload on it, shows it live, and checks what came of it.

    .venv/bin/python -m demo [--stack dev]

Exit code 0: every job is COMPLETED and wrote what it should have; else 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.workload import PROGRAMS, SCRIPTS, USER, DemoJob, workload
from tidepool.connection import data_folder, transport
from tidepool.slurm import Completed, Job, JobState, Slurm, SlurmError, Transport

_CALL_S: Final = 30.0
#: Longer than any of the jobs may run.
_DEADLINE_S: Final = 180.0
_LOOK_AGAIN_S: Final = 0.25
_TIDEPOOL: Final = str(Path(sys.executable).with_name("tidepool"))
_SUDO: Final = "sudo " if "SUDO_UID" in os.environ else ""
_GO_ON: Final = """\
Go on:
  {tidepool} -s {stack} ssh login-1      # as a researcher: sbatch, squeue, /home on all machines
  {tidepool} -s {stack} status
  edit Pulumi.{stack}.yaml, then: {tidepool} -s {stack} preview, {tidepool} -s {stack} up
Tear down:
  {tidepool} -s {stack} down             # nothing is left but /home; --purge takes that too"""
_COLOURS: Final = {JobState.COMPLETED: "green", JobState.RUNNING: "yellow", JobState.PENDING: "dim"}


@dataclass(frozen=True, slots=True)
class AsUser:
    """Runs commands as ``user``, as somebody does who logged in there."""

    behind: Transport
    user: str

    @property
    def where(self) -> str:
        return f"{self.behind.where}, as {self.user}"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return self.behind.run(
            ["runuser", "--user", self.user, "--", *argv], stdin=stdin, timeout_s=timeout_s
        )

    def close(self) -> None:
        self.behind.close()


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that was submitted, and its records as Slurm has them now."""

    job: DemoJob
    job_id: int
    records: tuple[Job, ...]

    @property
    def has_ended(self) -> bool:
        return all(record.state.has_ended for record in self.records)

    def states(self) -> Mapping[JobState, int]:
        """How many of its tasks are in which state."""
        counts: dict[JobState, int] = {}
        for record in self.records:
            counts[record.state] = counts.get(record.state, 0) + record.size
        return counts


def main(arguments: list[str] | None = None) -> int:
    """Run it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="The demo of Tidepool.")
    parser.add_argument("--stack", default="dev")
    stack = parser.parse_args(arguments).stack
    console = Console(highlight=False)
    begun = time.monotonic()
    up = subprocess.run([_TIDEPOOL, "--stack", stack, "up", "--yes"], check=False)
    if up.returncode:
        return 1
    up_s = time.monotonic() - begun
    login = transport({"kind": "local", "stack": stack, "machine": "login-1"}, data_folder(os.environ))
    try:
        ran, wrong, said = _work(login, console)
    except SlurmError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    console.print(_numbers(ran))
    for line in (*said, *(f"WRONG: {complaint}" for complaint in wrong)):
        console.print(line, markup=False, soft_wrap=True)
    jobs_s = time.monotonic() - begun - up_s
    verdict = (
        "Not all jobs did what they should."
        if wrong
        else "All jobs are COMPLETED, and wrote what they should."
    )
    console.print(f"\n{verdict} The cluster took {up_s:.1f} s, the jobs {jobs_s:.1f} s.\n", soft_wrap=True)
    console.print(
        _GO_ON.format(tidepool=f"{_SUDO}.venv/bin/tidepool", stack=stack), markup=False, soft_wrap=True
    )
    return 1 if wrong else 0


def _work(login: Transport, console: Console) -> tuple[tuple[Ran, ...], list[str], list[str]]:
    """The jobs that ran, what is wrong with them, and what those between two nodes say of the way between."""
    user = AsUser(login, USER)
    with Slurm(user) as slurm:
        folder = _put_programs(user)
        submitted = [(job, slurm.submit(job.request).job_id) for job in workload(folder)]
        ran = _watch(slurm, submitted, console)
    wrong = list(_complaints(ran, folder, login))
    said = [] if wrong else _run(login, ["cat", f"{folder}/pingpong.out"]).splitlines()[:1]
    return ran, wrong, said


def _put_programs(login: Transport) -> str:
    """A new folder in the user's home, with what the jobs start."""
    folder = _run(login, ["mktemp", "--directory", "--tmpdir=/home/researcher", "demo-XXXXXX"]).strip()
    for name in PROGRAMS:
        _run(login, ["tee", f"{folder}/{name}"], stdin=(SCRIPTS / name).read_text())
    return folder


def _watch(slurm: Slurm, submitted: Sequence[tuple[DemoJob, int]], console: Console) -> tuple[Ran, ...]:
    """Show the jobs until all have ended."""
    deadline, told = time.monotonic() + _DEADLINE_S, ""
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        while True:
            ran = tuple(Ran(job, job_id, slurm.job(job_id)) for job, job_id in submitted)
            if all(each.has_ended for each in ran) or time.monotonic() > deadline:
                return ran
            if console.is_terminal:
                live.update(_progress(ran))
            elif (now := _line(ran)) != told:
                console.print(now)
                told = now
            time.sleep(_LOOK_AGAIN_S)


def _progress(ran: Sequence[Ran]) -> Table:
    table = Table("job", "what", "state", "nodes", box=None)
    for each in ran:
        states = "  ".join(
            f"[{_COLOURS.get(state, 'red')}]{count} {state}[/]" for state, count in each.states().items()
        )
        nodes = ",".join(sorted({record.nodelist for record in each.records if record.nodelist}))
        table.add_row(str(each.job_id), each.job.what, states, nodes)
    return table


def _line(ran: Sequence[Ran]) -> str:
    return "; ".join(
        f"{each.job.request.name}: " + ", ".join(f"{count} {state}" for state, count in each.states().items())
        for each in ran
    )


def _complaints(ran: Sequence[Ran], folder: str, login: Transport) -> Iterator[str]:
    for each in ran:
        states = each.states()
        if set(states) != {JobState.COMPLETED}:
            told = ", ".join(f"{count} {state}" for state, count in states.items())
            yield f"job {each.job_id} ({each.job.what}) is {told}, not COMPLETED"
            continue
        outputs = {name: _run(login, ["cat", f"{folder}/{name}"]).strip() for name in each.job.outputs}
        if verdict := each.job.verdict(outputs):
            yield f"job {each.job_id} ({each.job.what}): {verdict}"


def _numbers(ran: Sequence[Ran]) -> Table:
    table = Table("job", "what", "state", "waited", "ran", "nodes", box=None)
    for each in ran:
        states = ", ".join(f"{count} {state}" for state, count in each.states().items())
        begun = [r.start_time for r in each.records if r.start_time]
        ended = [r.end_time for r in each.records if r.end_time]
        asked = [r.submit_time for r in each.records if r.submit_time]
        nodes = ",".join(sorted({r.nodelist for r in each.records if r.nodelist}))
        now = datetime.now(UTC)
        waited = (max(begun, default=now) - min(asked, default=now)).total_seconds()
        took = (max(ended, default=now) - min(begun, default=now)).total_seconds()
        table.add_row(str(each.job_id), each.job.what, states, f"{waited:.0f} s", f"{took:.0f} s", nodes)
    return table


def _run(login: Transport, argv: Sequence[str], stdin: str = "") -> str:
    done = login.run(argv, stdin=stdin, timeout_s=_CALL_S)
    if done.exit_code:
        raise SystemExit(f"{argv[0]} failed {login.where}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

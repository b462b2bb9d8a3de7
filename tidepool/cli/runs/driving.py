"""Driving a run by the command: its parties on this machine, and progress as people and programs like it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import click

from tidepool.cli import show
from tidepool.cli.options import Choice
from tidepool.cli.runs.progress import events, line, sent_event
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.clients.transport import Completed, Transport
    from tidepool.runs.journal import Journal
    from tidepool.runs.record import Output, Run
    from tidepool.runs.results.store import Store

#: In the data folder.
RUNS: Final = "runs"
JOURNAL_FILE: Final = "journal.sqlite"
#: Between two tellings of how much of the results is there.
_SENT_S: Final = 1.0


def open_journal(choice: Choice) -> Journal:
    """Open this machine's journal of runs."""
    from tidepool.runs.journal import Journal

    return Journal(choice.context.data / RUNS / JOURNAL_FILE)


def go_on(stack: Stack, run: Run, journal: Journal, store: Store, *, as_json: bool) -> Run:
    """Drive a run to its end, with progress. Errors as of `tidepool.runs.drive.drive`."""
    from tidepool.cli.runs.stack_cluster import StackCluster
    from tidepool.cli.runs.verbs import VerbServer
    from tidepool.clients.slurm import Slurm
    from tidepool.cluster.spec_reading import read_spec
    from tidepool.runs.cluster_files import ClusterFiles
    from tidepool.runs.credentials import ControllerCredentials
    from tidepool.runs.drive import drive
    from tidepool.runs.feasibility import user_of
    from tidepool.runs.ports import Parties
    from tidepool.runs.results import open_store
    from tidepool.runs.results.records import StoredRecords
    from tidepool.runs.slurm_jobs import SlurmJobs
    from tidepool.runs.workload import Workload

    workload = Workload.model_validate(run.order.workload)
    # Before there is another thread.
    verbs = VerbServer.start(stack)
    spec = read_spec(run.order.spec)
    user = user_of(workload, spec)
    folder = f"/home/{user}/{run.id}"
    credentials = None
    if spec.run_service is not None:
        credentials = ControllerCredentials(store, run, workload, user, folder, spec.run_service)
    log = stack.data / RUNS / f"{run.id}.log"
    cluster = StackCluster(stack, spec, run.order.at, log, verbs, credentials)
    login = _LoginMachine(stack)
    progress = _Progress(as_json)
    parties = Parties(
        cluster,
        SlurmJobs(Slurm(login), workload, user, folder),
        ClusterFiles(
            *(login, user, folder, run.id, workload, store),
            open_input=lambda url: open_store(url, stack.context.env),
            sent=progress.sent,
        ),
        StoredRecords(store),
    )
    try:
        ended = drive(
            run,
            workload,
            parties,
            journal,
            now=lambda: datetime.now(UTC),
            wait=time.sleep,
            told=progress,
        )
    finally:
        cluster.close()
        login.close()
    # One of which nothing was made has no step in which it would go.
    cluster.remove_file()
    return ended


class _Progress:
    """Changes as events on standard output, or as lines on standard error: on a terminal as one that is written again."""

    def __init__(self, as_json: bool) -> None:
        self._as_json, self._last = as_json, ""
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._before: Run | None = None
        self._sent: Counter[str] = Counter()
        self._told_sent = time.monotonic()
        self._lock = Lock()

    def __call__(self, run: Run) -> None:
        now = datetime.now(UTC)
        if self._as_json:
            for event in events(self._before, run, now):
                click.echo(json.dumps(event))
        elif self._is_terminal:
            self._rewrite(run, now)
        elif (text := line(run, run.order.at)) != self._last:
            # That time goes on is no news.
            self._last = text
            show.tell(line(run, now))
        self._before = run

    def sent(self, output: Output, size: int) -> None:
        """Hear of bytes of an output that are kept, in any thread; they are shown once in a while."""
        with self._lock:
            self._sent[output.path] += size
            if (run := self._before) is None or time.monotonic() - self._told_sent < _SENT_S:
                return
            self._told_sent, now = time.monotonic(), datetime.now(UTC)
            if self._as_json:
                click.echo(json.dumps(sent_event(run, now, self._sent.total())))
            elif self._is_terminal:
                self._rewrite(run, now)

    def _rewrite(self, run: Run, now: datetime) -> None:
        width = shutil.get_terminal_size().columns - 1
        text = line(run, now, self._sent.total())[:width]
        click.echo(f"\r{text:<{width}}", nl=not run.is_under_way, err=True)


class _LoginMachine:
    """The first login machine of a stack, which is found when it is asked first."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._found: Transport | None = None

    @property
    def where(self) -> str:
        return self._found.where if self._found else f"on the login machine of {self._stack.name}"

    def run(self, argv: Any, *, stdin: str = "", timeout_s: float) -> Completed:
        if self._found is None:
            from tidepool.cli.cluster import parse_outputs
            from tidepool.clients.transport import Unreachable
            from tidepool.infrastructures.connection import transport

            outputs = self._stack.outputs()
            logins = parse_outputs(self._stack.name, outputs).logins if outputs else ()
            if not logins:
                raise Unreachable("there is no login machine", where=self.where, remedy="give the spec one")
            self._found = transport(logins[0], self._stack.data)
        return self._found.run(argv, stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        if self._found is not None:
            self._found.close()

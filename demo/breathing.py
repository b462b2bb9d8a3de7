"""Submits the waves, shows what comes of them until all jobs have ended and all nodes are gone, and finds what is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from typing import Final

from rich.console import Console
from rich.live import Live

from demo.shown import Shown
from demo.workload import PROGRAMS, SCRIPTS, DemoJob, Stamp, Wave, waves
from tidepool.cli.explain.watch_view import WatchView
from tidepool.clients.slurm import Completed, Job, JobState, Slurm, Transport
from tidepool.cluster.user_files import FOLDER
from tidepool.scaling.decision import Phase
from tidepool.scaling.ports import Intent, Journal, Sample

_CALL_S: Final = 30.0
#: Longer than all jobs may take, and longer than nodes may take to go when they have ended.
_JOBS_S: Final = 240.0
_GONE_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.25
_USERS: Final = 2


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
    """A job that was submitted, at which time (in seconds since the epoch), and its records as Slurm has them now."""

    job: DemoJob
    job_id: int
    submitted_s: float
    records: tuple[Job, ...] = ()

    @property
    def has_ended(self) -> bool:
        return bool(self.records) and all(record.state.has_ended for record in self.records)

    def states(self) -> Mapping[JobState, int]:
        """Return how many of its tasks are in which state."""
        counts: dict[JobState, int] = {}
        for record in self.records:
            counts[record.state] = counts.get(record.state, 0) + record.size
        return counts


@dataclass(frozen=True, slots=True)
class Breathed:
    """Outcome of the demo: jobs with their outputs, and what the scaler wrote down."""

    ran: tuple[Ran, ...]
    #: The nodes that are left, and how many there may be, which fleets always have.
    left: tuple[str, ...]
    floor: int
    intents: tuple[Intent, ...]
    samples: tuple[Sample, ...]
    outputs: Mapping[str, str]
    #: Account, user, and the part of the cluster that is the account's; of a cluster without accounts none.
    shares: tuple[tuple[str, str, str], ...] = ()

    @property
    def stamps(self) -> tuple[tuple[float, Stamp], ...]:
        """When each small task was submitted, and what it said."""
        found = []
        for each in self.ran:
            for name in each.job.stamped:
                try:
                    found.append((each.submitted_s, Stamp.parse(self.outputs.get(name, ""))))
                except ValueError:
                    continue  # its verdict tells of it
        return tuple(found)

    @property
    def said(self) -> Sequence[str]:
        """Return what the ranks on two nodes say of the way between them."""
        return self.outputs.get("pingpong.out", "").splitlines()[:1]


def breathe(
    login: Transport, journal: Journal, stack: str, console: Console, most_waves: int | None
) -> Breathed:
    """Run the workload from ``login``, until its nodes are gone.

    Raises:
        SlurmError: Slurm does not answer.
        JournalError: the journal cannot be read.
    """
    users = [AsUser(login, name) for name in user_names(login)[:_USERS]]
    began = datetime.now(UTC)
    with ExitStack() as open_ones:
        slurms = [open_ones.enter_context(Slurm(user)) for user in users]
        folders = [_put_programs(user) for user in users]
        live = open_ones.enter_context(Live(console=console, auto_refresh=False, transient=True))
        shown = _Watched(Shown(live, journal, stack))
        ran = _submit_and_wait(slurms, waves(folders, most_waves), shown)
        left, floor = _until_gone(slurms[0], journal, began, ran, shown)
    names = [name for each in ran for name in each.job.outputs]
    return Breathed(
        ran,
        left,
        floor,
        journal.intents(since=began, limit=10_000),
        journal.samples(since=began),
        {name: text for folder in folders for name, text in outputs(login, folder, names).items()},
        _shares(login),
    )


def user_names(login: Transport) -> list[str]:
    """Return the names of the cluster's users, in the order of their numbers."""
    return [line.partition(":")[0] for line in run(login, ["cat", f"{FOLDER}/passwd"]).splitlines()]


def _shares(login: Transport) -> tuple[tuple[str, str, str], ...]:
    """By account and user the account's part of the cluster; nothing where there are no accounts."""
    asked = ["sshare", "--all", "--parsable2", "--noheader", "--format=Account,User,NormShares"]
    lines = [line.split("|") for line in login.run(asked, timeout_s=_CALL_S).stdout.splitlines()]
    parts = {account.strip(): share for account, user, share in lines if not user}
    return tuple(
        (name, user, parts[name])
        for account, user, _ in lines
        if user and (name := account.strip()) != "root"
    )


def complaints(breathed: Breathed) -> Iterator[str]:
    """Return all that is not as it should be."""
    for each in breathed.ran:
        job, states = f"job {each.job_id} ({each.job.what})", each.states()
        said = {name: breathed.outputs.get(name, "") for name in each.job.outputs}
        if set(states) != {JobState.COMPLETED}:
            counts = ", ".join(f"{count} {state}" for state, count in states.items())
            why = "".join(f"\n{name} says: {text}" for name, text in said.items() if text)
            yield f"{job} is {counts}, not COMPLETED{why}"
            continue
        if any(record.restarts for record in each.records):
            yield f"{job} was begun more than once"
        if verdict := each.job.verdict(said):
            yield f"{job}: {verdict}"
    if len(breathed.left) > breathed.floor:
        yield f"nodes are left: {', '.join(breathed.left)}"


@dataclass(slots=True)
class _Watched:
    """The live view, and what it shows; ``nodes`` is how many there were at the last look."""

    shown: Shown
    nodes: int = 0

    def look(self, ran: Sequence[Ran], *, is_last: bool = False) -> None:
        view = self.shown.view()
        self.nodes = sum(fleet.there for fleet in view.fleets)
        self.shown.show(view, [*map(_progress, ran)], _line(view, ran), is_last=is_last)


def _submit_and_wait(slurms: Sequence[Slurm], workload: Sequence[Wave], shown: _Watched) -> tuple[Ran, ...]:
    begun_s = time.monotonic()
    ran: list[Ran] = []
    for wave, slurm in zip(workload, cycle(slurms), strict=False):
        while (passed_s := time.monotonic() - begun_s) < wave.at_s or (passed_s < wave.by_s and shown.nodes):
            ran = _look_at(slurm, ran, shown)
        for job in wave.jobs:
            submitted_s = time.time()
            ran.append(Ran(job, slurm.submit(job.request).job_id, submitted_s))
    while not all(each.has_ended for each in ran) and time.monotonic() - begun_s < _JOBS_S:
        ran = _look_at(slurms[0], ran, shown)
    return tuple(ran)


def _look_at(slurm: Slurm, ran: Sequence[Ran], shown: _Watched) -> list[Ran]:
    found = [each if each.has_ended else replace(each, records=slurm.job(each.job_id)) for each in ran]
    shown.look(found)
    time.sleep(_LOOK_AGAIN_S)
    return found


def _until_gone(
    slurm: Slurm, journal: Journal, began: datetime, ran: Sequence[Ran], shown: _Watched
) -> tuple[tuple[str, ...], int]:
    """The nodes that are left when all that nobody needs is gone, and how many fleets always have."""
    begun_s = time.monotonic()
    while True:
        look = journal.last_look()
        fleets = look.spec.fleets if look else ()
        floor = sum(fleet.min_nodes for fleet in fleets)
        left = tuple(node.name for node in slurm.nodes() if not node.state.is_slot)
        # A node leaves Slurm before its machine is gone, and the chart ends with a point that has neither.
        points = journal.samples(since=began)
        is_seen = bool(points) and sum(points[-1].nodes.values()) <= floor
        is_done = len(left) <= floor and is_seen and not journal.open_intents()
        patience_s = _GONE_S + max((fleet.idle_timeout_s for fleet in fleets), default=0)
        is_over = is_done or time.monotonic() - begun_s > patience_s
        shown.look(ran, is_last=is_over)
        if is_over:
            return left, floor
        time.sleep(_LOOK_AGAIN_S)


def _progress(each: Ran) -> str:
    states = "  ".join(f"{count} {state}" for state, count in each.states().items())
    return f"{each.job_id:>6}  {each.job.what:<46} {states}"


def _line(view: WatchView, ran: Sequence[Ran]) -> str:
    done = sum(each.states().get(JobState.COMPLETED, 0) for each in ran)
    queue = view.queue
    jobs = f"{queue.waits} waiting, {queue.running} running" if queue else "nobody has looked yet"
    fleets = []
    for fleet in view.fleets:
        phases = ", ".join(f"{fleet.phases[phase]} {phase.value}" for phase in Phase if phase in fleet.phases)
        fleets.append(f"{fleet.name}: {phases or 'no node'}")
    return f"{jobs}, {done} completed | {'; '.join(fleets)}"


def _put_programs(login: Transport) -> str:
    """A new folder in the user's home, with what the jobs start."""
    folder = new_folder(login)
    for name in PROGRAMS:
        run(login, ["tee", f"{folder}/{name}"], stdin=(SCRIPTS / name).read_text())
    return folder


def new_folder(login: Transport) -> str:
    """One of its own in the user's home."""
    return run(login, ["sh", "-c", 'mktemp --directory "$HOME/demo-XXXXXX"']).strip()


def outputs(login: Transport, folder: str, names: Sequence[str]) -> Mapping[str, str]:
    """Return what stands in the files; one that is not there is missing."""
    there = {*run(login, ["ls", folder]).split()}
    return {name: run(login, ["cat", f"{folder}/{name}"]).strip() for name in names if name in there}


def run(login: Transport, argv: Sequence[str], stdin: str = "") -> str:
    """Return what a command says that must succeed."""
    done = login.run(argv, stdin=stdin, timeout_s=_CALL_S)
    if done.exit_code:
        raise SystemExit(f"{argv[0]} failed {login.where}: {done.stderr.strip()}")
    return done.stdout

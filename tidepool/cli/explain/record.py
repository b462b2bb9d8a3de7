"""A stack's scaler at one moment: the record that `watch` and `why` are worked out of, and how the daemon is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from tidepool.cli.cluster import require_cluster
from tidepool.cli.show import ago, between, clock
from tidepool.cli.stack import Stack, has_journal, scaler_folder
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision
from tidepool.scaling.journal import open_journal
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Intent, Journal, Lease, Look, Pause, Sample, Trouble

#: So many actions are shown at most.
_INTENTS: Final = 100
#: Points of the charts of the last while: the newest one is shown.
_SAMPLES_S: Final = 120


@dataclass(frozen=True, slots=True)
class Record:
    """The content of the journal of ``stack`` at ``now``, whose zone is the one that times are told in.

    ``is_afresh`` says that ``look`` is no daemon's: it was observed and decided at this moment, and nothing done.
    ``intents`` are the last that were written down, the newest first; ``open_intents`` all without a result.
    """

    stack: str
    now: datetime
    leader: Lease | None = None
    pause: Pause | None = None
    look: Look | None = None
    intents: tuple[Intent, ...] = ()
    open_intents: tuple[Intent, ...] = ()
    sample: Sample | None = None
    trouble: Trouble | None = None
    is_afresh: bool = False

    @property
    def runs(self) -> bool:
        """A daemon has the lease."""
        return self.leader is not None and self.leader.is_held and self.leader.until > self.now

    @property
    def decision(self) -> Decision | None:
        return self.look.decision if self.look else None

    @property
    def memory(self) -> Memory:
        """The memory that the newest decision left; an empty one where there is none."""
        return self.decision.memory if self.decision else Memory()

    @property
    def decided(self) -> datetime | None:
        return self.decision.at if self.decision else None

    @property
    def state(self) -> ClusterState | None:
        """The newest observation, where it was not too large to be kept."""
        return self.look.state if self.look else None

    @property
    def spec(self) -> ClusterSpec | None:
        """The spec that the newest decision was made with."""
        return self.look.spec if self.look else None

    def fleet(self, name: str) -> Fleet | None:
        fleets = self.spec.fleets if self.spec else ()
        return next((fleet for fleet in fleets if fleet.name == name), None)

    def recomputed(self, state: ClusterState, decision: Decision) -> Record:
        """Return the record with what was observed and decided now in place of a daemon's look."""
        now = max(self.now, state.at.astimezone(self.now.tzinfo))
        return replace(self, now=now, look=Look(0, state.spec, decision, state), is_afresh=True)


def read_record(journal: Journal, stack: str, now: datetime) -> Record:
    """Read the record that `watch` shows from ``journal``.

    Raises:
        JournalError: it cannot be read.
    """
    samples = journal.samples(since=now - timedelta(seconds=_SAMPLES_S))
    return Record(
        stack=stack,
        now=now,
        leader=journal.leader(),
        pause=journal.paused(),
        look=journal.last_look(),
        intents=journal.intents(limit=_INTENTS),
        open_intents=journal.open_intents(),
        sample=samples[-1] if samples else None,
        trouble=journal.trouble(),
    )


#: A look that is older is told as such.
STALE_S: Final = 15.0

#: `late`: it lives, and has not looked for a while. `stopped`: its lease has ended. `never`: none ever ran.
State = Literal["runs", "late", "stopped", "never"]

#: What mends it where no daemon runs.
START: Final = "`tidepool scale` starts it"


@dataclass(frozen=True, slots=True)
class Health:
    """``words`` say how the daemon is, ``paused`` who paused it (else empty), ``age_s`` how old the newest look is."""

    state: State
    words: str
    remedy: str = ""
    paused: str = ""
    #: What the daemon complains of.
    trouble: tuple[str, ...] = ()
    age_s: float | None = None
    holder: str = ""
    epoch: int = 0

    @property
    def is_stale(self) -> bool:
        """The newest look is older than it should be."""
        return self.age_s is not None and self.age_s > STALE_S

    @property
    def is_well(self) -> bool:
        """The daemon runs, is not paused, and complains of nothing."""
        return self.state == "runs" and not self.paused and not self.trouble


def health(record: Record) -> Health:
    """Judge how the daemon of ``record`` is."""
    decision, leader = record.decision, record.leader
    age_s = (record.now - decision.at).total_seconds() if decision else None
    state, words, remedy = _state(record, age_s)
    return Health(
        state,
        words,
        remedy,
        _paused(record),
        record.trouble.complaints if record.trouble and record.runs else (),
        age_s,
        leader.holder if leader else "",
        leader.epoch if leader else 0,
    )


def _state(record: Record, age_s: float | None) -> tuple[State, str, str]:
    leader, decision, now = record.leader, record.decision, record.now
    if leader is None:
        return "never", "no daemon has run for this stack yet", START
    who = f"{who_leads(leader)}, epoch {leader.epoch}"
    if not leader.is_held:
        looked = f", and looked last {ago(decision.at, now)}" if decision and not record.is_afresh else ""
        return "stopped", f"the daemon does not run: it was ended{looked} ({who})", START
    if not record.runs:
        return "stopped", f"the daemon does not run: its lease ended {ago(leader.until, now)} ({who})", START
    if record.is_afresh:
        return "runs", f"the daemon runs ({who})", ""
    if decision is None or age_s is None:
        return "late", f"the daemon has begun, and has not decided yet ({who})", ""
    if age_s > STALE_S:
        words = f"the daemon lives and has not looked for {between(decision.at, now)} ({who})"
        return "late", words, "" if record.trouble else "`tidepool status` says whether Slurm answers"
    return "runs", f"the daemon runs ({who}), and looked {ago(decision.at, now)}", ""


def who_leads(leader: Lease) -> str:
    """``ctl/77``: the host and the process; by the rest of a holder's name, processes are told apart."""
    return "/".join(leader.holder.split("/")[:2])


def _paused(record: Record) -> str:
    if record.pause is None:
        return ""
    why = f": {record.pause.reason}" if record.pause.reason else ""
    since = clock(record.pause.since, record.now)
    return f"paused by {record.pause.by} since {since}{why}; it looks and decides, and acts on nothing"


class Source:
    """The journal of ``stack``, opened when it is there: a daemon may make it meanwhile."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._journal: Journal | None = None
        self._is_known = False

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    @property
    def journal(self) -> Journal | None:
        """The journal; None where no daemon has made it yet.

        Raises:
            JournalError: it cannot be opened, a newer release wrote it, ...
            Failure: there is none, and the cluster is not up either.
        """
        stack = self._stack
        if self._journal is None:
            if has_journal(stack):
                self._journal = open_journal(scaler_folder(stack), stack.context.env, stack=stack.name)
            elif not self._is_known:
                require_cluster(stack)
            self._is_known = True
        return self._journal

    def read(self) -> Record:
        """Read the record as it is now.

        Raises:
            JournalError: it cannot be read.
            Failure: as for `journal`.
        """
        now = datetime.now(UTC).astimezone()
        journal = self.journal
        return read_record(journal, self._stack.name, now) if journal else Record(self._stack.name, now)

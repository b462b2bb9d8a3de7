"""Interfaces of the daemon: the stack that it changes and the journal that it writes.

Slurm is `SlurmClient`, machines are `tidepool.infrastructures.Infrastructure`, the clock is a function that gives the
time in UTC.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.boot_times import LaunchPhase
from tidepool.scaling.cluster_state import ClusterState, Recorded, RecordedRole
from tidepool.scaling.decision import Action, Cost, Decision, Phase, Waiting, WaitingPod
from tidepool.scaling.memory import Cause, Memory

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()

# The stack


class StackError(Exception):
    """Nothing is known of what the stack's operation came to, or it did not begin. The text is for a person."""


class Occupied(StackError):
    """Somebody else's operation is under way on the stack. It is waited for and never cancelled."""


class NotUp(StackError):
    """There is no cluster: it was never brought up, or it was taken down."""


@dataclass(frozen=True, slots=True)
class StackOutputs:
    """The stack as its outputs and state have it. ``version`` changes when either does."""

    version: str
    #: What a person brought up last: edits of the file that were not brought up are not in it.
    spec: ClusterSpec
    #: The connection to slurmctld's machine, for `tidepool.infrastructures.connection.transport`.
    controller: Mapping[str, Any]
    #: By fleet, as the outputs say it.
    fleets: Mapping[str, HostSet]
    #: By node name.
    recorded: Mapping[str, Recorded]
    #: By fleet: the digest of its image.
    images: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    #: By node name, the machines of converged pools.
    roles: Mapping[str, RecordedRole] = field(default_factory=lambda: _NOTHING)
    #: By node name: its machine's connection, for `tidepool.infrastructures.connection.transport`.
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _NOTHING)
    #: The output `kubernetes`, by which its API is reached; empty where there are no pools.
    kubernetes: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    #: By fleet, machines of no node that are kept suspended, as the outputs say it.
    suspended: Mapping[str, HostSet] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a node was not made or not taken away."""

    cause: Cause
    text: str


@dataclass(frozen=True, slots=True)
class UpOutcome:
    """The outcome of an `up`, by node. Nodes that were asked for and are in none of these were as they should be."""

    made: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    failed: Mapping[str, Failure] = field(default_factory=lambda: _NOTHING)
    duration_s: float = 0
    #: Those that were made, and whose machines run, but that are not up yet: the `up` did not wait for them.
    coming: frozenset[str] = frozenset()


class Stack(Protocol):
    """One stack, through `pulumi.automation`."""

    def read(self) -> StackOutputs:
        """Return what it says now. Quick where nothing changed.

        Raises:
            NotUp: there is no cluster.
            StackError: it cannot be read.
        """
        ...

    def up(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = _NOTHING,
        refresh: Collection[str] = (),
        suspended: Mapping[str, HostSet] = _NOTHING,
    ) -> UpOutcome:
        """Make ``nodes``, and those alone, as ``desired`` says: there or gone. The rest of the stack is left as it is.

        ``suspended`` are, by fleet, all of whose machines are kept suspended, though they are not desired: ``nodes`` among them
        are gone to Slurm alone. Of nodes of fleets on several infrastructures ``locations`` says where they are to be, by key: those that are there stay
        where they are. Those in ``refresh`` are looked at first, so that what died is made again. One that fails holds back
        no other.

        Raises:
            Occupied: somebody else's operation is under way; nothing was done.
            StackError: it did not come to its end; `read` tells how far it came.
        """
        ...

    def convert(
        self, kubernetes: Mapping[str, HostSet], nodes: Collection[str], *, refresh: Collection[str] = ()
    ) -> UpOutcome:
        """Have ``nodes``, machines of converged pools, serve what they should, and leave all else as it is.

        They serve Kubernetes where ``kubernetes`` (by pool, all that do) has them, else Slurm. Those in ``refresh`` are
        looked at first, for the state may not know what they are. ``made`` are those whose role was changed; one that
        stays what it was, or has no role, has failed. How each does it stands in the journal of conversions.

        Raises:
            Occupied: somebody else's operation is under way; nothing was done.
            StackError: it did not come to its end; `read` tells how far it came.
        """
        ...

    def is_busy(self) -> bool:
        """Return whether an operation is under way, whoever's it is, as far as can be seen from here."""
        ...

    def preview(
        self,
        desired: Mapping[str, HostSet],
        nodes: Collection[str],
        *,
        locations: Mapping[str, str] = _NOTHING,
        suspended: Mapping[str, HostSet] = _NOTHING,
    ) -> str:
        """Return what `up` would do, in Pulumi's words, for people.

        Raises:
            StackError: as for `up`.
        """
        ...


# The journal


class JournalError(Exception):
    """The journal cannot be read or written: disk full, a database that does not answer. The daemon holds still."""


class Fenced(JournalError):
    """Another daemon has the lease, with a later epoch. Nothing was written; whoever gets this does nothing more."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act, until ``until``. Each holder after another has a higher ``epoch``.

    One that was let go of before its end is not ``is_held``.
    """

    holder: str
    epoch: int
    until: datetime
    is_held: bool = True


@dataclass(frozen=True, slots=True)
class Kept:
    """The point at which the last daemon was."""

    #: None before the first decision: then the stack's outputs say it.
    desired: Mapping[str, HostSet] | None = field(default=None, metadata={"stored_as": "wish"})
    memory: Memory = field(default_factory=Memory)
    #: Requests of Slurm's power saving that are not carried out yet.
    power_up: frozenset[str] = frozenset()
    power_down: frozenset[str] = frozenset()
    #: Of the stack, when it was read last: in one of the same version nobody has changed anything since.
    version: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """The daemon observes and decides, and acts on nothing."""

    by: str
    since: datetime
    reason: str = ""


Result = Literal["", "done", "failed", "overtaken"]
"""Of an intent: open; carried out; it failed; the cluster had changed before it was carried out, so it was not."""


@dataclass(frozen=True, slots=True)
class Intent:
    """An action that was written down before it was carried out, and what it came to."""

    id: int
    decision: int
    epoch: int
    at: datetime
    action: Action
    result: Result = ""
    ended: datetime | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of the past. ``state`` and ``memory`` are what it was made of.

    They are None where that was too large to be kept whole (about 5,000 jobs), or is of a release with other fields.
    ``counts`` are there always: how many ``jobs``, ``nodes``, ``machines`` and ``pods`` there were.
    """

    id: int
    epoch: int
    at: datetime
    actions: tuple[Action, ...]
    waiting: Mapping[int, Waiting]
    cost: Cost
    state: ClusterState | None = field(default=None, metadata={"stored_as": "world"})
    memory: Memory | None = None
    counts: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    waiting_pods: Mapping[str, WaitingPod] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Look:
    """The leader's newest look, and what it made of it: what people are shown, so that showing costs Slurm nothing.

    ``state`` is None where it was too large to be kept whole; its spec is kept always. ``decision.at`` is when it was
    looked.
    """

    epoch: int
    spec: ClusterSpec
    decision: Decision
    state: ClusterState | None = field(default=None, metadata={"stored_as": "world"})


@dataclass(frozen=True, slots=True)
class Trouble:
    """Complaints of the leader, in words for people, and since when: for that it holds still, or in part."""

    since: datetime
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A point of the charts. ``nodes`` counts by phase; ``jobs_*`` count tasks of arrays each.

    Of converged pools: ``roles`` counts machines by ``POOL/slurm``, ``POOL/kubernetes`` and ``POOL/`` (on their way, or
    not known), ``pods_pending`` the pods that wait for a node.
    """

    at: datetime
    jobs_pending: int
    jobs_running: int
    nodes: Mapping[Phase, int]
    usd_per_hour: float = 0
    roles: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    pods_pending: int = 0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it went by, for `replay`. Of one that waited on an array's record, each task is one."""

    job_id: int
    submitted: datetime
    started: datetime | None
    ended: datetime | None
    #: As the queue told it, the fields of `tidepool.clients.slurm.Job` that say what it asks for.
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """A node that was launched and came up: when it was asked for, when it was in service, when each phase between began.

    ``began`` has ``asked``; phases that nobody can tell of are missing. ``first_job`` is when the first job began on it,
    where the daemon saw that.
    """

    node: str
    fleet: str
    infrastructure: str
    registered: datetime
    began: Mapping[LaunchPhase, datetime]
    first_job: datetime | None = None

    @property
    def since(self) -> datetime:
        """When it was asked for."""
        return self.began["asked"]


class LeaderJournal(Protocol):
    """The journal as the daemon uses it.

    Every writing call of the leader names its lease, and is refused with `Fenced` when there is a later epoch.
    All may raise `JournalError`. Reading needs no lease, and works while another process writes.
    """

    def acquire(self, holder: str, now: datetime, lasting_s: float) -> Lease | None:
        """The lease: the same epoch where ``holder`` has it still, the next one where nobody does; None: another has."""
        ...

    def release(self, lease: Lease) -> None:
        """Let go of it, so that another need not wait for its end."""
        ...

    def leader(self) -> Lease | None:
        """Return who had it last, expired, let go of or not."""
        ...

    def kept(self) -> Kept:
        """Return the point at which the last daemon was."""
        ...

    def decided(
        self, lease: Lease, state: ClusterState, before: Memory, decision: Decision
    ) -> tuple[Intent, ...]:
        """Write a decision down, with an open intent for each of its actions; the intents, in their order.

        With it goes what it was made of (``before`` is the memory it was given), and what it desires and the memory that it
        leaves. All of it or nothing.
        """
        ...

    def looked(self, lease: Lease, state: ClusterState, decision: Decision) -> None:
        """Write down what was seen last and what was made of it, in place of what was there.

        For every look, also where nothing is to be done: by it people know that the daemon lives. Where only the time
        has changed since the last one, only that is written.
        """
        ...

    def troubled(self, lease: Lease, trouble: Trouble | None) -> None:
        """Write down what the leader complains of, in place of what it did; None: of nothing any more."""
        ...

    def write_kept(self, lease: Lease, kept: Kept) -> None:
        """Write down where the daemon is, without a decision."""
        ...

    def ended(self, lease: Lease, intents: Sequence[Intent]) -> None:
        """Write down what intents came to: their ``result``, ``ended`` and ``text``."""
        ...

    def sample(self, lease: Lease, sample: Sample) -> None:
        """Add a point to the charts."""
        ...

    def saw(self, lease: Lease, jobs: Sequence[JobRecord]) -> None:
        """Write down jobs as they are known by now; the same job again is brought up to date."""
        ...

    def launched(self, lease: Lease, launches: Sequence[LaunchRecord]) -> None:
        """Write down launches that came to their end; the same one again is brought up to date."""
        ...

    def paused(self) -> Pause | None:
        """Return who stopped the daemon from acting, if anybody did."""
        ...

    def open_intents(self) -> tuple[Intent, ...]:
        """Return those without a result, oldest first: where a daemon that was killed goes on."""
        ...

    def jobs(self, since: datetime | None = None, *, job_id: int | None = None) -> tuple[JobRecord, ...]:
        """By submission: all, or those of one number, which Slurm gives again when it has lost its state."""
        ...

    def launches(self, since: datetime | None = None) -> tuple[LaunchRecord, ...]:
        """Return launches that came to their end, by when they were asked for, the oldest first."""
        ...

    def prune(self, lease: Lease, before: datetime) -> None:
        """Forget what is older, but for open intents and what is kept."""
        ...


class Journal(LeaderJournal, Protocol):
    """The scaler's journal, durable: a file beside the stack, or a database that several daemons share."""

    def pause(self, pause: Pause | None) -> None:
        """A person stops the daemon from acting, or (None) lets it go on. Needs no lease."""
        ...

    def last_look(self) -> Look | None:
        """Return what was `looked` last."""
        ...

    def trouble(self) -> Trouble | None:
        """Return what the leader complains of."""
        ...

    def decisions(self, since: datetime | None = None, limit: int = 100) -> tuple[Decided, ...]:
        """The newest first."""
        ...

    def intents(
        self, *, node: str = "", fleet: str = "", since: datetime | None = None, limit: int = 100
    ) -> tuple[Intent, ...]:
        """Return those about a node or a fleet, or all; the newest first."""
        ...

    def samples(self, since: datetime | None = None) -> tuple[Sample, ...]:
        """The oldest first."""
        ...

    def close(self) -> None:
        """Let go of it. Twice is no mistake."""
        ...

"""Slurm as it sees one machine of a pool: the port `Side`, over any client of Slurm.

A drain of a person's is never undone: who orders a conversion in spite of it ends it with the node, which is told, and
the node that comes back is not drained. Measured with 22.05.8: a node that is FUTURE loses its drain and its reason.

Slurm does not say which controller is in charge. Measured with 22.05.8: the primary is, whenever it answers. One that a backup
takes over from ends, with exit code 0, and one that is started again takes control back within two seconds; a backup that
answers may only stand by. So who is in charge is the first that answers, given that Slurm answered at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from tidepool.clients.slurm import (
    Controller,
    Job,
    JobState,
    Node,
    NodeBase,
    NodeFlag,
    NotFound,
    Refused,
    SlurmClient,
    SlurmError,
)
from tidepool.cluster.hostlist import expand
from tidepool.cluster.roles import Role
from tidepool.conversion.ports import OUR_HOLD, ConversionError, Sight, Verdict
from tidepool.conversion.ports import Refused as NeverDone
from tidepool.conversion.record import Work

_UP: Final = frozenset({NodeBase.IDLE, NodeBase.ALLOCATED, NodeBase.MIXED})
_AWAY: Final = frozenset(
    {
        NodeFlag.INVALID_REG,
        NodeFlag.NOT_RESPONDING,
        NodeFlag.POWERED_DOWN,
        NodeFlag.POWERING_DOWN,
        NodeFlag.POWERING_UP,
        NodeFlag.REBOOT_ISSUED,
    }
)
#: What a job is in that has a node. One that was put back into the queue and still ends is PENDING to squeue's filter.
_ON_NODES: Final = (
    JobState.COMPLETING,
    JobState.CONFIGURING,
    JobState.RESIZING,
    JobState.RUNNING,
    JobState.SIGNALING,
    JobState.STAGE_OUT,
    JobState.STOPPED,
    JobState.SUSPENDED,
)
#: A job that is still ending so long after it was told to, in seconds, is one whose slurmd does not end it.
_ENDING_S: Final = 60.0
#: So long may a primary take to end that was told to: it saves its state.
_ENDS: Final = timedelta(seconds=30)


class SlurmSide:
    """The node ``node`` of the Slurm that ``slurm`` reaches. See `Side` for what each call does."""

    role: Role = "slurm"

    def __init__(
        self, slurm: SlurmClient, node: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._slurm, self._name, self._now = slurm, node, now
        #: As `see` saw it, for the calls that follow it at once.
        self._seen: Node | None = None
        self._forced: datetime | None = None
        #: slurm.conf names its controllers, and they do not change while a machine moves.
        self._is_ordinary = False
        self._handed_over: datetime | None = None

    def see(self) -> Sight:
        with _said():
            node = self._seen = self._look()
        if node is None or node.state.is_slot:
            return "absent"
        if node.state.base not in _UP or node.state.flags & _AWAY:
            return "joining"
        return "held" if _is_held(node) else "serving"

    def held_by(self) -> str:
        with _said():
            node = self._seen or self._look()
        if node is None or not _is_held(node) or is_our_hold(node):
            return ""
        reason = node.reason
        if reason is None:
            return "somebody"
        return f"{reason.user or 'somebody'} ({reason.text})"

    def hold(self, reason: str) -> None:
        with _said():
            node = self._look()
            if node is None or node.state.is_slot or node.state.is_draining:
                return
            # One that is down gets no work, and keeps the reason that it is down for: a person's, it may be.
            if node.state.base is not NodeBase.DOWN:
                self._slurm.drain(self._name, reason)

    def release(self) -> None:
        with _said():
            node = self._look()
            if node is None or node.state.is_slot or not is_our_hold(node):
                return
            if node.state.base is NodeBase.DOWN:
                self._resume()
            elif node.state.is_draining:
                self._slurm.undrain(self._name)

    #: The same, as far as it has come: slurmd registers by itself.
    admit = release

    def work(self) -> tuple[Work, ...]:
        with _said():
            # Drained and without jobs in one look is without jobs for good; else it is looked at after the hold.
            node, self._seen = self._seen or self._look(), None
            if node is None or node.state.is_slot:
                return ()
            jobs = self._jobs(node)
        if not jobs and _is_busy(node):
            # It may have ended between the two looks, or be one that 22.05 counts and does not list.
            return (Work("job", "", "", text="Slurm holds the node for busy, and lists none"),)
        return tuple(Work("job", str(job.job_id), job.user, text=self._until(job)) for job in jobs)

    def ask_to_leave(self, work: Collection[Work]) -> None:
        """Jobs are waited for."""

    def force_out(self, work: Collection[Work], reason: str) -> tuple[Work, ...]:
        named = {each.name for each in work}
        with _said():
            node = self._look()
            if node is None or node.state.is_slot:
                return ()
            self._forced = self._forced or self._now()
            running = [job for job in self._jobs(node) if job.state is not JobState.COMPLETING]
            done = [self._take_away(job, reason) for job in running if str(job.job_id) in named]
            waited = self._now() - self._forced
            if not running and (
                NodeFlag.NOT_RESPONDING in node.state.flags or waited.total_seconds() > _ENDING_S
            ):
                # Its slurmd does not say that they have ended. A node that is down has none.
                self._slurm.down(self._name, f"{OUR_HOLD}: {reason}")
            return tuple(done)

    def prepare(self) -> None:
        with _said():
            if self._look() is None:
                raise ConversionError(
                    f"Slurm knows no node {self._name}; `tidepool up` declares the slots of its pool"
                )

    def remove_node(self) -> None:
        with _said():
            node = self._look()
            if node is None or node.state.is_slot:
                return
            if jobs := self._jobs(node):
                listed = ", ".join(str(job.job_id) for job in jobs)
                raise ConversionError(f"Slurm still has the jobs {listed} on {self._name}")
            if node.state.runs_jobs:
                # 22.05 may hold a node for allocated that runs nothing, as after a reconfigure.
                self._slurm.down(self._name, f"{OUR_HOLD}: it runs nothing")
            self._slurm.to_future(self._name)

    def verdict(self) -> Verdict:
        """See `Side`. An ordinary machine costs a ping, once."""
        if self._is_ordinary:
            return Verdict()
        with _said():
            found = self._slurm.ping()
        members = frozenset(map(_host, found))
        if self._name not in members:
            self._is_ordinary = True
            return Verdict()
        up = [_host(each) for each in found if each.is_up]
        if self._name in up and not found[0].is_up and len(up) > 1:
            raise ConversionError(
                f"slurmctld of {_host(found[0])}, the primary, does not answer, and of the backups {', '.join(up)} "
                "Slurm does not say which is in charge; start the primary, or stop all but one of them"
            )
        with _said():
            leaving = {
                node.name for node in self._slurm.nodes() if node.state.is_draining and is_our_hold(node)
            }
        return controllers_verdict(self._name, frozenset(up) - (leaving - {self._name}), up[0] if up else "")

    def hand_over(self) -> None:
        """See `Side`. Once: each time is an outage of seconds."""
        now = self._now()
        if self._handed_over is None:
            with _said():
                self._slurm.takeover()
            self._handed_over = now
        elif now - self._handed_over > _ENDS:
            raise NeverDone(
                f"a backup took over from slurmctld of {self._name}, which answers again: what supervises it starts it "
                "again, and a primary that starts takes control back. Have it do so after failures alone "
                "(`Restart=on-failure` in its unit)"
            )

    def _take_away(self, job: Job, reason: str) -> Work:
        """Its owner is told first: who is cut off in between has told."""
        message = f"tidepool: job {job.array_id or job.job_id} is taken from {self._name}: {reason}"
        work = Work("job", str(job.job_id), job.user)
        try:
            self._slurm.tell(job.job_id, message, array_id=job.array_id)
            try:
                # Of a heterogeneous job, the first part speaks for all.
                self._slurm.requeue(job.het_job_id or job.job_id, array_id=job.array_id)
            except NotFound:
                raise
            except Refused:
                now = self._now_of(job)
                if now.restarts > job.restarts or now.state is JobState.PENDING:
                    # Meanwhile: from another of its machines, which goes as well, or by its owner.
                    return replace(work, fate="requeued", text="its owner was told")
                if now.state.has_ended or now.state is JobState.COMPLETING:
                    return replace(work, fate="ended")
                self._slurm.cancel(job.job_id, array_id=job.array_id)
                return replace(work, fate="cancelled", text="it cannot be requeued; its owner was told")
            return replace(work, fate="requeued", text="its owner was told")
        except NotFound:
            return replace(work, fate="ended")

    def _now_of(self, job: Job) -> Job:
        """Its record as it is by now: of a task, its own among those of its array."""
        return next((each for each in self._slurm.job(job.job_id) if each.job_id == job.job_id), job)

    def _jobs(self, node: Node) -> tuple[Job, ...]:
        """Return the jobs that have the node, also where it looks idle, as beside a suspended one."""
        found = self._slurm.jobs(_ON_NODES)
        here = tuple(job for job in found if self._name in expand(job.nodelist))
        if here or not _is_busy(node):
            return here
        return tuple(
            job
            for job in self._slurm.jobs()
            if job.state is not JobState.PENDING and self._name in expand(job.nodelist)
        )

    def _until(self, job: Job) -> str:
        if job.state is JobState.COMPLETING:
            return "it is ending"
        if job.time_limit_s is None or job.start_time is None:
            return "it may run without a limit"
        until = job.end_time or job.start_time + timedelta(seconds=job.time_limit_s)
        return f"it may run until {until:%Y-%m-%d %H:%M} UTC"

    def _resume(self) -> None:
        try:
            self._slurm.resume(self._name)
        except Refused:
            node = self._look()
            if node is not None and node.state.base is NodeBase.DOWN:
                raise
            # It has registered since, and is up by that.

    def _look(self) -> Node | None:
        try:
            found = self._slurm.nodes(self._name)
        except NotFound:
            return None
        if len(found) != 1:
            raise ConversionError(f"Slurm was asked for the node {self._name}, and told of {len(found)}")
        return found[0]


def controllers_verdict(node: str, well: Collection[str], in_charge: str) -> Verdict:
    """Judge if ``node``, which runs slurmctld, may leave: ``well`` are the controllers that answer and stay."""
    others = sorted(set(well) - {node})
    if not others:
        return Verdict(
            f"{node} runs slurmctld, and no other controller answers that could take over; start a backup, and look at "
            "`scontrol ping`"
        )
    if in_charge in others or node not in well:
        return Verdict()
    return Verdict(f"slurmctld of {others[0]} takes over from {node}", hands_over=True)


def _host(controller: Controller) -> str:
    """slurm.conf may name it with its domain."""
    return controller.host.partition(".")[0]


def _is_held(node: Node) -> bool:
    return bool(node.state.flags & {NodeFlag.DRAIN, NodeFlag.FAIL})


def is_our_hold(node: Node) -> bool:
    """Return whether it is held for a conversion, by its reason."""
    return node.reason is not None and node.reason.text.startswith(OUR_HOLD)


def _is_busy(node: Node) -> bool:
    return bool(node.cpus_alloc) or NodeFlag.COMPLETING in node.state.flags


@contextmanager
def _said() -> Iterator[None]:
    try:
        yield
    except SlurmError as error:
        raise ConversionError(f"Slurm: {error}") from error

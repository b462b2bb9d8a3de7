"""tidepool:slurm:Node."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from tidepool.clients.slurm import (
    ControllerDown,
    Job,
    JobState,
    Node,
    NodeBase,
    NodeFlag,
    Refused,
    Slurm,
    SlurmError,
    TimedOut,
    Unreachable,
)
from tidepool.cluster.desired_state import is_forced
from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.hostlist import expand
from tidepool.infrastructures.connection import transport, why_silent
from tidepool.infrastructures.registry import suspension_of
from tidepool.provider.machines import (
    Connection,
    Slurmd,
    boot_log_end,
    booted_at,
    connection_mistakes,
    machine_runs,
)
from tidepool.provider.node_watch import Batches, NodeWatch, SharedLook, Sight
from tidepool.provider.retirement import Leaving, Outcome, is_leaving, retire
from tidepool.provider.suspended import NotReady, go_on, prepare
from tidepool.resources.declarations import Node as Resource
from tidepool.resources.declarations import NodeModel
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Refusal, Task, Unfinished
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

_UP: Final = frozenset({NodeBase.IDLE, NodeBase.ALLOCATED, NodeBase.MIXED})
#: The environment variable of who watches nodes himself: for how many seconds an operation waits for them.
PATIENCE: Final = "TIDEPOOL_NODE_PATIENCE_S"
#: Drained is up: a person may have done it.
_UNFIT: Final = frozenset(
    {
        NodeFlag.INVALID_REG,
        NodeFlag.NOT_RESPONDING,
        NodeFlag.POWERED_DOWN,
        NodeFlag.POWERING_DOWN,
        NodeFlag.POWERING_UP,
        NodeFlag.REBOOT_ISSUED,
    }
)
_NOT_BEGUN: Final = frozenset({JobState.PENDING, JobState.CONFIGURING})
#: A slurmd that has run for so long, and whose node is not there, has registered for a slot that is no more.
_LISTEN_S: Final = 6.0
#: Slurm's times are whole seconds.
_BLUR: Final = timedelta(seconds=2)
_PATIENCE_S: Final = 30.0
_ENDING_LOOK_S: Final = 0.1
_BOOTED: Final = "tidepool: its machine booted again"
#: A controller that is being started again answers within this time.
_RETRY_S: Final = 3.0
_NO_ANSWER: Final = (ControllerDown, TimedOut, Unreachable)
_SUSPENDED: Final = "suspended"
#: Of a machine that should be suspended: there is no memory that it could go on from.
_LOST: Final = "lost"
#: A machine that goes on is asked again after so long whether it answers.
_ANSWERS_S: Final = 0.2


def is_up(node: Node, booted: datetime | None = None) -> bool:
    """Return whether the node is in service, or would be if nobody had drained it. Pure.

    With ``booted``, its machine's boot: registered since then.
    """
    if node.state.base not in _UP or node.state.flags & _UNFIT:
        return False
    return booted is None or _is_registered_since(node, booted)


def lost_jobs(node: Node, jobs: Iterable[Job], booted: datetime) -> tuple[int, ...]:
    """The jobs that Slurm believes to run on the node, and that ended with its machine before ``booted``. Pure.

    Those that wait for a node that powers up have not begun.
    """
    if NodeFlag.POWERING_UP in node.state.flags:
        return ()
    mine = (job for job in jobs if job.state not in _NOT_BEGUN and node.name in expand(job.nodelist))
    return tuple(
        job.job_id
        for job in mine
        if not _is_registered_since(node, booted)
        or (job.start_time is not None and job.start_time < booted - _BLUR)
    )


def _is_registered_since(node: Node, booted: datetime) -> bool:
    started = node.slurmd_start_time
    return started is None or started >= booted - _BLUR


class NodeKind(Kind[NodeModel]):
    """A machine's membership in its cluster."""

    resource = Resource
    timeout_s = 60.0

    def __init__(self, home: Home, now_s: Callable[[], float] = time.time) -> None:
        super().__init__(home)
        self._now_s = now_s
        # As long as their operation may take, unless somebody watches nodes besides.
        self._patience_s = float(home.environment.get(PATIENCE) or "inf")
        self._regardless = is_forced(home.environment)
        self._lock = threading.Lock()
        self._clusters: dict[str, _Cluster] = {}

    def mistakes(self, wanted: NodeModel) -> Iterable[Mistake]:
        connections = {"controller": wanted.controller, "machine": wanted.machine}
        yield from connection_mistakes(connections, self._home.data)
        if wanted.power == _SUSPENDED:
            try:
                suspension_of(wanted.suspension)
            except Permanent as error:
                yield Mistake("suspension", f"{error}; leave power out, or name one that can be suspended")

    def create(self, wanted: NodeModel, task: Task) -> Made:
        if wanted.power == _SUSPENDED:
            # It is not known any more, and its machine is there.
            return Made(wanted.node, self._suspend(wanted, task))
        return Made(wanted.node, self._await(wanted, task, is_new=True))

    def update(self, id: str, old: NodeModel, wanted: NodeModel, task: Task) -> Mapping[str, Plain]:
        if wanted.power == _SUSPENDED:
            return self._suspend(wanted, task)
        if old.power == _SUSPENDED:
            self._resume(old, wanted, task)
            return self._await(wanted, task.anew(), is_new=True)
        return self._await(wanted, task)

    def look(self, id: str, state: NodeModel) -> Mapping[str, Plain] | None:
        if state.power == _SUSPENDED:
            return self._look_at_suspended(state)
        runs = machine_runs(state.machine, self._home.data)
        try:
            node = self._cluster(state).look().get(state.node)
        except _NO_ANSWER:
            return AS_KNOWN if runs else {"state": "down"}  # what cannot be seen is not gone
        if node is None or node.state.is_slot:
            return None
        if not runs or node.state.base in {NodeBase.DOWN, NodeBase.ERROR}:
            return {"state": "down"}
        # One that was on its way out when whoever took it died: making it stay undrains it.
        return {"state": "leaving"} if is_leaving(node) else AS_KNOWN

    def delete(self, id: str, state: NodeModel, task: Task) -> None:
        self._retire(state, task)

    def _suspend(self, wanted: NodeModel, task: Task) -> Mapping[str, Plain]:
        """Make a slot of the node, and suspend its machine. Where its memory cannot be saved it goes on, and the node stays a slot."""
        self._retire(wanted, task)
        machine = transport(wanted.machine, self._home.data)
        try:
            suspension = suspension_of(wanted.suspension)
            if (state := suspension.state()) != "running":
                return {} if state == _SUSPENDED else {"state": _LOST}
            task.status("its memory is saved")
            prepare(machine)
            try:
                suspension.suspend()
            except InfrastructureError:
                with suppress(SlurmError, NotReady):
                    go_on(machine, self._now_s())
                raise
        except InfrastructureError as error:
            raise Refusal(f"machine {wanted.node} is not suspended: {error}", error.cause) from error
        except (SlurmError, NotReady) as error:
            raise Refusal(f"machine {wanted.node} is not suspended: {error}", "transient") from error
        return {}

    def _resume(self, old: NodeModel, wanted: NodeModel, task: Task) -> None:
        """Have its machine go on, with the time as it is and slurmd started; one that has no memory boots."""
        machine = transport(wanted.machine, self._home.data)
        try:
            suspension_of(old.suspension).resume()
            if why := task.wait(lambda: why_silent(machine), "it goes on", _ANSWERS_S):
                raise Refusal(f"machine {wanted.node} was resumed, and does not answer: {why}", "boot")
            go_on(machine, self._now_s())
        except InfrastructureError as error:
            raise Refusal(f"machine {wanted.node} is not resumed: {error}", error.cause) from error
        except (SlurmError, NotReady) as error:
            raise Refusal(f"machine {wanted.node} was resumed, and is not well: {error}", "boot") from error

    def _look_at_suspended(self, state: NodeModel) -> Mapping[str, Plain]:
        try:
            found = suspension_of(state.suspension).state()
        except InfrastructureError:
            return AS_KNOWN  # what cannot be seen is not gone
        return AS_KNOWN if found == _SUSPENDED else {"state": _LOST}

    def _retire(self, state: NodeModel, task: Task) -> None:
        cluster = self._cluster(state)
        # What does not count is as what does not run.
        runs = not self._regardless and machine_runs(state.machine, self._home.data)
        patience = min(task.deadline, time.monotonic() + _PATIENCE_S)
        try:
            while True:
                leaving = Leaving(state.node, runs, may_wait=time.monotonic() < patience)
                outcome = _insisting(
                    partial(cluster.retire, leaving),
                    lambda: machine_runs(state.controller, self._home.data),
                    task.deadline,
                )
                if not outcome.is_ending:
                    break
                task.status("a job is ending")
                threading.Event().wait(_ENDING_LOOK_S)
        except _NO_ANSWER as error:
            # The node's own machine knows what runs on it.
            ids = Slurmd(transport(state.machine, self._home.data)).job_ids() if runs else ()
            if ids:
                listed = ", ".join(map(str, ids))
                raise Refusal(
                    f"node {state.node} runs the jobs {listed}, and its controller does not answer ({error.what}); "
                    "bring the controller back with `tidepool up`, or wait for their end"
                ) from error
            return
        if outcome.reason:
            raise Refusal(outcome.reason)

    def _await(self, wanted: NodeModel, task: Task, *, is_new: bool = False) -> Mapping[str, Plain]:
        """Wait until the node is up; what is to be known of it else: somebody who watches nodes waits no longer.

        Raises:
            Unfinished: it is not until the deadline, or its machine does not run; with all that is known of it.
        """
        cluster = self._cluster(wanted)
        slurmd = Slurmd(transport(wanted.machine, self._home.data))
        booted = booted_at(wanted.machine, self._home.data)
        if booted is not None:
            cluster.end_jobs_of_earlier_boots(wanted.node, booted, is_new)
        there = partial(is_up, booted=booted)
        began, pid_before = time.monotonic(), None
        patience = began + self._patience_s
        while True:
            until = min(task.deadline, time.monotonic() + _LISTEN_S, patience)
            sight = cluster.watch.wait(wanted.node, there, until)
            if sight.is_there and sight.node is not None:
                if is_leaving(sight.node):
                    cluster.slurm.undrain(wanted.node)
                return {}
            runs = machine_runs(wanted.machine, self._home.data)
            if task.left_s == 0 or not runs:
                waited_s = time.monotonic() - began
                reason = self._failure(wanted, sight, waited_s, runs)
                raise Unfinished(wanted.node, reason, cause="boot")
            if time.monotonic() >= patience:
                # The next `up` by somebody who does not watch waits for it.
                return {"state": "coming"}
            if sight.error is None:
                pid_before = slurmd.restart_if_still(pid_before)

    def _failure(self, wanted: NodeModel, sight: Sight, waited_s: float, runs: bool) -> str:
        if sight.error is not None:
            said = f"Slurm cannot be asked: {sight.error}"
        elif sight.node is None:
            said = "Slurm knows no node of that name"
        else:
            reason = f" ({sight.node.reason.text})" if sight.node.reason else ""
            said = f"Slurm says it is {sight.node.state}{reason}"
        state = "" if runs else "; its machine does not run"
        log = boot_log_end(wanted.machine, self._home.data).rstrip()
        end = f"; its machine's boot log ends:\n{log}" if log else "; its machine has no boot log"
        return f"node {wanted.node} is not up after {waited_s:.0f} s: {said}{state}{end}"

    def _cluster(self, wanted: NodeModel) -> _Cluster:
        key = json.dumps(wanted.controller, sort_keys=True)
        with self._lock:
            if key not in self._clusters:
                self._clusters[key] = _Cluster.of(wanted.controller, self._home.data)
            return self._clusters[key]


@dataclass(frozen=True)
class _Cluster:
    """Connection and looks that all nodes of one controller share."""

    slurm: Slurm
    look: SharedLook[Mapping[str, Node]]
    watch: NodeWatch
    retire: Callable[[Leaving], Outcome] = field(repr=False)

    def end_jobs_of_earlier_boots(self, name: str, booted: datetime, is_new: bool) -> None:
        """Have Slurm put back into the queue what it believes to run on a node whose machine has booted since.

        It would see so by itself, minutes later.
        """
        try:
            node = self.look().get(name)
            if node is None or (is_new and NodeFlag.CLOUD in node.state.flags):
                return  # its jobs were given to it while it powered up, and begin now
            if not node.cpus_alloc or not lost_jobs(node, self.slurm.jobs(), booted):
                return
            self.slurm.down(name, _BOOTED)
            if _is_registered_since(node, booted):
                self._resume(name)
        except _NO_ANSWER:
            return  # it starts, and asks each node what runs there

    def _resume(self, name: str) -> None:
        try:
            self.slurm.resume(name)
        except Refused:
            if any(node.state.base is NodeBase.DOWN for node in self.slurm.nodes(name)):
                raise
            # It has registered since, and is up by that.

    @classmethod
    def of(cls, controller: Connection, data: Path) -> _Cluster:
        slurm = Slurm(transport(controller, data))
        look: SharedLook[Mapping[str, Node]] = SharedLook(lambda: {node.name: node for node in slurm.nodes()})
        retiring: Batches[Leaving, Outcome] = Batches(partial(retire, slurm))
        return cls(slurm, look, NodeWatch(look), retiring)


def _insisting(ask: Callable[[], Outcome], controller_runs: Callable[[], bool], deadline: float) -> Outcome:
    """Ask a controller that may be starting again; one whose machine is gone is not waited for."""
    last, pause = min(deadline, time.monotonic() + _RETRY_S), threading.Event()
    while True:
        try:
            return ask()
        except _NO_ANSWER:
            if time.monotonic() > last or not controller_runs():
                raise
            pause.wait(0.2)

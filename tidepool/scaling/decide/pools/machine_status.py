"""The status of each machine of each pool: its role as record, journal and both sides tell it, and what it does. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tidepool.clients.kubernetes.objects import POOL_LABEL, Pod
from tidepool.clients.kubernetes.objects import Node as KubernetesNode
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import Role
from tidepool.conversion.next_step import SAID
from tidepool.conversion.record import CANCELLABLE, Conversion
from tidepool.conversion.slurm_side import is_our_hold
from tidepool.scaling.cluster_state import ClusterState, RecordedRole, is_at_work
from tidepool.scaling.decide.node_status import SlurmStatus, holder, slurm_status
from tidepool.scaling.decide.reconcile import reserved_nodes, running_jobs
from tidepool.scaling.decision import MachineStanding
from tidepool.scaling.memory import Memory

#: Whoever drives a conversion may be slow to begin, or to record its end. After so long nobody does, and it is gone on with;
#: and what a side has forgotten it will not remember.
ABANDONED_AFTER: Final = timedelta(seconds=30)
#: Taints by which Kubernetes itself says how a node is.
LIFECYCLE: Final = "node.kubernetes.io/"

_NOT_THERE: Final = frozenset({SlurmStatus.SLOT, SlurmStatus.UNLISTED})
_NAMED: Final = 3
#: What these order, or cancel, is nobody's order for one machine.
_NOBODYS: Final = ("", "scaler", "up")


class MachineStatus(NamedTuple):
    """One machine. ``role`` is what it is now, ``to`` what it is about to be.

    ``since``: since when it has had its role, where a conversion tells; ``wanted``: why a person wants it to have it, in
    words. ``idle_since``: it has been without work, where it is. ``repair``: the role that it is to be given (again), for
    what was begun was not ended.
    """

    name: str
    pool: str
    number: int
    role: Role | None
    standing: MachineStanding
    why: str
    to: Role | None = None
    since: datetime | None = None
    wanted: str = ""
    idle_since: datetime | None = None
    repair: Role | None = None

    @property
    def side(self) -> Role | None:
        """On whose side it counts: where it goes to, where it is."""
        return self.to or self.repair or self.role


@dataclass(frozen=True, slots=True)
class Survey:
    """All machines of pools, by name, in the order of pools and numbers."""

    statuses: Mapping[str, MachineStatus]
    #: What could not be seen, so that no machine moves; empty where all was.
    unseen: str
    #: By node, its pods that have not ended; and the node as Kubernetes has it.
    pods: Mapping[str, tuple[Pod, ...]]
    nodes: Mapping[str, KubernetesNode]
    #: Machines whose conversion nobody seems to drive, and since when.
    abandoned: Mapping[str, datetime]

    def of(self, pool: str) -> Iterator[MachineStatus]:
        """Return the machines of one pool."""
        return (status for status in self.statuses.values() if status.pool == pool)

    def moving(self, to: Mapping[str, Role]) -> Survey:
        """The same, where these are about to serve another role; what is moving already goes where it goes."""
        gone = {
            name: self.statuses[name]._replace(standing="moving", to=role)
            for name, role in to.items()
            if self.statuses[name].standing != "moving"
        }
        return replace(self, statuses={**self.statuses, **gone})


def apart(state: ClusterState) -> ClusterState:
    """The state of the fleets alone: pools' nodes and machines are no fleet's, and never strays.

    But for machines of a pool's name that neither its spec, nor the state, nor Kubernetes knows: they are leftovers.
    """
    if not state.spec.pools and not state.pools.roles:
        return state
    machines = {pool.name: pool.machines for pool in state.spec.pools}
    roles, kubernetes = state.pools.roles, state.pools.kubernetes
    known = {node.name for node in kubernetes.nodes} if kubernetes is not None else frozenset()

    def is_of_a_pool(name: str) -> bool:
        if roles is not None and name in roles:
            return True
        pool, _, number = name.rpartition("-")
        if pool not in machines:
            return False
        is_open = roles is None or kubernetes is None or name in known
        return is_open or not number.isdecimal() or int(number) <= machines[pool]

    # Slots tell that Slurm answers, and say nothing of machines.
    nodes = tuple(node for node in state.nodes if node.state.is_slot or not is_of_a_pool(node.name))
    listed = state.machines
    if listed is not None:
        listed = tuple(machine for machine in listed if not is_of_a_pool(machine.key.node))
    return replace(state, nodes=nodes, machines=listed)


def survey(state: ClusterState, memory: Memory) -> Survey:
    """Return the status of every machine of every pool of the spec."""
    if not state.spec.pools:
        return Survey({}, "", {}, {}, {})
    return _Look(state, memory).survey()


class _Look:
    def __init__(self, state: ClusterState, memory: Memory) -> None:
        self._state = state
        self._memory = memory.pools
        kubernetes = state.pools.kubernetes
        mine = {pool.name for pool in state.spec.pools}
        self._nodes = {node.name: node for node in state.nodes if node.name.rpartition("-")[0] in mine}
        self._known = {node.name: node for node in kubernetes.nodes} if kubernetes is not None else {}
        pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in kubernetes.pods if kubernetes is not None else ():
            if pod.node and not pod.has_ended:
                pods[pod.node].append(pod)
        self._pods = {name: tuple(each) for name, each in pods.items()}
        self._jobs = running_jobs(state.jobs)
        self._reserved = reserved_nodes(state)
        self._under_way: dict[str, Conversion] = {}
        self._ended: dict[str, Conversion] = {}
        #: By which a machine came to its role: of what was tried later it went back.
        self._done: dict[str, Conversion] = {}
        for conversion in sorted(state.pools.conversions or (), key=lambda each: each.id):
            found = self._under_way if conversion.is_under_way else self._ended
            found[conversion.order.node] = conversion
            if conversion.phase == "done":
                self._done[conversion.order.node] = conversion
        self._abandoned: dict[str, datetime] = {}
        #: Those whose root is in memory, and whether they run.
        self._volatile = {each.key.node: each.state for each in state.machines or () if each.is_volatile}

    def survey(self) -> Survey:
        statuses = {}
        for pool in self._state.spec.pools:
            for slot in pool.slots():
                statuses[slot.node_name] = self._status(pool, slot.number, slot.node_name)
        return Survey(
            statuses, self._unseen(), self._pods, self._known, dict(sorted(self._abandoned.items()))
        )

    def _unseen(self) -> str:
        pools = self._state.pools
        if pools.unseen:
            return pools.unseen
        missing = [
            what
            for what, is_missing in (
                ("the stack's state", pools.roles is None),
                ("Kubernetes", pools.kubernetes is None),
                ("the journal of conversions", pools.conversions is None),
            )
            if is_missing
        ]
        return f"{' and '.join(missing)} cannot be seen" if missing else ""

    def _status(self, pool: ConvergedPool, number: int, name: str) -> MachineStatus:
        record = (self._state.pools.roles or {}).get(name)
        role = record.role if record is not None else None
        status = MachineStatus(name, pool.name, number, role, "unknown", "")
        if self._state.pools.roles is None or self._state.pools.conversions is None:
            return self._as_slurm_has_it(status)
        if record is None or not record.machine:
            return status._replace(role=None, standing="ill", why="it has no machine; `tidepool up` makes it")
        if conversion := self._under_way.get(name):
            return self._converting(status, conversion)
        moving = self._memory.moving.get(name)
        if moving is not None and (self._state.at < moving.until or name in self._state.under_way):
            return status._replace(standing="moving", to=moving.to, why=f"it is about to serve {moving.to}")
        if name in self._state.under_way:
            return status._replace(standing="moving", why="an operation on it is under way")
        ended, done = self._ended.get(name), self._done.get(name)
        if done is not None and done.order.to == role:
            if done.ended is not None and done.ended > (self._state.pools.kubernetes_at or done.ended):
                return status._replace(
                    standing="moving", to=role, why="Kubernetes was looked at before it had its role"
                )
            moved = "" if done.order.by in _NOBODYS else f"a {done.order.by} moved it"
            status = status._replace(since=done.ended, wanted=moved)
        if ended is not None and ended.phase == "stopped" and ended.cancel_by not in _NOBODYS:
            status = status._replace(since=ended.ended, wanted=f"{ended.cancel_by} cancelled its move")
        return self._amiss(status, record, ended) or self._serving(status)

    def _converting(self, status: MachineStatus, conversion: Conversion) -> MachineStatus:
        order, at = conversion.order, self._state.at
        is_going_back = bool(conversion.cancel_by) or conversion.phase == "restoring"
        is_here = conversion.phase in CANCELLABLE or is_going_back
        to = conversion.leaves if is_going_back and conversion.leaves else order.to
        text = f"; {conversion.text}" if conversion.text else ""
        why = f"{order.by} has it converted to {order.to} ({order.reason}): {conversion.phase}{text}"
        status = status._replace(
            standing="moving", why=why, to=to, role=conversion.leaves if is_here else None
        )
        is_driven = conversion.driver_until is not None and conversion.driver_until > at
        moving = self._memory.moving.get(status.name)
        if is_driven or status.name in self._state.under_way or (moving is not None and at < moving.until):
            return status
        if self._is_abandoned(status.name) and self._is_short(conversion):
            return status._replace(repair=order.to, why=f"{why}; whoever drove it is gone")
        return status

    def _is_short(self, conversion: Conversion) -> bool:
        """Return whether going on with it takes seconds: nothing is waited for that may last."""
        order = conversion.order
        if order.is_forced or conversion.cancel_by or conversion.phase not in CANCELLABLE:
            return True
        if self._state.at >= order.at + timedelta(seconds=order.deadline_s):
            return True
        return not self._has_jobs(order.node) and not self._working_pods(order.node)

    def _amiss(
        self, status: MachineStatus, record: RecordedRole, ended: Conversion | None
    ) -> MachineStatus | None:
        """Return the status where what was begun was not brought to its end."""
        if ended is not None and ended.phase == "failed":
            found = status._replace(
                role=None,
                why=f"its conversion to {ended.order.to} failed: {ended.text}",
                repair=ended.order.to,
            )
        elif ended is not None and ended.phase == "done" and ended.order.to != status.role:
            found = status._replace(
                role=ended.order.to,
                why=f"it was converted to {ended.order.to}, and that is not recorded yet",
                repair=ended.order.to,
            )
        elif record.pending or status.role is None:
            found = status._replace(why="an operation on it was cut off", repair=status.role)
        else:
            return None
        found = found._replace(standing="ill")
        return found if self._is_abandoned(status.name) else found._replace(repair=None)

    def _is_abandoned(self, name: str) -> bool:
        since = self._abandoned[name] = self._memory.abandoned.get(name, self._state.at)
        return self._state.at - since >= ABANDONED_AFTER

    def _serving(self, status: MachineStatus) -> MachineStatus:
        if self._state.pools.kubernetes is None and status.role == "kubernetes":
            return status._replace(why=self._unseen())
        status = self._in_slurm(status) if status.role == "slurm" else self._in_kubernetes(status)
        if why := self._lost_its_role(status):
            # Nothing is lost by it any more: whoever gives it its role switches it on, where it is off.
            return self._repaired(status._replace(standing="ill", why=why))
        if status.standing != "idle":
            return status
        return status._replace(idle_since=self._idle_since(status))

    def _lost_its_role(self, status: MachineStatus) -> str:
        """Say why a machine whose root is in memory has not the role that it had: it is off, or was; empty where it may have."""
        state = self._volatile.get(status.name)
        if state is None or status.standing == "held" or status.role is None:
            return ""
        serves = f"it serves {SAID[status.role]}"
        if state == "stopped":
            return f"{serves}, and it is off, with nothing on it"
        node = self._known.get(status.name)
        is_given_up = (
            slurm_status(self._nodes.get(status.name)) is SlurmStatus.DOWN
            if status.role == "slurm"
            else node is not None and not node.ready
        )
        # It may have booted again by itself: asking it is a conversion's.
        return f"{serves}, which has given it up" if state == "running" and is_given_up else ""

    def _as_slurm_has_it(self, status: MachineStatus) -> MachineStatus:
        """Return the status where its role is not known. Jobs go to a node that is up, whatever else is to be seen."""
        is_up = slurm_status(self._nodes.get(status.name)) is SlurmStatus.UP
        found = status._replace(role="slurm" if is_up else None, why=self._unseen())
        return self._busy_with_jobs(found) if is_up and self._has_jobs(status.name) else found

    def _in_slurm(self, status: MachineStatus) -> MachineStatus:
        node = self._nodes.get(status.name)
        how = slurm_status(node)
        if (known := self._known.get(status.name)) is not None:
            ill = status._replace(
                standing="ill", why="it serves Slurm, and Kubernetes has it as a node as well"
            )
            is_a_persons = known.unschedulable and not known.reason
            is_ours = known.labels.get(POOL_LABEL) == status.pool
            return self._repaired(ill) if is_ours and not is_a_persons else ill
        if how is SlurmStatus.UP and status.name in self._reserved:
            return status._replace(standing="held", why=self._reserved[status.name])
        match how:
            case SlurmStatus.UP if self._has_jobs(status.name):
                return self._busy_with_jobs(status)
            case SlurmStatus.UP:
                return status._replace(standing="idle")
            case SlurmStatus.THEIRS if node is not None:
                return status._replace(standing="held", why=holder(node))
            case _:
                reason = f" ({node.reason.text})" if node is not None and node.reason else ""
                is_held = node is not None and node.state.is_draining and is_our_hold(node)
                ill = status._replace(standing="ill", why=f"it serves Slurm, and there it is {how}{reason}")
                return self._repaired(ill) if how is SlurmStatus.SLOT or is_held else ill

    def _in_kubernetes(self, status: MachineStatus) -> MachineStatus:
        how = slurm_status(self._nodes.get(status.name))
        node = self._known.get(status.name)
        if how not in _NOT_THERE:
            ill = status._replace(
                standing="ill", why=f"it serves Kubernetes, and in Slurm it is {how} as well"
            )
            return ill if how is SlurmStatus.THEIRS else self._repaired(ill)
        if node is None:
            return self._repaired(
                status._replace(standing="ill", why="it serves Kubernetes, which has no such node")
            )
        if not node.ready:
            return status._replace(standing="ill", why=f"its node is not ready: {node.message}")
        if node.unschedulable and node.reason:
            return self._repaired(
                status._replace(standing="ill", why=f"its node is cordoned by us: {node.reason}")
            )
        if node.unschedulable:
            return status._replace(standing="held", why="its node is cordoned")
        pods = self._working_pods(status.name)
        if not pods:
            return status._replace(standing="idle")
        return status._replace(standing="busy", why=f"it runs the pods {_some([pod.key for pod in pods])}")

    def _repaired(self, ill: MachineStatus) -> MachineStatus:
        """It is given its role again, and that alone: a side has forgotten what a conversion did there.

        slurmctld does, of the last seconds before a `kill -9`; and somebody may have deleted a Node. What a person holds back
        there is left to that person.
        """
        return ill._replace(repair=ill.role) if self._is_abandoned(ill.name) else ill

    def _busy_with_jobs(self, status: MachineStatus) -> MachineStatus:
        jobs = self._jobs.get(status.name, ())
        what = f"it runs the jobs {_some([str(job.job_id) for job in jobs])}" if jobs else "it runs jobs"
        return status._replace(standing="busy", why=what)

    def _has_jobs(self, name: str) -> bool:
        node = self._nodes.get(name)
        return name in self._jobs or (node is not None and is_at_work(node))

    def _working_pods(self, name: str) -> list[Pod]:
        """Return those that somebody waits for: a node's own, and those that are on every node, are none."""
        return sorted(
            (pod for pod in self._pods.get(name, ()) if not pod.is_daemon and not pod.is_static),
            key=lambda pod: pod.key,
        )

    def _idle_since(self, status: MachineStatus) -> datetime:
        at = self._state.at
        known = self._memory.idle_since.get(status.name)
        node = self._nodes.get(status.name) if status.role == "slurm" else None
        busy = node.last_busy_time if node is not None else None
        if busy is not None and busy > at:
            busy = None  # Slurm's clock may be ahead of ours.
        if known is None:
            # Where nothing is remembered: since its last job, or since it came. When its last pod ended nobody says.
            times = [] if status.role == "kubernetes" else [busy, status.since]
            known = max((time for time in times if time is not None), default=at)
        elif busy is not None:
            known = max(known, busy)  # a job that began and ended between two looks
        return min(known, at)


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}"

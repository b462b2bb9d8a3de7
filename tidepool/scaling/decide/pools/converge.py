"""Both queues and all pools: who moves, for whom, and why the others stay. Pure.

What minimums and maximums ask for, and what was begun and is gone on with, moves whatever is in demand: to all else it is
on its way. Then, in three steps, for whoever a pool `prefers` is served first from it:
1. pods onto what serves Kubernetes, or will; and onto idle machines of pools that prefer Kubernetes;
2. jobs (`grow`, which is told what machines Slurm has and which could come);
3. pods once more, onto what is left: idle machines of all pools that no job will run on.
A pool moves machines in one direction in a decision.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import Role
from tidepool.conversion.next_step import other
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.packing.launch_limits import Spare
from tidepool.scaling.decide.plan import in_order
from tidepool.scaling.decide.pools.leave import full, leaving, missing, stays
from tidepool.scaling.decide.pools.machine_status import MachineStatus, Survey, survey
from tidepool.scaling.decide.pools.placing import (
    COMING,
    COULD_COME,
    THERE,
    PodNodes,
    PodPlacement,
    assign_pods,
    fitting,
    never,
)
from tidepool.scaling.decide.pools.pod_queue import TRIED_AGAIN_AFTER, PodQueue, offer_of, pod_queue
from tidepool.scaling.decision import Convert, Launch, MachineView, Phase, Standing, WaitingPod
from tidepool.scaling.memory import Memory, Moving, PoolMemory

#: Until then a machine that is to move has begun to; what is under way has its time anew.
PATIENCE: Final = timedelta(seconds=60)
_FEW: Final = 8
_NAMED: Final = 3
#: As growth sees machines that Slurm has. Of those that are not known it is known that they are up.
_PHASES: Final[Mapping[str, Phase]] = {
    "idle": Phase.IDLE,
    "unknown": Phase.IDLE,
    "busy": Phase.BUSY,
    "held": Phase.HELD,
}


#: By the rank of a pod's node, how it stands and why.
_PLACED: Final[Mapping[int, tuple[Standing, str]]] = {
    THERE: ("room", "there is room on {}, and Kubernetes starts it"),
    COMING: ("coming", "{} is on its way to Kubernetes"),
    COULD_COME: ("coming", "{} moves to Kubernetes for it"),
}


@dataclass(frozen=True, slots=True)
class Settled:
    """The decision about pools, in the words of a `Decision`."""

    converts: tuple[Convert, ...]
    waiting_pods: Mapping[str, WaitingPod]
    machines: Mapping[str, MachineView]
    memory: PoolMemory


class Convergence:
    """One decision about all pools. `phases` and `to_slurm` are what `grow` is told; `settle` is told what it asks for."""

    def __init__(self, state: ClusterState, memory: Memory) -> None:
        self._at = state.at
        self._pools: Sequence[ConvergedPool] = state.spec.pools
        controller = state.spec.controller.runs_on
        #: A takeover is an outage of seconds.
        self._controllers = frozenset({controller} if controller is not None else ())
        self.names = frozenset(pool.name for pool in self._pools)
        self._under_way = state.under_way
        self._memory = memory.pools
        self._survey: Survey = survey(state, memory)
        #: What moves whatever is in demand. To all else it is on its way.
        self._owed = (*self._repaired(), *self._for_limits())
        self._survey = self._survey.moving({name: each.to for each in self._owed for name in each.nodes})
        seen = state.pools.kubernetes
        pods = seen.pods if seen is not None and not self._survey.unseen else ()
        self._queue: PodQueue = pod_queue(pods, memory.pools.has_room_since, state.at)
        extended = self._queue.extended
        self._offers = {pool.name: offer_of(pool, self._survey, extended) for pool in self._pools}
        self._pod_nodes = PodNodes(self._survey, self._offers, extended)
        #: Step 1: what pods take, and who goes for them.
        preferring = [pool for pool in self._pools if pool.prefers == "kubernetes"]
        self._first_leaving = {pool.name: self._leaving(pool, "kubernetes") for pool in preferring}
        could_come = {name: each.names for name, each in self._first_leaving.items()}
        self._first = assign_pods(self._queue, self._pod_nodes.pod_bins((), could_come))
        self._going = frozenset(self._first.chosen(COULD_COME))
        self._taken = frozenset(self._first.chosen(THERE))
        #: Step 2: by pool, the machines that could come to Slurm, and why no others can.
        self.to_slurm: Mapping[str, Spare] = {pool.name: self._slurm_side(pool) for pool in self._pools}

    def phases(self) -> dict[str, Phase]:
        """Return the phases of the machines of pools that Slurm has, or will have; as `grow` wants them."""
        found = {}
        for status in self._survey.statuses.values():
            if status.standing == "moving" and status.to == "slurm":
                found[status.name] = Phase.LAUNCHING
            elif status.name in self._going:
                found[status.name] = Phase.LEAVING
            elif status.role == "slurm":
                found[status.name] = _PHASES.get(status.standing, Phase.UNKNOWN)
        return found

    def settle(self, wanted: Sequence[Launch], needed: Collection[str]) -> Settled:
        """Return what is done. ``wanted``: what jobs want to come, of a pool each; ``needed``: machines in Slurm that jobs will run on."""
        gone = {name for each in wanted for name in each.nodes}
        to_kubernetes = {pool.name: self._kubernetes_side(pool, gone, needed) for pool in self._pools}
        could_come = {name: each.names for name, each in to_kubernetes.items()}
        placement = assign_pods(self._queue, self._pod_nodes.pod_bins(gone, could_come))
        for_jobs = [Convert(each.fleet, each.nodes, "slurm", each.reason, jobs=each.jobs) for each in wanted]
        converts = [*self._owed, *for_jobs, *self._for_pods(placement)]
        converts.sort(key=lambda each: (each.pool, each.to, each.nodes))
        now = {name: convert for convert in converts for name in convert.nodes}
        machines = self._views(now, {*needed, *placement.chosen(THERE)})
        waiting = self._waiting(placement, to_kubernetes)
        return Settled(
            tuple(converts), FrozenDict(waiting), FrozenDict(machines), self._remembered(now, placement)
        )

    # Who may go

    def _leaving(
        self, pool: ConvergedPool, to: Role, needed: Collection[str] = (), last: Collection[str] = ()
    ) -> Spare:
        last = self._controllers.union(last) if to == "kubernetes" else last
        return leaving(
            pool, self._survey, to, needed=needed, last=last, backoffs=self._memory.backoffs, at=self._at
        )

    def _slurm_side(self, pool: ConvergedPool) -> Spare:
        names = {status.name for status in self._survey.of(pool.name)}
        if names & self._going:
            return Spare((), f"machines of pool {pool.name} are just going to Kubernetes")
        mine = self._taken & names
        if pool.prefers == "kubernetes":
            return self._leaving(pool, "slurm", needed=mine)
        return self._leaving(pool, "slurm", last=mine)

    def _kubernetes_side(self, pool: ConvergedPool, gone: Collection[str], needed: Collection[str]) -> Spare:
        if any(status.name in gone for status in self._survey.of(pool.name)):
            return Spare((), f"machines of pool {pool.name} are just going to Slurm")
        # Who was chosen in the first step is chosen again, before those that jobs do not need.
        needed = set(needed) - self._going
        return self._leaving(pool, "kubernetes", needed=needed)

    # Who goes

    def _for_pods(self, placement: PodPlacement) -> list[Convert]:
        names: defaultdict[str, list[str]] = defaultdict(list)
        for name in placement.chosen(COULD_COME):
            names[self._survey.statuses[name].pool].append(name)
        found = []
        for pool, those in names.items():
            pods = [pod.key for name in those for pod in placement.used[name]]
            found.append(
                Convert(pool, self._by_number(those), "kubernetes", _need(pods), pods=tuple(pods[:_FEW]))
            )
        return found

    def _for_limits(self) -> list[Convert]:
        """Return the moves that minimums and maximums ask for, whatever is in demand."""
        found: list[Convert] = []
        for pool in self._pools:
            for to in ("slurm", "kubernetes"):
                count, limit = missing(pool, self._survey, to)
                names = self._leaving(pool, to).names[: max(0, count)]
                if names:
                    found.append(Convert(pool.name, self._by_number(names), to, limit))
        return found

    def _repaired(self) -> list[Convert]:
        """Return the moves that others began and nobody brings to an end."""
        if self._survey.unseen:
            return []
        found = []
        for status in self._survey.statuses.values():
            if status.repair is None or status.name in self._under_way:
                continue
            backoff = self._memory.backoffs.get(status.name)
            if backoff is None or backoff.until <= self._at:
                why = f"it is gone on with: {status.why}"
                found.append(Convert(status.pool, (status.name,), status.repair, why, repairs=True))
        return found

    def _by_number(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=lambda name: self._survey.statuses[name].number))

    # What is told

    def _views(self, now: Mapping[str, Convert], needed: Collection[str]) -> dict[str, MachineView]:
        pools = {pool.name: pool for pool in self._pools}
        return {
            status.name: self._view(status, pools[status.pool], now.get(status.name), status.name in needed)
            for status in self._survey.statuses.values()
        }

    def _view(
        self, status: MachineStatus, pool: ConvergedPool, convert: Convert | None, needed: bool
    ) -> MachineView:
        view = MachineView(status.pool, status.role, status.standing, status.why, status.to, status.since)
        if convert is not None:
            return view._replace(standing="moving", to=convert.to, reason=f"it moves now: {convert.reason}")
        if status.standing == "busy" and self._survey.unseen:
            return view._replace(reason=f"{status.why}; {self._survey.unseen}")
        if status.standing != "idle":
            return view
        if needed:
            what = "job" if status.role == "slurm" else "pod"
            return view._replace(standing="needed", reason=f"idle; a {what} that waits will run on it")
        why = stays(status, pool, self._memory.backoffs, self._at)
        idle_s = (self._at - (status.idle_since or self._at)).total_seconds()
        free = f"idle for {idle_s:.0f} s, and no demand on the other side that it could serve"
        obstacle = why or free
        if not why and self._survey.unseen:
            obstacle = f"idle for {idle_s:.0f} s; {self._survey.unseen}, so it stays"
        elif not why and (limit := full(pool, self._survey, other(status.role or "slurm"))):
            obstacle = f"idle for {idle_s:.0f} s; it stays: {limit}"
        return view._replace(reason=obstacle)

    def _waiting(self, placement: PodPlacement, to_kubernetes: Mapping[str, Spare]) -> dict[str, WaitingPod]:
        waiting = dict(self._queue.waiting)
        for group in self._queue.groups:
            for pod in group.pods:
                if pod.key in placement.nodes:
                    rank, node = placement.nodes[pod.key]
                    standing, reason = _PLACED[rank]
                    waiting[pod.key] = WaitingPod(pod.key, standing, reason.format(node), (node,))
        offers, extended = self._offers.values(), self._queue.extended
        for group, left in placement.left:
            standing, reason = "never", never(group, offers, extended)
            if not reason and not group.moves:
                standing, reason = "held", "the scheduler has not looked at it yet"
            elif not reason:
                pools = [to_kubernetes[name] for name in fitting(group, offers, extended)]
                standing = "setback" if any(each.standing == "setback" for each in pools) else "limit"
                reason = "; ".join(dict.fromkeys(each.obstacle for each in pools))
            waiting.update({pod.key: WaitingPod(pod.key, standing, reason) for pod in left})
        return dict(sorted(waiting.items()))

    def _remembered(self, now: Mapping[str, Convert], placement: PodPlacement) -> PoolMemory:
        at, machines, before = self._at, self._survey.statuses, self._memory
        idle = {
            name: status.idle_since or at
            for name, status in machines.items()
            if status.standing == "idle" and name not in now
        }
        if self._survey.unseen:
            # What was idle may have been busy while nobody saw it: it begins anew.
            idle = {}
        moving = {
            name: _waited_for(each, at) if name in self._under_way else each
            for name, each in before.moving.items()
            if name in machines and (at < each.until or name in self._under_way)
        }
        for name, convert in now.items():
            moving[name] = Moving(convert.to, at, at + PATIENCE, convert.jobs, convert.pods)
        has_room = {uid: before.has_room_since[uid] for uid in self._queue.given_up}
        for group in self._queue.groups:
            for pod in group.pods if group.moves else ():
                rank, since = placement.nodes.get(pod.key, (None, ""))[0], before.has_room_since.get(pod.uid)
                if rank is not None and since is not None and at - since < TRIED_AGAIN_AFTER:
                    has_room[pod.uid] = since
                elif rank == THERE:
                    has_room[pod.uid] = at
        return PoolMemory(
            idle_since=in_order(idle),
            moving=in_order(moving),
            backoffs=in_order({name: each for name, each in before.backoffs.items() if name in machines}),
            abandoned=self._survey.abandoned,
            has_room_since=in_order(has_room),
        )


def _waited_for(moving: Moving, at: datetime) -> Moving:
    """Give what is under way its time from the last look on: it may have waited for its turn."""
    return replace(moving, until=max(moving.until, at + PATIENCE))


def _need(pods: Sequence[str]) -> str:
    if len(pods) == 1:
        return f"pod {pods[0]} needs it"
    return f"pods {', '.join(pods[:_NAMED])}{' and more' if len(pods) > _NAMED else ''} need it"

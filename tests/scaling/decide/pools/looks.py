"""Looks at clusters with converged pools: by hand, and of all kinds by hypothesis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.properties import chances
from tests.scaling.decide.cluster_states import AT, cluster_state, job, machine, node, running, seconds, spec
from tidepool.clients.kubernetes.objects import POOL_LABEL, Pod, Resources
from tidepool.clients.kubernetes.objects import Node as KubernetesNode
from tidepool.clients.slurm import Job
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.cluster.spec import ClusterSpec
from tidepool.conversion.record import Conversion, Order
from tidepool.scaling.cluster_state import ClusterState, KubernetesState, PoolsState, RecordedRole
from tidepool.scaling.memory import Backoff, Memory, Moving, PoolMemory

MIB = 1 << 20


def pool(name: str = "shared", number: int = 1, **changes: Any) -> dict[str, Any]:
    """A pool of four machines of four processors; an idle one may move at once."""
    return {
        "name": name,
        "subnet": f"10.77.{20 + number}.0/24",
        "machines": 4,
        "shape": {"cpus": 4, "memory": 4000},
        "idle_s": 0,
        "minimum_stay_s": 60,
    } | changes


def pools_spec(*pools: dict[str, Any], fleets: Iterable[dict[str, Any]] = (), **changes: Any) -> ClusterSpec:
    """A cluster of these pools; of one, `shared`, where none is said; and without fleets."""
    of = spec(pools=list(pools) or [pool()], kubernetes={}, **changes)
    return of if fleets else of.model_copy(update={"fleets": ()})


def pod(name: str, **changes: Any) -> Pod:
    """A pod of one processor that the scheduler finds no node for."""
    fields: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "phase": "Pending",
        "node": "",
        "labels": FrozenDict(),
        "requests": Resources(1000, 100 * MIB),
        "node_selector": FrozenDict(),
        "affinity": (),
        "tolerations": (),
        "owner": "",
        "priority": 0,
        "created": AT - seconds(5),
        "deleting_until": None,
        "unschedulable": "0/1 nodes are available: 1 Insufficient cpu",
    }
    return Pod(**fields | changes)


def bound(name: str, node: str, **changes: Any) -> Pod:
    """A pod that runs on a node."""
    return pod(name, node=node, phase="Running", unschedulable="", **changes)


def kube_node(name: str, **changes: Any) -> KubernetesNode:
    """A node that is ready and empty."""
    fields: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": FrozenDict({POOL_LABEL: name.rpartition("-")[0], "kubernetes.io/hostname": name}),
        "taints": (),
        "unschedulable": False,
        "ready": True,
        "message": "kubelet is posting ready status",
        "allocatable": Resources(4000, 4000 * MIB),
        "created": AT - seconds(3600),
    }
    return KubernetesNode(**fields | changes)


def conversion(
    name: str, to: Role, phase: Any, ended_s_ago: float | None = None, id: int = 1, **changes: Any
) -> Conversion:
    """A conversion that was ordered ten seconds before it ended, or a minute ago."""
    ended = None if ended_s_ago is None else AT - seconds(ended_s_ago)
    order: dict[str, Any] = {
        "node": name,
        "pool": name.rpartition("-")[0],
        "to": to,
        "at": (ended - seconds(10)) if ended else AT - seconds(60),
        "by": "scaler",
        "reason": "pods wait",
    }
    order |= {key: changes.pop(key) for key in list(changes) if key in Order.__slots__}
    leaves: Role = "slurm" if to == "kubernetes" else "kubernetes"
    return Conversion(id, Order(**order), leaves, phase, ended=ended, **changes)


def look(
    roles: Mapping[str, Role],
    *,
    of: ClusterSpec | None = None,
    jobs: tuple[Job, ...] = (),
    pods: tuple[Pod, ...] = (),
    conversions: tuple[Conversion, ...] | None = (),
    nodes: Mapping[str, Any] | None = None,
    kube_nodes: Mapping[str, Any] | None = None,
    **changes: Any,
) -> ClusterState:
    """A world in which machines of pools have ``roles`` and are as they should be: in Slurm those of jobs are allocated.

    ``nodes`` and ``kube_nodes`` have other values for some, None for one that is not there.
    """
    of = of or pools_spec()
    busy = {name for each in jobs if each.nodelist for name in each.nodelist.split(",")}
    slurm: dict[str, Any] = {}
    for each in of.pools:
        for slot in each.slots():
            name = slot.node_name
            serves = roles.get(name) == "slurm"
            state = ("ALLOCATED" if name in busy else "IDLE") if serves else "FUTURE"
            slurm[name] = node(name, state, cpus=each.shape.cpus, memory_mib=each.shape.memory_mib)
    kubernetes: dict[str, Any] = {
        name: kube_node(name) for name, role in roles.items() if role == "kubernetes"
    }
    slurm |= nodes or {}
    kubernetes |= kube_nodes or {}
    seen = PoolsState(
        roles={name: RecordedRole(role, machine=True) for name, role in roles.items()},
        kubernetes=KubernetesState(tuple(filter(None, kubernetes.values())), pods),
        conversions=conversions,
    )
    fields: dict[str, Any] = {
        "machines": tuple(map(machine, roles)),
        "recorded": {},
        "desired": {},
        "pools": seen,
    }
    return cluster_state(*filter(None, slurm.values()), of=of, jobs=jobs, **fields | changes)


def blind(seen: ClusterState, *fields: str) -> ClusterState:
    """The same, where some of the pools could not be seen."""
    nothing: dict[str, Any] = dict.fromkeys(fields)
    return replace(seen, pools=replace(seen.pools, **nothing))


# Of all kinds

_ROLES: Sequence[Role | None] = (*("slurm", "kubernetes") * 4, None)
_SIDES: Sequence[Role] = ("slurm", "kubernetes")
#: About `minimum_stay_s`, about the stay of what a person moved, and long ago.
_AGO = (0.5, 5, 30, 59, 60, 61, 599, 600, 700)


def looks() -> st.SearchStrategy[tuple[ClusterState, Memory]]:
    """Two pools in any state, jobs, pods and conversions, and what may be remembered of them.

    In most something waits that a machine on the other side would do for: else there were little to say of what moves.
    """
    return chances().map(_a_look)


def _one_in(number: int, chance: Random) -> bool:
    return chance.randrange(number) == 0


def _a_pool(name: str, number: int, chance: Random) -> dict[str, Any]:
    machines = chance.choice([1, 2, 3, 4, 4])
    most = chance.choice([0, 1, 1, machines])
    slurm_min, kubernetes_min = chance.randint(0, most), chance.randint(0, most)
    if slurm_min + kubernetes_min > machines:
        slurm_min = 0
    return pool(
        name,
        number,
        machines=machines,
        slurm_min=slurm_min,
        kubernetes_min=kubernetes_min,
        slurm_max=chance.choice([None, machines, max(slurm_min, machines - kubernetes_min)]),
        kubernetes_max=chance.choice([None, machines, machines - slurm_min]),
        prefers=chance.choice(_SIDES),
        idle_s=chance.choice([0, 10]),
        minimum_stay_s=chance.choice([0, 60, 60]),
    )


def _a_conversion(name: str, role: Role | None, id: int, chance: Random) -> Conversion:
    """The last of a machine of `role`: mostly the one that gave it its role, or one that left it what it was."""
    by = chance.choice(["scaler", "person", "up"])
    if _one_in(8, chance):
        driver_until = AT + seconds(chance.choice([-5, 5]))
        phase = chance.choice(["asked", "emptying", "joining", "restoring"])
        return conversion(name, chance.choice(_SIDES), phase, id=id, by=by, driver_until=driver_until)
    to = chance.choice(_SIDES) if role is None or _one_in(8, chance) else role
    phase = chance.choice(["done", "done", "done", "done", "stopped", "stopped", "failed"])
    cancel_by = chance.choice(["", "person", "scaler"]) if phase == "stopped" else ""
    return conversion(name, to, phase, chance.choice(_AGO), id=id, by=by, cancel_by=cancel_by)


def _a_look(chance: Random) -> tuple[ClusterState, Memory]:
    of = pools_spec(_a_pool("shared", 1, chance), _a_pool("more", 2, chance))
    names = [slot.node_name for each in of.pools for slot in each.slots()]
    roles = {name: role for name in names if (role := chance.choice(_ROLES)) is not None}
    in_slurm = [name for name, role in roles.items() if role == "slurm"]
    in_kubernetes = [name for name, role in roles.items() if role == "kubernetes"]
    jobs = [running(100 + index, name, cpus=4) for index, name in enumerate(in_slurm) if _one_in(4, chance)]
    jobs += [
        job(
            number,
            cpus=chance.randint(1, 6),
            nodes=chance.randint(1, 2),
            priority=chance.randint(0, 3),
        )
        for number in range(1, 1 + chance.randint(0, 4))
    ]
    pods = [
        bound(f"on-{index}", name, is_daemon=_one_in(2, chance))
        for index, name in enumerate(in_kubernetes)
        if _one_in(3, chance)
    ]
    pods += [
        pod(
            f"p{number}",
            requests=Resources(chance.choice([0, 500, 2500, 4000, 5000]), chance.randint(0, 4500) * MIB),
            node_selector=FrozenDict(chance.choice([{}, {}, {}, {POOL_LABEL: "more"}, {"no": "such"}])),
            unschedulable=chance.choice(["no room", "no room", "no room", ""]),
            priority=chance.randint(0, 2),
            is_held=_one_in(10, chance),
        )
        for number in range(chance.randint(0, 5))
    ]
    conversions = [
        _a_conversion(name, roles.get(name), index + 1, chance)
        for index, name in enumerate(names)
        if _one_in(2, chance)
    ]
    odd = {
        name: node(name, chance.choice(["IDLE+DRAIN", "DOWN", "FUTURE", "IDLE"]), reason="broken fan")
        for name in names
        if _one_in(12, chance)
    }
    odd_nodes = {
        name: chance.choice([None, kube_node(name, ready=False), kube_node(name, unschedulable=True)])
        for name in names
        if _one_in(12, chance)
    }
    seen = look(
        roles,
        of=of,
        jobs=tuple(jobs),
        pods=tuple(pods),
        conversions=tuple(conversions),
        nodes=odd,
        kube_nodes=odd_nodes,
        under_way=frozenset(name for name in names if _one_in(12, chance)),
    )
    return seen, _a_memory(names, chance)


def _a_memory(names: Sequence[str], chance: Random) -> Memory:
    """Of machines. Setbacks and moves are near their end, before it, at it and after it."""

    def until() -> datetime:
        return AT + seconds(chance.choice([-5, -1, 0, 1, 5]))

    def some(one_in: int) -> list[str]:
        return [name for name in names if _one_in(one_in, chance)]

    return Memory(
        pools=PoolMemory(
            idle_since={
                name: AT - seconds(chance.choice([1, 9, 10, 11, 100]))
                for name in names
                if not _one_in(5, chance)
            },
            moving={name: Moving(chance.choice(_SIDES), AT - seconds(70), until()) for name in some(8)},
            backoffs={name: Backoff("transient", 1, until(), "no") for name in some(3)},
            abandoned={name: AT - seconds(chance.choice([1, 40])) for name in some(3)},
            has_room_since={
                f"uid-p{number}": AT - seconds(chance.choice([2, 20, 400, 4000]))
                for number in range(chance.randint(0, 3))
            },
        )
    )

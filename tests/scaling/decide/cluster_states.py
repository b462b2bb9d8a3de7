"""Worlds for tests of deciding: by hand, and of all kinds by hypothesis."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import Any

from hypothesis import strategies as st

from tidepool.clients.slurm import (
    Job,
    JobState,
    Node,
    NodeBase,
    NodeFlag,
    NodeState,
    Partition,
    PartitionState,
    Reason,
    Reservation,
)
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.scaling.cluster_state import ClusterState, Recorded
from tidepool.scaling.memory import Backoff, Drained, Launch, Memory, Spent

AT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
BOTH = Recorded(machine=True, membership=True)


def seconds(count: float) -> timedelta:
    """So many seconds."""
    return timedelta(seconds=count)


# By hand


def fleet(name: str = "cpu", number: int = 1, **changes: Any) -> dict[str, Any]:
    """A fleet of a spec, as YAML gives it."""
    return {
        "name": name,
        "subnet": f"10.77.{10 + number}.0/24",
        "max_nodes": 8,
        "shape": {"cpus": 4, "memory": 4000},
    } | changes


def spec(*fleets: dict[str, Any], **changes: Any) -> ClusterSpec:
    """A cluster of these fleets; of one, `cpu`, where none is said."""
    mapping = {
        "name": "physics",
        "network": "10.77.0.0/16",
        "fleets": list(fleets) or [fleet()],
        "partitions": [{"name": "main", "default": True}],
    }
    return read_spec(mapping | changes)


def node(name: str, state: str = "IDLE", reason: str = "", user: str = "root", **changes: Any) -> Node:
    """A node of 4 processors. Of one that is allocated all are, unless it is said otherwise."""
    parsed = NodeState.parse(state)
    changes.setdefault("cpus", 4)
    changes.setdefault("memory_mib", 4000)
    changes.setdefault("features", (name.rpartition("-")[0],))
    if parsed.base in (NodeBase.ALLOCATED, NodeBase.MIXED):
        changes.setdefault("cpus_alloc", changes["cpus"] if parsed.base is NodeBase.ALLOCATED else 1)
    return Node(
        name,
        parsed,
        partitions=("main",),
        reason=Reason(reason, user, AT - seconds(600)) if reason else None,
        **changes,
    )


def job(job_id: int, **changes: Any) -> Job:
    """A job of one processor that waits."""
    nodes, cpus = changes.get("nodes", 1), changes.get("cpus", 1)
    fields: dict[str, Any] = {
        "job_id": job_id,
        "array_job_id": job_id,
        "array_tasks": "",
        "het_job_id": None,
        "state": JobState.PENDING,
        "reason": "Resources",
        "partitions": ("main",),
        "user": "ada",
        "qos": "normal",
        "nodes": nodes,
        "max_nodes": None,
        "cpus": cpus,
        "min_cpus_per_node": 1,
        "tasks": cpus,
        "cpus_per_task": 1,
        "min_memory_mib": 100,
        "tmp_disk_mib": 0,
        "features": "",
        "tres": {"cpu": str(cpus), "node": str(nodes), "mem": f"{100 * nodes}M", "billing": str(cpus)},
        "tres_per_job": {},
        "tres_per_node": {},
        "tres_per_socket": {},
        "tres_per_task": {},
        "licenses": {},
        "dependency": "",
        "reservation": "",
        "oversubscribe": "OK",
        "contiguous": False,
        "priority": 1000,
        "time_limit_s": 3600,
        "submit_time": AT - seconds(10),
        "begin_time": AT - seconds(10),
        "start_time": None,
        "end_time": None,
        "nodelist": "",
        "required_nodes": "",
        "batch": True,
        "restarts": 0,
        "account": "physics",
        "name": "run",
    }
    return Job(**fields | changes)


def running(job_id: int, nodelist: str, **changes: Any) -> Job:
    """A job that has run for a minute."""
    limit_s = changes.get("time_limit_s", 3600)
    begun = AT - seconds(60)
    return job(
        job_id,
        **{
            "state": JobState.RUNNING,
            "reason": "",
            "nodelist": nodelist,
            "start_time": begun,
            "end_time": None if limit_s is None else begun + seconds(limit_s),
        }
        | changes,
    )


def machine(name: str, state: Any = "running", number: int = 1) -> Machine:
    """The so manieth machine of a node."""
    return Machine(MachineKey("physics", name, f"m-{number}"), IPv4Address("10.77.11.1"), state)


def reservation(
    name: str, nodes: str, begins_in_s: float, *flags: str, lasting_s: float = 3600
) -> Reservation:
    """A reservation of nodes; active where it has begun."""
    begin = AT + seconds(begins_in_s)
    return Reservation(
        name=name,
        start_time=begin,
        end_time=begin + seconds(lasting_s),
        nodes=nodes,
        node_count=1,
        flags=frozenset(flags),
        users=("ada",),
        accounts=(),
        is_active=begins_in_s <= 0,
        partition="",
        features="",
        licenses={},
        tres={},
    )


def partition(name: str = "main") -> Partition:
    """A partition that takes jobs."""
    return Partition(
        name=name,
        state=PartitionState.UP,
        is_default=True,
        nodes="",
        total_nodes=0,
        total_cpus=0,
        max_time_s=None,
        default_time_s=None,
        max_nodes=None,
        priority_tier=1,
        oversubscribe="NO",
        allow_accounts=(),
        tres={},
    )


def cluster_state(
    *nodes: Node,
    of: ClusterSpec | None = None,
    jobs: tuple[Job, ...] = (),
    machines: tuple[Machine, ...] | None = (),
    recorded: Mapping[str, Recorded] | None = None,
    **changes: Any,
) -> ClusterState:
    """A world in which the other slots of the fleets are slots.

    Nodes that are more than that have a machine, a record and the scaler's wish, unless these are given.
    """
    of = of or spec()
    named = {each.name for each in nodes}
    slots = [
        node(slot.node_name, "FUTURE")
        for each in of.fleets
        for slot in each.slots()
        if slot.node_name not in named
    ]
    there = [each.name for each in nodes if not each.state.is_slot]
    fields: dict[str, Any] = {
        "machines": tuple(machine(name) for name in there) if machines == () else machines,
        "recorded": dict.fromkeys(there, BOTH) if recorded is None else recorded,
        "desired": desired(*there),
        "partitions": tuple(partition(each.name) for each in of.partitions),
    }
    return ClusterState(AT, of, (*nodes, *slots), jobs, **fields | changes)


def desired(*names: str) -> dict[str, HostSet]:
    """A wish of these nodes."""
    fleets = {name.rpartition("-")[0] for name in names}
    return {
        each: HostSet.from_names([name for name in names if name.rpartition("-")[0] == each])
        for each in sorted(fleets)
    }


def unseen(seen: ClusterState, *fields: str) -> ClusterState:
    """The same, where some could not be seen."""
    nothing: dict[str, Any] = dict.fromkeys(fields)
    return replace(seen, **nothing)


# Of all kinds

_FLEETS = ("cpu", "big", "gone")
_NAMES = st.builds("{}-{}".format, st.sampled_from(_FLEETS), st.integers(1, 6))
_ABSURD = st.sampled_from(("ctl", "login-1", "x", "cpu-99", "a-b-1", "cpu-0"))
_REASONS = st.sampled_from(
    (
        "",
        "tidepool: idle for 300 s",
        "tidepool: leaves the cluster",
        "broken fan",
        "Not responding",
        "Low RealMemory (reported:10 < 100.00% of configured:4000)",
        "gres/gpu count reported lower than configured (0 < 2)",
        "Node unexpectedly rebooted",
    )
)
_OFTEN = st.sampled_from(("IDLE", "IDLE", "ALLOCATED", "MIXED", "FUTURE", "IDLE+DRAIN", "DOWN"))
#: What nodes mostly are, with the reason that Slurm tells.
_USUAL = st.sampled_from(
    (
        ("IDLE", ""),
        ("IDLE+DRAIN", "tidepool: idle for 300 s"),
        ("MIXED", ""),
        ("IDLE+DRAIN", "tidepool: idle for 60 s"),
        ("MIXED+DRAIN", "tidepool: idle for 300 s"),
        ("FUTURE", ""),
        ("IDLE+DRAIN", "broken fan"),
        ("DOWN+NOT_RESPONDING", "Not responding"),
        ("IDLE+DRAIN", "tidepool: leaves the cluster"),
    )
)
_FLAGS = st.frozensets(st.sampled_from([*NodeFlag, "SOMETHING_NEW"]), max_size=3)
_STATES = st.one_of(
    _OFTEN.map(NodeState.parse), st.builds(NodeState, st.sampled_from(list(NodeBase)), _FLAGS)
)
_MOMENTS = st.integers(-4000, 4000).map(lambda count: AT + seconds(count))
_PAST = st.integers(-4000, 0).map(lambda count: AT + seconds(count))


def _some_specs(count: int) -> tuple[ClusterSpec, ...]:
    """Two fleets with prices, limits and policies of all kinds. Made once, for reading a spec takes its time."""
    chance = random.Random(5)

    def kind(name: str, number: int) -> dict[str, Any]:
        most = chance.randint(1, 6)
        here = {"name": "libvirt", "price_usd_per_hour": chance.choice((0, 0.5, 3))}
        if chance.random() < 0.2:
            here["max_nodes"] = chance.randint(0, 6)
        return fleet(
            name,
            number,
            max_nodes=most,
            min_nodes=chance.randint(0, min(most, 2)) * chance.randint(0, 1),
            shape={"cpus": 4 * number, "memory": 4000 * number},
            infrastructures=[here],
            idle_timeout_s=chance.choice((0, 60, 300)),
        )

    def one() -> ClusterSpec:
        policies: list[Any] = [chance.choice(("queue", {"name": "backlog", "minutes": 30}))]
        fleets = [kind("cpu", 1), kind("big", 2)]
        if chance.random() < 0.3:
            suspended = chance.randint(0, fleets[0]["max_nodes"] - 1)
            policies.append({"name": "warm", "fleet": "cpu", "nodes": 1, "suspended": suspended})
        if chance.random() < 0.3:
            policies.append({"name": "account", "account": "physics", "max_nodes": chance.randint(0, 4)})
        limits: dict[str, Any] = {}
        if chance.random() < 0.3:
            limits["max_nodes"] = chance.randint(sum(each["min_nodes"] for each in fleets), 10)
        if chance.random() < 0.3:
            limits["price_usd_per_hour"] = chance.randint(0, 10)
        if chance.random() < 0.3:
            limits["budget_usd_per_month"] = chance.randint(0, 3000)
        mode = chance.choice(("slots", "slots", "slots", "power_save"))
        if mode == "power_save":
            policies = [each for each in policies if not isinstance(each, dict) or "suspended" not in each]
        own = {"infrastructure": "libvirt"}
        return spec(*fleets, limits=limits, controller=own, scaling={"policies": policies, "mode": mode})

    return tuple(one() for _ in range(count))


_SPECS = st.sampled_from(_some_specs(40))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """A node in some state."""
    if draw(st.integers(0, 2)):
        written, text = draw(_USUAL)
        state = NodeState.parse(written)
    else:
        state, text = draw(_STATES), draw(_REASONS)
    cpus = 8 if name.startswith("big") else 4
    alloc = draw(st.integers(1, cpus)) if state.base in (NodeBase.ALLOCATED, NodeBase.MIXED) else 0
    return Node(
        name,
        state,
        cpus=cpus,
        cpus_alloc=draw(st.sampled_from((alloc, alloc, 0, 1))),
        memory_mib=cpus * 1000,
        features=(name.rpartition("-")[0],),
        partitions=("main",),
        reason=Reason(text, draw(st.sampled_from(("root", "slurm", "ada"))), draw(_PAST)) if text else None,
        last_busy_time=draw(st.none() | _MOMENTS),
        slurmd_start_time=draw(st.none() | _PAST),
    )


@st.composite
def jobs(draw: st.DrawFn, job_id: int) -> Job:
    """A job that waits or runs."""
    fields: dict[str, Any] = {
        "nodes": draw(st.integers(1, 3)),
        "cpus": draw(st.integers(1, 9)),
        "account": draw(st.sampled_from(("physics", "biology"))),
        "priority": draw(st.integers(0, 5)),
        "time_limit_s": draw(st.sampled_from((None, 60, 3600))),
        "features": draw(st.sampled_from(("", "", "cpu", "cpu|big", "nothing"))),
        "reason": draw(st.sampled_from(("Resources", "Priority", "Resources", "JobHeldUser", "Licenses"))),
        "array_tasks": draw(st.sampled_from(("", "", "0-3"))),
    }
    if draw(st.booleans()):
        names = draw(st.lists(_NAMES, min_size=1, max_size=2, unique=True))
        state = draw(st.sampled_from((JobState.RUNNING, JobState.COMPLETING, JobState.CONFIGURING)))
        end = draw(st.none() | _MOMENTS)
        return running(
            job_id, ",".join(names), **fields | {"state": state, "end_time": end, "array_tasks": ""}
        )
    return job(job_id, **fields)


_POWERS = st.sampled_from(
    (
        ("running",),
        ("running",),
        ("running",),
        ("stopped",),
        (),
        ("stopped", "running"),
        ("unknown",),
        ("suspended",),
    )
)
_RECORDS = st.sampled_from(
    (
        BOTH,
        BOTH,
        BOTH,
        replace(BOTH, image="a"),
        Recorded(machine=True),
        replace(BOTH, pending=True),
        replace(BOTH, is_suspended=True),
        None,
        None,
    )
)


@st.composite
def cluster_states(draw: st.DrawFn) -> ClusterState:
    """A world that has all kinds of mischief in it."""
    of = draw(_SPECS)
    slots = [slot.node_name for each in of.fleets for slot in each.slots()]
    names = draw(st.lists(st.sampled_from(slots) | _NAMES | _ABSURD, max_size=8, unique=True))
    told = [draw(nodes(name)) for name in names]
    told += [node(name, "FUTURE") for name in slots if name not in names and draw(st.integers(0, 19))]
    listed = [
        machine(name, state, number) for name in names for number, state in enumerate(draw(_POWERS), start=1)
    ]
    records = {name: record for name in names if (record := draw(_RECORDS)) is not None}
    some = st.frozensets(st.sampled_from([*names, "cpu-1"]), max_size=3)
    return ClusterState(
        AT,
        of,
        tuple(told),
        tuple(draw(jobs(number)) for number in range(1, draw(st.integers(0, 5)) + 1)),
        (partition(),),
        tuple(
            reservation(f"r{number}", draw(_NAMES), draw(st.integers(-100, 100)))
            for number in range(draw(st.integers(0, 1)))
        ),
        machines=draw(st.sampled_from((tuple(listed), tuple(listed), tuple(listed), None))),
        recorded=draw(st.sampled_from((records, records, records, None))),
        images={"cpu": draw(st.sampled_from(("a", "b")))},
        desired=desired(
            *(name for name in names if "-" in name and draw(st.integers(0, 3 if name in records else 1)))
        ),
        under_way=draw(st.sampled_from((frozenset(), frozenset(), frozenset(names[:2])))),
        power_up=draw(some),
        power_down=draw(some),
    )


@st.composite
def memories(draw: st.DrawFn, seen: ClusterState) -> Memory:
    """What may be remembered of a world; some of it in the future, for clocks jump."""
    names = sorted({each.name for each in seen.nodes}) or ["cpu-1"]
    some = st.lists(st.sampled_from(names), max_size=4, unique=True)
    causes = st.sampled_from(("capacity", "transient", "permanent", "boot"))
    backoffs = st.builds(Backoff, causes, st.integers(1, 5), _MOMENTS, st.just("no luck"))
    times = _PAST | _PAST | _MOMENTS

    def launch() -> Launch:
        since = draw(times)
        return Launch(since, since + seconds(60), (), draw(st.sampled_from((None, 0, 60))))

    return Memory(
        idle_since={name: draw(times) for name in draw(some)},
        launches={name: launch() for name in draw(some)},
        drains={name: Drained(draw(times), "tidepool: idle for 300 s") for name in draw(some)},
        undrained={name: draw(times) for name in draw(some)},
        awaited={name: draw(_MOMENTS) for name in draw(some)},
        fleet_backoffs={
            name: draw(backoffs) for name in draw(st.lists(st.sampled_from(_FLEETS), max_size=1))
        },
        node_backoffs={name: draw(backoffs) for name in draw(some)},
        strays={each.key: draw(times) for each in seen.machines or () if draw(st.booleans())},
        ill_since={name: draw(times) for name in draw(some)},
        has_room_since={},
        spent=draw(st.none() | st.builds(Spent, st.just("2026-11"), st.floats(0, 2000), times)),
    )

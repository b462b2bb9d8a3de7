"""Values for journals: a world and a decision to begin with, and strategies for any value of a type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from ipaddress import IPv4Address
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from tidepool.clients.slurm import Node, NodeState
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import MachineKey
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Action, Decision, DeleteOrphan, Drain, Launch, Waiting
from tidepool.scaling.memory import Memory

NOW = datetime(2026, 11, 21, 12, 0, 0, 250, tzinfo=UTC)

SPEC = ClusterSpec.model_validate(
    {
        "name": "physics",
        "network": "10.77.0.0/16",
        "fleets": [
            {
                "name": "cpu",
                "subnet": "10.77.1.0/24",
                "max_nodes": 8,
                "shape": {"cpus": 2, "memory": "4GiB", "gres": ["fpga:2"]},
                "infrastructures": [{"name": "local", "options": {"a": [1, {"b": 2.5}], "c": None}}],
            }
        ],
        "partitions": [{"name": "main", "options": {"PriorityTier": 3}}],
        "scaling": {
            "policies": [
                "queue",
                {"name": "schedule", "fleet": "cpu", "nodes": 2, "begin": "08:00", "end": "18:00"},
            ]
        },
    }
)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_cluster_state(nodes: int = 2, at: datetime = NOW) -> ClusterState:
    return ClusterState(
        at,
        SPEC,
        tuple(Node(f"cpu-{number}", NodeState.parse("IDLE+CLOUD")) for number in range(1, nodes + 1)),
        (),
        desired={"cpu": HostSet("cpu-[1-2]")},
        under_way=frozenset({"cpu-2"}),
    )


def a_decision(*actions: Action, at: datetime = NOW, desired: str = "cpu-[1-3]") -> Decision:
    return Decision(
        at,
        actions or (LAUNCH, DRAIN, DELETE_ORPHAN),
        {7: Waiting(7, "coming", "cpu-3 is being made for it", ("cpu-3",))},
        {"cpu": HostSet(desired)},
        {},
        Memory(idle_since={"cpu-1": NOW}, strays={MachineKey("physics", "cpu-9", "i-2"): NOW}),
    )


LAUNCH = Launch("cpu", ("cpu-3",), "job 7 waits", (7,))
DRAIN = Drain("cpu", ("cpu-1", "cpu-2"), "idle for 5 minutes")
DELETE_ORPHAN = DeleteOrphan(MachineKey("physics", "cpu-9", "i-2"), "no record knows it")

#: Anything that a person may write, what UTF-8 cannot have too.
TEXTS = st.text(st.characters(), max_size=8)
_TIMES = st.datetimes(
    datetime(1971, 1, 1),  # noqa: DTZ001 - the zone is added
    datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
_HOSTLISTS = st.sampled_from(["", "cpu-1", "cpu-[1-4,9]", "a01,b-[08-11]"]).map(HostSet)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | _TIMES,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of the type."""
    simple = {
        str: TEXTS,
        int: st.integers(),
        bool: st.booleans(),
        float: st.floats(allow_nan=False),
        NoneType: st.none(),
        datetime: _TIMES,
        HostSet: _HOSTLISTS,
        IPv4Address: st.ip_addresses(v=4),
        ClusterSpec: st.just(SPEC),
        Any: _PLAIN,
    }
    if kind in simple:
        return simple[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, arguments))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is frozenset:
        return st.frozensets(values(arguments[0]), max_size=3)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3).map(FrozenDict)
    if issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else kind._fields
    return st.builds(kind, **{name: values(hints[name]) for name in names})

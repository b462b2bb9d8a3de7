"""Every value comes back as it was."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scaling.journal.values import NOW, TEXTS, a_cluster_state, a_decision, values
from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures import MachineKey
from tidepool.scaling.cluster_state import ClusterState, Recorded
from tidepool.scaling.decision import (
    Action,
    Convert,
    Cost,
    DeleteOrphan,
    Launch,
    MachineView,
    ReleaseSlot,
    Repair,
    Waiting,
    WaitingPod,
)
from tidepool.scaling.journal.codec import Unreadable, dumps, loads
from tidepool.scaling.memory import Backoff, Memory, PoolMemory
from tidepool.scaling.ports import JobRecord, Kept, Look, Pause, Sample

KINDS: list[Any] = [
    Action,
    Cost,
    Kept,
    Memory,
    Pause,
    Sample,
    JobRecord,
    ClusterState,
    Mapping[int, Waiting],
    Mapping[str, MachineView],
    Mapping[str, WaitingPod],
    tuple[Action, ...],
    Mapping[str, HostSet],
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(getattr(kind, "__name__", kind)))
def test_every_value_comes_back(kind: Any) -> None:
    @settings(max_examples=25, deadline=None, database=None)
    @given(values(kind))
    def comes_back(value: Any) -> None:
        written = dumps(kind, value)
        assert loads(kind, written) == value
        assert dumps(kind, loads(kind, written)) == written

    comes_back()


def test_what_comes_back_is_frozen_and_of_the_same_types() -> None:
    state = loads(ClusterState, dumps(ClusterState, a_cluster_state()))
    with pytest.raises(TypeError, match="frozen"):
        state.desired["cpu"] = HostSet()
    assert type(state.nodes[0]) is type(a_cluster_state().nodes[0])
    assert state.nodes[0].state.takes_jobs
    assert type(state.under_way) is frozenset
    assert state.spec.fleet("cpu").shape.gres[0].count == 2
    assert hash(state.spec.fleet("cpu").infrastructures) == hash(
        a_cluster_state().spec.fleet("cpu").infrastructures
    )


def test_times_come_back_in_utc_and_none_is_without_a_zone() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=2)))
    assert loads(datetime, dumps(datetime, east)).isoformat() == NOW.isoformat()
    with pytest.raises(ValueError, match="has no time zone"):
        dumps(datetime, NOW.replace(tzinfo=None))


@dataclass(frozen=True)
class Old:
    name: str


@dataclass(frozen=True)
class New:
    name: str
    more: int = 3


class Row(NamedTuple):
    name: str
    must: int


def test_a_field_that_came_later_has_its_default_and_one_that_went_is_passed_over() -> None:
    assert loads(New, dumps(Old, Old("a"))) == New("a")
    assert loads(Old, dumps(New, New("a", 4))) == Old("a")
    many = (Old("a"), Old("b"))
    assert loads(tuple[New, ...], dumps(tuple[Old, ...], many)) == (New("a"), New("b"))
    with pytest.raises(Unreadable, match="Row without must"):
        loads(tuple[Row, ...], dumps(tuple[Old, ...], many))
    with pytest.raises(Unreadable, match="Row without must"):
        loads(Row, dumps(Old, Old("a")))


def test_many_of_one_class_name_their_fields_once() -> None:
    written = dumps(ClusterState, a_cluster_state(nodes=1000))
    assert zlib.decompress(written).count(b'"slurmd_start_time":') == 1
    assert len(written) < 20_000


@settings(max_examples=60, deadline=None, database=None)
@given(st.binary(max_size=40) | TEXTS.map(lambda text: json.dumps([text]).encode()))
def test_what_is_none_is_unreadable(written: bytes) -> None:
    with pytest.raises(Unreadable):
        loads(ClusterState, written)


def test_a_class_of_another_name_is_no_action() -> None:
    launch = dumps(Action, Launch("cpu", ("cpu-1",), "why"))
    with pytest.raises(Unreadable):
        loads(Action, launch.replace(b"Launch", b"Lunch"))


def test_a_type_that_cannot_be_written_is_said_at_once() -> None:
    with pytest.raises(TypeError, match="cannot write"):
        dumps(tuple[int, str], (1, "a"))


_AT = "2026-11-23T12:00:00+00:00"
_NODES = {"fleet": "cpu", "nodes": ["cpu-1"], "reason": "lost"}
#: Written before classes and fields got the names that they have now, which is how they are written still.
_OF_OLD = [
    (Action, ["Mend", _NODES], Repair("cpu", ("cpu-1",), "lost")),
    (Action, ["Forget", _NODES], ReleaseSlot("cpu", ("cpu-1",), "lost")),
    (
        Action,
        ["Sweep", {"machine": {"stack": "dev", "node": "cpu-9", "machine_id": "i-2"}, "reason": "lost"}],
        DeleteOrphan(MachineKey("dev", "cpu-9", "i-2"), "lost"),
    ),
    (Action, ["Launch", _NODES | {"place": "aws"}], Launch("cpu", ("cpu-1",), "lost", location="aws")),
    (
        Action,
        ["Convert", {"pool": "a", "nodes": ["a-1"], "to": "slurm", "reason": "begun", "mends": True}],
        Convert("a", ("a-1",), "slurm", "begun", repairs=True),
    ),
    (Kept, {"wish": {"cpu": "cpu-[1-2]"}}, Kept({"cpu": HostSet("cpu-[1-2]")})),
    (
        Memory,
        {
            "fleet_setbacks": {"cpu@aws": {"cause": "boot", "failures": 3, "until": _AT, "text": "dead"}},
            "node_setbacks": {
                "cpu-1": {"cause": "boot", "failures": 1, "until": _AT, "text": "dead", "place": "aws"}
            },
            "places": {"cpu-1": "aws"},
            "pools": {"setbacks": {"a-1": {"cause": "boot", "failures": 1, "until": _AT, "text": "dead"}}},
        },
        Memory(
            fleet_backoffs={"cpu@aws": Backoff("boot", 3, datetime.fromisoformat(_AT), "dead")},
            node_backoffs={"cpu-1": Backoff("boot", 1, datetime.fromisoformat(_AT), "dead", "aws")},
            locations={"cpu-1": "aws"},
            pools=PoolMemory(backoffs={"a-1": Backoff("boot", 1, datetime.fromisoformat(_AT), "dead")}),
        ),
    ),
    (Recorded, {"machine": True, "place": "aws"}, Recorded(machine=True, location="aws")),
]


@pytest.mark.parametrize(("kind", "document", "value"), _OF_OLD)
def test_what_was_renamed_is_read_and_written_by_its_old_name(kind: Any, document: Any, value: Any) -> None:
    assert loads(kind, json.dumps(document).encode()) == value
    written = json.loads(_plain(dumps(kind, value)))
    assert _is_part_of(document, written)


def test_keys_of_machines_that_had_generations_are_read_without_them() -> None:
    document = ["Sweep", {"machine": {"stack": "dev", "node": "cpu-9", "generation": 1}, "reason": "lost"}]
    assert loads(Action, json.dumps(document).encode()) == DeleteOrphan(MachineKey("dev", "cpu-9"), "lost")


def test_the_state_in_a_look_is_written_as_world() -> None:
    look = Look(1, a_cluster_state().spec, a_decision(), a_cluster_state())
    written = json.loads(_plain(dumps(Look, look)))
    assert written["world"]["wish"] == {"cpu": "cpu-[1-2]"}
    assert written["decision"]["wish"] == {"cpu": "cpu-[1-3]"}


def _plain(written: bytes) -> bytes:
    return written if written[:1] in b"[{" else zlib.decompress(written)


def _is_part_of(document: Any, written: Any) -> bool:
    if isinstance(document, dict):
        return all(key in written and _is_part_of(inner, written[key]) for key, inner in document.items())
    if isinstance(document, list):
        return all(_is_part_of(*each) for each in zip(document, written, strict=True))
    return bool(document == written)

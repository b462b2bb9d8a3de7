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

from tests.scaling.journal.values import NOW, TEXTS, a_world, values
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.cluster_state import World
from tidepool.scaling.decision import Action, Cost, Launch, MachineView, Waiting, WaitingPod
from tidepool.scaling.journal.codec import Unreadable, dumps, loads
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Kept, Pause, Sample, SeenJob

KINDS: list[Any] = [
    Action,
    Cost,
    Kept,
    Memory,
    Pause,
    Sample,
    SeenJob,
    World,
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
    world = loads(World, dumps(World, a_world()))
    with pytest.raises(TypeError, match="frozen"):
        world.wish["cpu"] = HostSet()
    assert type(world.nodes[0]) is type(a_world().nodes[0])
    assert world.nodes[0].state.takes_jobs
    assert type(world.under_way) is frozenset
    assert world.spec.fleet("cpu").shape.gres[0].count == 2
    assert hash(world.spec.fleet("cpu").infrastructures) == hash(a_world().spec.fleet("cpu").infrastructures)


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
    written = dumps(World, a_world(nodes=1000))
    assert zlib.decompress(written).count(b'"slurmd_start_time":') == 1
    assert len(written) < 20_000


@settings(max_examples=60, deadline=None, database=None)
@given(st.binary(max_size=40) | TEXTS.map(lambda text: json.dumps([text]).encode()))
def test_what_is_none_is_unreadable(written: bytes) -> None:
    with pytest.raises(Unreadable):
        loads(World, written)


def test_a_class_of_another_name_is_no_action() -> None:
    launch = dumps(Action, Launch("cpu", ("cpu-1",), "why"))
    with pytest.raises(Unreadable):
        loads(Action, launch.replace(b"Launch", b"Lunch"))


def test_a_type_that_cannot_be_written_is_said_at_once() -> None:
    with pytest.raises(TypeError, match="cannot write"):
        dumps(tuple[int, str], (1, "a"))

"""Jobs of each machine are bound to other processors, as long as there are some; then they take turns."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.infrastructures.local.kernel.layout import Paths, machine_paths
from tidepool.infrastructures.local.kernel.processors import in_order, take_processors, topology


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=30))
def test_machines_that_come_and_go_share_none_while_there_are_enough(
    there: int, steps: list[tuple[int, bool]]
) -> None:
    everything = [3 * each for each in range(there)]
    machines: list[tuple[int, ...]] = []
    for turn, (count, leaves) in enumerate(steps):
        if leaves and machines:
            machines.pop(turn % len(machines))
        order = in_order(everything, machines, count, turn)
        assert sorted(order) == everything
        used = {each for machine in machines for each in machine}
        unused = len(everything) - len(used)
        assert used.isdisjoint(order[:unused])
        machines.append(order[:count])


def test_neighbours_begin_with_others_where_all_are_taken() -> None:
    everything = [0, 1, 2, 3]
    firsts = {
        count: [in_order(everything, [(0, 1), (2, 3)], count, turn)[0] for turn in range(5)]
        for count in (1, 2, 4, 5, 8)
    }
    assert firsts == {
        1: [0, 1, 2, 3, 0],
        2: [0, 2, 0, 2, 0],
        4: [0, 1, 2, 3, 0],
        5: [0, 1, 2, 3, 0],
        8: [0, 1, 2, 3, 0],
    }


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Paths, Paths, Paths]:
    """Places of machines of three stacks, where there are four processors whatever this machine has."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    found = tuple(machine_paths(tmp_path, stack, "cpu-1") for stack in ("a", "b", "c"))
    for place in found:
        place.folder.mkdir(parents=True)
    return found[0], found[1], found[2]


def test_what_a_machine_had_is_another_s_when_it_is_gone(places: tuple[Paths, Paths, Paths]) -> None:
    one, other, third = places
    # By their addresses all would begin with the first.
    assert take_processors(one, 1.5, "10.0.0.0") == (0, 1, 2, 3)
    assert take_processors(other, 2, "10.0.0.2") == (2, 3, 0, 1)
    assert take_processors(third, 2, "10.0.0.4") == (0, 1, 2, 3), "all are taken"
    # One that boots again has what it had: its own are not another's.
    assert take_processors(other, 2, "10.0.0.2") == (2, 3, 0, 1)
    shutil.rmtree(other.folder)
    assert take_processors(third, 2, "10.0.0.4") == (2, 3, 0, 1)
    assert third.processors.read_text() == "2 3"


@pytest.mark.parametrize("held", [b"", b"0 one", b"0 1\n<cut", b"\xff\xfe", None])
def test_what_cannot_be_understood_holds_none(places: tuple[Paths, Paths, Paths], held: bytes | None) -> None:
    one, other, third = places
    take_processors(other, 1, "10.0.0.0")
    if held is None:
        one.processors.mkdir()
    else:
        one.processors.write_bytes(held)
    assert take_processors(third, 1, "10.0.0.0") == (1, 2, 3, 0)


def test_hwloc_is_told_of_as_many_as_slurmd_counts_by_the_numbers_of_the_kernel() -> None:
    def told(cpus: float, *processors: int) -> list[int]:
        found = Xml.fromstring(topology(cpus, processors)).iter("object")
        return [int(each.attrib["os_index"]) for each in found if each.attrib["type"] == "PU"]

    assert told(1, 1, 0) == [1, 0]
    assert told(4, 1, 0) == [1, 0, 1, 0]
    # More than has a mask of 32, and a number that is higher than there are processors.
    assert told(1.5, 40, 3)[:3] == [40, 3, 40]
    assert len(told(1.5, 40, 3)) == 41
    assert 'cpuset="0x000001ff,0xffffffff" ' in topology(1, (40,))

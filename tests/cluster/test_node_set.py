"""Which nodes a fleet should have, and which images its machines are made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.specs import spec_mapping, with_fleet
from tidepool.cluster.desired_state import node_set, slots_of
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec

numbers = st.sets(st.integers(1, 16))


def fleet(min_nodes: int = 0, max_nodes: int = 16) -> Fleet:
    return ClusterSpec.model_validate(with_fleet(0, min_nodes=min_nodes, max_nodes=max_nodes)).fleets[0]


def names(found: set[int]) -> HostSet:
    return HostSet.from_names(f"cpu-{number}" for number in found)


def test_at_first_they_are_the_first_names() -> None:
    assert str(node_set(fleet(min_nodes=3))) == "cpu-[1-3]"
    assert str(node_set(fleet())) == ""


def test_the_scaler_is_taken_at_its_word() -> None:
    assert str(node_set(fleet(min_nodes=3), desired="cpu-[4,9]", last="cpu-[1-3]")) == "cpu-[4,9]"
    assert str(node_set(fleet(), desired="", last="cpu-[1-3]")) == ""


def test_a_persons_up_undoes_nothing_and_adds_up_to_the_minimum() -> None:
    assert str(node_set(fleet(), last="cpu-[4,9]")) == "cpu-[4,9]"
    assert str(node_set(fleet(min_nodes=4), last="cpu-[1,4]")) == "cpu-[1-4]"


def test_a_lower_maximum_removes_nothing() -> None:
    assert str(node_set(fleet(max_nodes=2), last="cpu-[1-8]")) == "cpu-[1-8]"
    assert str(node_set(fleet(max_nodes=2), desired="cpu-[1,8]", last="cpu-[1-8]")) == "cpu-[1,8]"


def test_no_new_node_is_above_the_maximum() -> None:
    with pytest.raises(ValueError, match="no node cpu-9: its max_nodes is 2"):
        node_set(fleet(max_nodes=2), desired="cpu-[8-9]", last="cpu-[1-8]")


@pytest.mark.parametrize("source", ["desired", "last"])
def test_what_is_no_slot_of_the_fleet_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"gpu-1 is no node of fleet cpu: its slots are cpu-\[1-16\]"):
        node_set(fleet(), **{source: "gpu-1"})


@given(numbers, st.integers(0, 16))
def test_what_was_there_stays_and_there_are_enough(last: set[int], min_nodes: int) -> None:
    found = node_set(fleet(min_nodes=min_nodes), last=str(names(last)))
    assert names(last) <= found
    assert len(found) == max(len(last), min_nodes)
    assert found <= names(set(range(1, 17)))


@given(numbers)
def test_slots_are_in_the_order_of_their_numbers(found: set[int]) -> None:
    assert [slot.number for slot in slots_of(fleet(), names(found))] == sorted(found)


def test_the_nearest_name_of_an_image_counts() -> None:
    spec = ClusterSpec.model_validate(spec_mapping(image="all"))
    local, aws = spec.fleets[1].infrastructures
    assert (spec.images, spec.controller_image, spec.fleet_image(spec.fleets[1], aws)) == (
        ("all",),
        "all",
        "all",
    )
    mapping = with_fleet(1, image="fleet", infrastructures=["local", {"name": "aws", "image": "cloud"}])
    spec = ClusterSpec.model_validate({**mapping, "image": "all", "controller": {"image": "small"}})
    local, aws = spec.fleets[1].infrastructures
    assert spec.fleet_image(spec.fleets[1], local) == "fleet"
    assert spec.fleet_image(spec.fleets[1], aws) == "cloud"
    assert spec.images == ("all", "cloud", "fleet", "small")

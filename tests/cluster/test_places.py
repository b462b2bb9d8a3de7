"""Names, slots, addresses: what belongs together stays together."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.cluster import addresses
from tidepool.cluster.addresses import OwnAddresses, capacity, free_subnet, overlapping, slot_address
from tidepool.cluster.names import (
    cluster_name,
    feature_name,
    fleet_name,
    gres_name,
    partition_name,
    project_name,
)
from tidepool.cluster.slots import Slot, fleet_and_number, slots

SUBNET = IPv4Network("10.77.10.0/24")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (project_name, ["a", "physics-2", "x" * 40], ["", "Physics", "2a", "a_b", "a-", "x" * 41, "a.b"]),
        (cluster_name, ["a", "physics_2", "x" * 40], ["", "Physics", "2a", "a b", "x" * 41, "a.b", "é"]),
        (
            fleet_name,
            ["a", "cpu", "big-mem", "g4dn2"],
            ["", "Cpu", "cpu_1", "-a", "a-", "a.b", "cpu-1", "x" * 57, "all", "login", "ctl"],
        ),
        (partition_name, ["main", "Long_1.a-b"], ["", "a,b", "a b", "1a", "default", "ALL", "a=b"]),
        (feature_name, ["avx512", "_a", "mem=fast"], ["", "a&b", "a|b", "a*2", "[a]", "a,b", "2a", "a b"]),
        (gres_name, ["gpu", "a100-80g"], ["", "gpu:1", "a,b", "1"]),
    ],
)
def test_names_that_slurm_would_refuse_are_refused(
    check: Callable[[str], str], good: list[str], bad: list[str]
) -> None:
    for name in good:
        assert check(name) == name
    for name in bad:
        with pytest.raises(ValueError, match=r"name|feature|word"):
            check(name)


def test_a_mac_tells_the_address_of_its_machine_and_others_tell_none() -> None:
    address = IPv4Address("10.77.200.3")
    assert addresses.of_mac(addresses.mac(address)) == addresses.of_mac("02:74:0A:4D:C8:03") == address
    for other in ("", "02:74", "02:74:0a", "06:74:0a:4d:c8:03", "52:54:00:12:34:56"):
        assert addresses.of_mac(other) is None


def test_a_slot_is_name_number_address_and_mac() -> None:
    slot = Slot("cpu", 17, SUBNET)
    assert (slot.node_name, str(slot.address), slot.mac) == ("cpu-17", "10.77.10.17", "02:74:0a:4d:0a:11")
    assert fleet_and_number("big-mem-3") == ("big-mem", 3)
    for name in ("cpu", "cpu-", "cpu-0", "cpu-01", "-1", "cpu-1a"):
        with pytest.raises(ValueError, match="is no node's name"):
            fleet_and_number(name)
    for number in (0, 255):
        with pytest.raises(ValueError, match="has the slots 1 to 254"):
            Slot("cpu", number, SUBNET)


@given(st.integers(16, 30), st.integers(0, 255), st.data())
@runs()
def test_no_two_slots_share_anything(prefix: int, third: int, data: st.DataObject) -> None:
    subnet = IPv4Network(f"10.77.{third}.0/{prefix}", strict=False)
    number = data.draw(st.integers(1, min(capacity(subnet), 500)))
    made = list(slots("cpu", subnet, number))
    assert (
        len({s.address for s in made})
        == len({s.mac for s in made})
        == len({s.node_name for s in made})
        == number
    )
    assert all(s.address in subnet and fleet_and_number(s.node_name) == ("cpu", s.number) for s in made)
    # Locally administered (2), and to one machine (not 1).
    assert all(int(s.mac[:2], 16) & 3 == 2 for s in made)
    assert slot_address(subnet, number) == made[-1].address


def test_the_cluster_s_own_machines_are_apart_from_all_fleets() -> None:
    own = OwnAddresses(IPv4Network("10.77.0.0/16"))
    places = [own.gateway, own.controller, own.backup_controller, own.accounting, own.control_plane]
    places += [own.login(n) for n in range(1, 17)]
    assert len(set(places)) == 21
    assert all(place in own.range for place in places)
    assert str(own.range) == "10.77.0.0/26"


def test_which_subnets_overlap() -> None:
    texts = ["10.0.1.0/24", "10.0.2.0/24", "10.0.1.128/25", "10.0.0.0/16"]
    assert overlapping(map(IPv4Network, texts)) == [(0, 2), (0, 3), (1, 3), (2, 3)]


@given(
    st.integers(16, 25),
    st.lists(st.tuples(st.integers(0, 255), st.integers(22, 28)), max_size=6),
    st.integers(1, 600),
)
@runs()
def test_a_free_subnet_is_free(prefix: int, taken: list[tuple[int, int]], wanted: int) -> None:
    network = IPv4Network(f"10.77.0.0/{prefix}")
    others = [IPv4Network(f"10.77.{third}.0/{length}", strict=False) for third, length in taken]
    found = free_subnet(network, others, wanted)
    if found is not None:
        assert found.subnet_of(network)
        assert capacity(found) >= wanted
        assert not any(found.overlaps(other) for other in [*others, OwnAddresses(network).range])
    else:
        assert prefix > 16

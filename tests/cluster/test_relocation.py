"""A description in another network: what it says is the same, and its subnets are where they were."""

from __future__ import annotations

from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.specs import spec_mapping
from tidepool.cluster import addresses
from tidepool.cluster.relocation import in_network
from tidepool.cluster.spec_reading import read_spec

BEFORE = IPv4Network("10.77.0.0/16")


def test_subnets_move_with_the_network() -> None:
    mapping = spec_mapping()
    found = in_network(mapping, BEFORE, IPv4Network("172.20.0.0/16"))
    assert [fleet["subnet"] for fleet in found["fleets"]] == ["172.20.10.0/24", "172.20.12.0/23"]
    assert mapping == spec_mapping()
    assert in_network(found, IPv4Network("172.20.0.0/16"), BEFORE) == mapping


@given(
    st.sets(st.integers(0, 255).map(lambda second: IPv4Network(f"10.{second}.0.0/16")), max_size=6),
    st.integers(12, 25),
)
def test_a_free_network_is_as_large_as_asked_and_overlaps_nothing(
    taken: set[IPv4Network], prefix: int
) -> None:
    free = addresses.free_network(taken, prefix)
    assert free.prefixlen == prefix
    assert free.is_private
    assert not any(free.overlaps(other) for other in taken)


def test_a_spec_in_another_network_is_right_where_the_first_was() -> None:
    free = addresses.free_network([BEFORE])
    assert read_spec(in_network(spec_mapping(), BEFORE, free)).network == free

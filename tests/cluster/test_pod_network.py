"""Which addresses the pods of each machine have."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster import addresses
from tidepool.cluster.kubelet_files import api_address, pod_routes
from tidepool.cluster.pool import ConvergedPool, Kubernetes
from tidepool.cluster.shape import Shape

PODS = IPv4Network("10.240.0.0/16")
SIZES = st.lists(st.integers(1, 60), max_size=4)


def pools(sizes: list[int]) -> list[ConvergedPool]:
    return [
        ConvergedPool(
            name=f"p{number}",
            subnet=IPv4Network(f"10.77.{number + 1}.0/24"),
            machines=machines,
            shape=Shape(cpus=1, memory_mib=512),
        )
        for number, machines in enumerate(sizes)
    ]


def pod_subnets(network: IPv4Network, there: list[ConvergedPool]) -> dict[str, IPv4Network]:
    return {route.node: route.subnet for route in pod_routes(network, there)}


@given(SIZES)
def test_each_machine_has_a_subnet_of_its_own_within_the_network(sizes: list[int]) -> None:
    routes = pod_routes(PODS, pools(sizes))
    assert [(route.node, route.via) for route in routes] == [
        (slot.node_name, slot.address) for pool in pools(sizes) for slot in pool.slots()
    ]
    assert all(route.subnet.prefixlen == 24 and route.subnet.subnet_of(PODS) for route in routes)
    assert all(
        one.subnet < other.subnet and not one.subnet.overlaps(other.subnet) for one, other in pairwise(routes)
    )


@given(SIZES, st.integers(1, 30), st.data())
def test_no_pods_move_for_a_pool_behind_or_growth_within_a_block(
    sizes: list[int], behind: int, data: st.DataObject
) -> None:
    before = pod_subnets(PODS, pools(sizes))
    assert before.items() <= pod_subnets(PODS, pools([*sizes, behind])).items()
    grown = [data.draw(st.integers(size, addresses.pod_block(size))) for size in sizes]
    assert before.items() <= pod_subnets(PODS, pools(grown)).items()


def test_the_places_are_those_that_the_documentation_tells() -> None:
    subnets = pod_subnets(PODS, pools([3, 17, 1]))
    assert str(subnets["p0-1"]) == "10.240.0.0/24"
    assert str(subnets["p0-3"]) == "10.240.2.0/24"
    assert str(subnets["p1-1"]) == "10.240.16.0/24"
    assert str(subnets["p2-1"]) == "10.240.48.0/24"
    assert str(api_address(Kubernetes())) == "10.241.0.1"


def test_a_network_that_is_too_small_is_refused() -> None:
    assert len(pod_subnets(IPv4Network("10.240.0.0/22"), pools([4]))) == 4
    with pytest.raises(ValueError, match=r"10.240.0.0/22 has 4 subnets for pods, and the pools need 5"):
        pod_subnets(IPv4Network("10.240.0.0/22"), pools([5]))
    assert addresses.pod_subnets_in(IPv4Network("10.240.0.0/25")) == 0

"""Addresses of pods: a /24 of the pod network for each machine of each pool, and the way there.

Pools take their subnets in the order in which the spec has them, in blocks (`addresses.POD_BLOCK`): slot 3 of the first
pool has the third subnet. A pool that is added behind the others, or grows within its last block, moves no machine's
pods. One that is put between others, or grows beyond its blocks, moves those behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from tidepool.cluster import addresses

if TYPE_CHECKING:  # who writes routes reads no models
    from tidepool.cluster.pool import ConvergedPool, Kubernetes


@dataclass(frozen=True, slots=True)
class PodRoute:
    """The pods of ``node`` are in ``subnet``, behind its machine at the address ``via``."""

    node: str
    subnet: IPv4Network
    via: IPv4Address


def pod_subnets(pod_network: IPv4Network, pools: Sequence[ConvergedPool]) -> Mapping[str, IPv4Network]:
    """The subnet of the pods of each machine, by node name.

    Raises:
        ValueError: the network has not so many; says what to do.
    """
    return {route.node: route.subnet for route in pod_routes(pod_network, pools)}


def pod_routes(pod_network: IPv4Network, pools: Sequence[ConvergedPool]) -> tuple[PodRoute, ...]:
    """The routes that the control plane needs, and each machine besides that of its own pods.

    Raises:
        ValueError: the network has not so many subnets; says what to do.
    """
    if mistake := _too_small(pod_network, pools):
        raise ValueError(mistake)
    found, first = [], 0
    for pool in pools:
        for slot in pool.slots():
            subnet = addresses.pod_subnet(pod_network, first + slot.number - 1)
            found.append(PodRoute(slot.node_name, subnet, slot.address))
        first += addresses.pod_block(pool.machines)
    return tuple(found)


def api_address(kubernetes: Kubernetes) -> IPv4Address:
    """The address of the service ``kubernetes``, by which pods reach the API: the first of the service network."""
    return kubernetes.service_network[1]


def _too_small(pod_network: IPv4Network, pools: Sequence[ConvergedPool]) -> str:
    needed = addresses.pod_subnets_needed([pool.machines for pool in pools])
    there = addresses.pod_subnets_in(pod_network)
    return (
        "" if needed <= there else f"{pod_network} has {there} subnets for pods, and the pools need {needed}"
    )

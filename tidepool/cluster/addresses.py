"""Addresses: a stack's network, the places of its own machines in it, and the subnets of its fleets.

A stack is one flat network. Its first `OWN_PLACES` addresses are for the cluster's own machines; the rest is for
fleets, each in a subnet of its own that a person writes down once: slot 17 of a fleet has address 17 of its
subnet. So adding, removing or reordering fleets never moves a node, which Slurm would not follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations
from typing import Final

#: The first addresses of a network, which no fleet may take.
OWN_PLACES: Final = 64
#: Room for the cluster's own machines and one small fleet; and Slurm's limit on nodes.
LONGEST_NETWORK_PREFIX: Final = 25
SHORTEST_NETWORK_PREFIX: Final = 8
MOST_LOGIN_MACHINES: Final = 16

#: Where pods and services of Kubernetes are, unless a spec says otherwise.
POD_NETWORK: Final = IPv4Network("10.240.0.0/16")
SERVICE_NETWORK: Final = IPv4Network("10.241.0.0/16")

_PRIVATE: Final = IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12")
#: Of the pods of one machine: 254, more than a kubelet takes.
POD_SUBNET_PREFIX: Final = 24
#: So many of them at a time are a pool's.
POD_BLOCK: Final = 16

_CARRIER_GRADE: Final = IPv4Network("100.64.0.0/10")

#: Begins every MAC: locally administered, to one machine. The other four bytes are the IPv4 address.
_MAC_START: Final = "02:74"


@dataclass(frozen=True, slots=True)
class OwnAddresses:
    """The addresses of a cluster's own machines. They are there whether the machine is or not."""

    network: IPv4Network

    @property
    def gateway(self) -> IPv4Address:
        return self.network[1]

    @property
    def controller(self) -> IPv4Address:
        return self.network[2]

    @property
    def backup_controller(self) -> IPv4Address:
        return self.network[3]

    @property
    def accounting(self) -> IPv4Address:
        return self.network[4]

    @property
    def file_server(self) -> IPv4Address:
        return self.network[5]

    @property
    def control_plane(self) -> IPv4Address:
        return self.network[6]

    def login(self, number: int) -> IPv4Address:
        """The login machine ``number``, from 1 to `MOST_LOGIN_MACHINES`."""
        return self.network[15 + number]

    @property
    def range(self) -> IPv4Network:
        """All that is kept free of fleets: `OWN_PLACES` addresses."""
        return next(self.network.subnets(new_prefix=32 - (OWN_PLACES - 1).bit_length()))


def unfit(network: IPv4Network) -> str:
    """Return why ``network`` cannot be a cluster's, and what to do; empty when it can."""
    private = network.is_private or network.subnet_of(_CARRIER_GRADE)
    if not private or network.is_loopback or network.is_link_local:
        return "take a private network, within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
    if not SHORTEST_NETWORK_PREFIX <= network.prefixlen <= LONGEST_NETWORK_PREFIX:
        return (
            f"take a prefix from /{SHORTEST_NETWORK_PREFIX} to /{LONGEST_NETWORK_PREFIX}: "
            f"the first {OWN_PLACES} addresses are the cluster's own, and fleets need room"
        )
    return ""


def mac(address: IPv4Address) -> str:
    """The MAC of the machine at ``address``: in lower case, locally administered, unicast."""
    return ":".join([_MAC_START, *(f"{byte:02x}" for byte in address.packed)])


def of_mac(mac: str) -> IPv4Address | None:
    """The address of the machine with this MAC, in either case; None: it is none of ours."""
    start, rest = mac[: len(_MAC_START)], mac[len(_MAC_START) + 1 :].split(":")
    if start.lower() != _MAC_START or len(rest) != 4:
        return None
    return IPv4Address(bytes(int(byte, 16) for byte in rest))


def slot_address(subnet: IPv4Network, slot: int) -> IPv4Address:
    """The address of a slot, counted from 1, in its fleet's subnet.

    Raises:
        ValueError: when the subnet has no such slot.
    """
    if not 1 <= slot <= capacity(subnet):
        raise ValueError(f"{subnet} has the slots 1 to {capacity(subnet)}, and no slot {slot}")
    return subnet[slot]


def capacity(subnet: IPv4Network) -> int:
    """Count the slots of a subnet: its first and last address stay free, wherever it lies in the network."""
    return max(0, subnet.num_addresses - 2)


def pod_subnets_in(pod_network: IPv4Network) -> int:
    """Count the machines whose pods have room in a network."""
    bits = POD_SUBNET_PREFIX - pod_network.prefixlen
    return 1 << bits if bits >= 0 else 0


def pod_subnets_needed(pools: Sequence[int]) -> int:
    """Count the subnets that pools with so many machines each take: whole blocks, but for the last."""
    return sum(map(pod_block, pools[:-1])) + pools[-1] if pools else 0


def pod_block(machines: int) -> int:
    """Count the subnets that a pool has to itself: blocks, so that it can grow and moves nobody's pods."""
    return -(-machines // POD_BLOCK) * POD_BLOCK


def pod_subnet(pod_network: IPv4Network, number: int) -> IPv4Network:
    """The subnet ``number`` of a network, from 0."""
    return IPv4Network(
        (int(pod_network.network_address) + (number << 32 - POD_SUBNET_PREFIX), POD_SUBNET_PREFIX)
    )


def overlapping(subnets: Iterable[IPv4Network]) -> list[tuple[int, int]]:
    """List which of ``subnets`` share addresses: pairs of their positions in it, the smaller first."""
    numbered = list(enumerate(subnets))
    return [(i, j) for (i, one), (j, other) in combinations(numbered, 2) if one.overlaps(other)]


def free_subnet(network: IPv4Network, taken: Iterable[IPv4Network], slots: int) -> IPv4Network | None:
    """The first subnet of ``network`` with room for ``slots`` that none of ``taken`` overlaps; None: it is full.

    No smaller than 256 addresses where the network has room for several such, so that a fleet can grow.
    """
    needed = 32 - (slots + 1).bit_length()
    avoided = (OwnAddresses(network).range, *(t for t in taken if t.overlaps(network)))
    for prefix in dict.fromkeys((min(24, needed), needed)):
        if (
            prefix > network.prefixlen
            and (place := _first_gap(network, avoided, 2 ** (32 - prefix))) is not None
        ):
            return IPv4Network((place, prefix))
    return None


def free_network(taken: Iterable[IPv4Network], prefix: int = 16) -> IPv4Network:
    """A private network that none of ``taken`` overlaps, so one that is neither the cluster's nor Kubernetes' already.

    It has a /16 to itself where ``prefix`` is longer.

    Raises:
        ValueError: there is none.
    """
    avoided = tuple(taken)
    for network in _PRIVATE:
        # Those that come last are used the least.
        for free in reversed([*network.subnets(new_prefix=max(network.prefixlen, min(16, prefix)))]):
            if free.prefixlen <= prefix and not any(free.overlaps(other) for other in avoided):
                return next(free.subnets(new_prefix=prefix))
    raise ValueError("no private network is free")


def _first_gap(network: IPv4Network, taken: Iterable[IPv4Network], size: int) -> int | None:
    """Find where in ``network`` a subnet of ``size`` addresses, a power of two, can begin; None: nowhere."""
    place = int(network.network_address)
    for first, last in sorted((int(t.network_address), int(t.broadcast_address)) for t in taken):
        if place + size <= first:
            break
        if place <= last:
            place = (last // size + 1) * size
    return place if place + size - 1 <= int(network.broadcast_address) else None

"""The firewall of a spec as packets know it: networks, ports and machines' addresses. Without pydantic, which starts slowly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from tidepool.cluster.firewall import Firewall

#: Addresses of a link alone: clouds have the service there that gives machines their credentials.
LINK_LOCAL: Final = IPv4Network("169.254.0.0/16")
SSH: Final = 22


@dataclass(frozen=True, slots=True)
class Flow:
    """Connections that ``sources`` may open to ``to``: networks and ports as text, sorted, none within another. No ports are all."""

    sources: tuple[str, ...]
    to: tuple[str, ...]
    protocol: Literal["tcp", "udp"]
    ports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forward:
    """A port of a host that leads to the sshd of the machine at ``address``, for ``sources`` alone."""

    port: int
    address: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """Another department's network or an address there, and the only connections that pass between it and this network.

    ``name`` is who is to be there; empty where anybody may.
    """

    network: str
    ingress: tuple[Flow, ...]
    egress: tuple[Flow, ...]
    name: str = ""


def flows(
    firewall: Firewall,
    nodes: Sequence[IPv4Network],
    logins: Sequence[IPv4Address],
    controllers: Sequence[IPv4Address] = (),
) -> tuple[Flow, ...]:
    """Return what machines may reach: ``nodes`` are subnets of fleets and pools, ``logins`` and ``controllers`` machines."""
    whose = (
        (map(str, nodes), firewall.nodes.egress),
        ((f"{address}/32" for address in logins), firewall.logins.egress),
        ((f"{address}/32" for address in controllers), firewall.controller.egress),
    )
    return tuple(
        Flow(sources, _sorted(rule.to), rule.protocol, _by_number(rule.ports))
        for machines, rules in whose
        if (sources := tuple(machines))
        for rule in rules
    )


def forwards(firewall: Firewall, logins: Sequence[IPv4Address]) -> tuple[Forward, ...]:
    """Return the ports by which login machines are reached, where they have no address of their own outside."""
    sources = _sorted(source for rule in firewall.logins.ingress for source in rule.sources)
    if not sources:
        return ()
    return tuple(Forward(firewall.logins.port + i, str(address), sources) for i, address in enumerate(logins))


def _sorted(networks: Iterable[IPv4Network]) -> tuple[str, ...]:
    return tuple(map(str, collapse_addresses(networks)))


def _by_number(ports: Iterable[str]) -> tuple[str, ...]:
    """Ranges without those that others hold: sets of nftables take none that overlap."""
    ranges: list[tuple[int, int]] = []
    for first, last in sorted(map(port_range, ports)):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
        else:
            ranges.append((first, last))
    return tuple(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def port_range(ports: str) -> tuple[int, int]:
    """The first and the last of `Ports`."""
    first, _, last = ports.partition("-")
    return int(first), int(last or first)

"""Rules of a cluster's network in CloudStack's form: what its virtual router lets out. What no rule lets out stays in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Final

from tidepool.cluster.firewall import Egress
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloudstack.options import SiteOptions
from tidepool.infrastructures.reading import has_own_machines

_NFS_PORT: Final = 2049


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """Connections that ``sources`` may open to ``to``, at the ports from ``first`` to ``last``; 0 are all ports."""

    protocol: str
    sources: tuple[str, ...]
    to: tuple[str, ...]
    first: int = 0
    last: int = 0


def rules(spec: ClusterSpec, place: SiteOptions, name: str) -> tuple[Rule, ...]:
    """Return what a spec's machines may open, in an order that is always the same.

    In a VPC a rule is of all machines of a tier: CloudStack's ACLs do not tell sources of it apart.
    """
    nodes = [str(found.fleet.subnet) for found in spec.entries(name)]
    logins, controllers = [], []
    if has_own_machines(spec, name):
        numbers = range(1, spec.controller.login_machines + 1)
        logins = [f"{spec.own_addresses.login(number)}/32" for number in numbers]
        controllers = [f"{address}/32" for address in spec.controller_addresses]
    found = {
        *_opened(spec.firewall.nodes.egress, nodes),
        *_opened(spec.firewall.logins.egress, logins),
        *_opened(spec.firewall.controller.egress, controllers),
        *_mounts(place, str(spec.network)),
    }
    if place.vpc is not None:
        found = {Rule(each.protocol, (), each.to, each.first, each.last) for each in found}
    return tuple(sorted(found))


def router_of(network: IPv4Network) -> IPv4Address:
    """Return the address of a network's virtual router: its first."""
    return next(iter(network.hosts()))


def _opened(egress: Sequence[Egress], sources: Sequence[str]) -> Iterator[Rule]:
    if not sources:
        return
    for rule in egress:
        to = tuple(map(str, rule.to))
        for ports in rule.ports or ("0",):
            first, _, last = ports.partition("-")
            yield Rule(rule.protocol, tuple(sorted({*sources})), to, int(first), int(last or first))


def _mounts(place: SiteOptions, network: str) -> Iterator[Rule]:
    """File servers are reached by all machines; one that is named by its name may be anywhere."""
    for source in place.volumes.values():
        server = source.partition(":")[0]
        try:
            to = f"{IPv4Address(server)}/32"
        except AddressValueError:
            to = "0.0.0.0/0"
        yield Rule("tcp", (network,), (to,), _NFS_PORT, _NFS_PORT)

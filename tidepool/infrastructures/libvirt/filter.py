"""Network filters of a stack on a host of libvirt: what its machines may send out of the cluster's network. Pure XML.

libvirt puts a filter on a machine's interface, outside of the machine, and takes another definition while the machine runs. The
rules are those of bridges: they look at each packet by itself, and need nothing of the host's settings. So answers to those who
may come by SSH are let through by their port, which only root has.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Final, Literal
from uuid import NAMESPACE_DNS, uuid5

from tidepool.cluster.firewall import ANYWHERE, Egress, Firewall
from tidepool.cluster.flows import LINK_LOCAL, SSH, port_range

Part = Literal["own", "logins", "nodes"]
PARTS: Final[tuple[Part, ...]] = ("own", "logins", "nodes")

_DHCP, _NFS = "67", "2049"
_BROADCAST: Final = IPv4Network("255.255.255.255/32")
#: An action, a direction as the machine sees it, a protocol of bridges (or all), and what packets have.
_Rule = tuple[str, str, str, Mapping[str, str]]


def filter_name(stack: str, part: Part) -> str:
    """Return the name of a filter, on each host."""
    return f"tidepool-{stack}-{part}"


def part_of(machine: str, *, is_own: bool) -> Part:
    """Return the part of a cluster that a machine is of."""
    if not is_own:
        return "nodes"
    return "logins" if machine.startswith("login-") else "own"


def filter_xml(
    stack: str,
    part: Part,
    network: IPv4Network,
    firewall: Firewall,
    *,
    mounts: bool,
    administrators: Sequence[IPv4Network] = (),
) -> str:
    """Return the definition of a filter; with ``mounts`` machines reach file servers that are anywhere.

    By SSH they are reached from the network and by ``administrators``, login machines also by whom the firewall names.
    """
    egress = {
        "own": firewall.controller.egress,
        "logins": firewall.logins.egress,
        "nodes": firewall.nodes.egress,
    }[part]
    ingress = firewall.logins.ingress if part == "logins" else ()
    by_ssh = (network, *administrators, *(each for rule in ingress for each in rule.sources))
    name = filter_name(stack, part)
    root = ET.Element("filter", name=name, chain="root")
    # The same each time: libvirt takes a definition of another one for a name that is taken.
    ET.SubElement(root, "uuid").text = str(uuid5(NAMESPACE_DNS, name))
    rules = (*_arriving(by_ssh), *_leaving(network, by_ssh, egress, mounts=mounts))
    for priority, (action, direction, kind, packets) in enumerate(rules, 1):
        rule = ET.SubElement(root, "rule", action=action, direction=direction, priority=str(priority))
        if kind:
            ET.SubElement(rule, kind, dict(packets))
    return ET.tostring(root, encoding="unicode")


def _arriving(by_ssh: Sequence[IPv4Network]) -> Iterator[_Rule]:
    ssh = _ports("tcp", str(SSH))
    for source in by_ssh:
        yield "accept", "in", "ip", {**_addresses("src", source), **ssh}
    yield "drop", "in", "ip", ssh


def _leaving(
    network: IPv4Network, by_ssh: Sequence[IPv4Network], egress: Sequence[Egress], *, mounts: bool
) -> Iterator[_Rule]:
    yield "accept", "out", "arp", {}
    yield "accept", "out", "ip", _addresses("dst", network)
    yield "accept", "out", "ip", {**_addresses("dst", _BROADCAST), **_ports("udp", _DHCP)}
    for source in by_ssh:
        yield "accept", "out", "ip", {**_addresses("dst", source), **_ports("tcp", str(SSH), "src")}
    yield "drop", "out", "ip", _addresses("dst", LINK_LOCAL)
    if mounts:
        yield "accept", "out", "ip", _ports("tcp", _NFS)
    for rule in egress:
        for to in rule.to:
            for ports in rule.ports or ("",):
                yield "accept", "out", "ip", {**_addresses("dst", to), **_ports(rule.protocol, ports)}
    yield "drop", "out", "", {}


def _addresses(side: Literal["src", "dst"], network: IPv4Network) -> Mapping[str, str]:
    if network == ANYWHERE:
        return {}
    return {f"{side}ipaddr": str(network.network_address), f"{side}ipmask": str(network.prefixlen)}


def _ports(protocol: str, ports: str, side: Literal["src", "dst"] = "dst") -> Mapping[str, str]:
    if not ports:
        return {"protocol": protocol}
    first, last = port_range(ports)
    return {"protocol": protocol, f"{side}portstart": str(first), f"{side}portend": str(last)}

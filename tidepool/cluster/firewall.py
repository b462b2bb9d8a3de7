"""Firewall rules of a cluster's network: who reaches its login machines, and what its machines reach outside.

One vocabulary for all infrastructures, in the words of Kubernetes' network policies. Within the cluster's network all machines
reach each other; what no rule allows through its edge is refused.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tidepool.cluster.addresses import MOST_LOGIN_MACHINES
from tidepool.cluster.part import Network, Part, Whole

#: Infrastructures that hold machines to the rules; on others somebody else owns the network.
FILTERING: Final = frozenset({"local", "libvirt", "aws", "cloudstack", "kubernetes"})
ANYWHERE: Final = IPv4Network("0.0.0.0/0")

_ADDRESS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_PORTS: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def _written(value: Any) -> Any:
    """Return a network as text: an address alone is one of its own."""
    if isinstance(value, str) and "/" not in value:
        if not _ADDRESS.fullmatch(value):
            raise ValueError(
                "write an IPv4 address, or a network: 192.0.2.7, 192.0.2.0/24; names are not looked up"
            )
        return f"{value}/32"
    return value


def _outside(network: IPv4Network) -> IPv4Network:
    if network == ANYWHERE:
        return network
    if network.is_loopback or network.is_multicast or network.is_link_local or network.is_unspecified:
        raise ValueError("nothing there is reached through a network's edge; write networks of other hosts")
    return network


Outside = Annotated[Network, BeforeValidator(_written), AfterValidator(_outside)]
"""A network outside of the cluster's, or one address: ``192.0.2.7``."""


def _ports(value: Any) -> Any:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    match = _PORTS.fullmatch(text) if isinstance(text, str) else None
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last <= 65535:
        raise ValueError("write a port from 1 to 65535, or a range of them: 27000-27010")
    return str(first) if first == last else f"{first}-{last}"


Ports = Annotated[str, BeforeValidator(_ports)]
"""A port or a range of them, as text: ``443``, ``27000-27010``."""


class Egress(Part):
    """A rule of connections that machines may open."""

    to: tuple[Outside, ...] = Field(
        min_length=1, description="Networks or addresses: `[192.0.2.7]`; `[0.0.0.0/0]` is everywhere."
    )
    ports: tuple[Ports, ...] = Field(
        default=(), description="Ports there, and ranges of them: `[443, 27000-27010]`; by default all."
    )
    protocol: Literal["tcp", "udp"] = Field(default="tcp", description="The protocol.")
    description: str = Field(default="", max_length=200, description="A line for people: `licence server`.")


class Ingress(Part):
    """A rule of who reaches login machines by SSH."""

    sources: tuple[Outside, ...] = Field(
        validation_alias="from",
        min_length=1,
        description="Networks or addresses: `[198.51.100.0/24]`; `[0.0.0.0/0]` is everywhere.",
    )
    description: str = Field(default="", max_length=200, description="A line for people.")


class LoginFirewall(Part):
    """Rules of login machines."""

    ingress: tuple[Ingress, ...] = Field(
        default=(), description="Who reaches their sshd from outside; by default nobody."
    )
    egress: tuple[Egress, ...] = Field(
        default=(), description="What they may reach outside; by default nothing."
    )
    port: Whole = Field(
        default=2222,
        ge=1,
        le=65535 - MOST_LOGIN_MACHINES,
        description="On this machine, whose addresses they have none of: the port of this machine that leads to `login-1`; the "
        "next leads to `login-2`.",
    )


class NodeFirewall(Part):
    """Rules of nodes, of all fleets and pools."""

    egress: tuple[Egress, ...] = Field(
        default=(),
        description="What they, and so jobs, may reach outside: licence servers, a proxy; by default nothing.",
    )


class ControllerFirewall(Part):
    """Rules of the controllers."""

    egress: tuple[Egress, ...] = Field(
        default=(),
        description="What they may reach outside; by default nothing. At libvirt all of the cluster's own machines but login machines may.",
    )


class Firewall(Part):
    """Rules of what goes through the edge of the cluster's network."""

    logins: LoginFirewall = Field(default=LoginFirewall(), description="Of login machines.")
    nodes: NodeFirewall = Field(default=NodeFirewall(), description="Of nodes.")

    controller: ControllerFirewall = Field(default=ControllerFirewall(), description="Of the controllers.")

    @property
    def has_egress(self) -> bool:
        return bool(self.logins.egress or self.nodes.egress or self.controller.egress)

"""Security groups of a cluster's parts at AWS: who may speak to whom, as data.

A connection is opened from a machine's own address in its subnet, which AWS knows to be of its group, to the address that the
machine has in the cluster's network, which AWS does not know. So groups are named where connections arrive; where they leave,
the network is. What comes from machines that are elsewhere is of no group, and the network is named for it too.

AWS takes no rule twice, whoever asks for it: a rule is called by what it says, and what several ask for is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final, Literal

from tidepool.cluster.addresses import OwnAddresses
from tidepool.cluster.firewall import ANYWHERE, ControllerFirewall, Firewall, LoginFirewall, NodeFirewall
from tidepool.cluster.flows import SSH, port_range
from tidepool.cluster.names import ACCOUNTING_HOST
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.aws.options import NAME, SiteOptions

Part = Literal["controller", "accounting", "login", "node", "files", "endpoints"]
MACHINES: Final[tuple[Part, ...]] = ("controller", "accounting", "login", "node")
PARTS: Final[tuple[Part, ...]] = (*MACHINES, "files", "endpoints")

Ports = tuple[int, int]
#: What srun and jobs listen on: the kernel chooses.
_ANY_PORT: Final = (1024, 65535)
_SSH: Final = (SSH, SSH)
_HTTPS, _NFS = (443, 443), (2049, 2049)
_ALL_PORTS: Final = "0-65535"
#: Those machines' boot, or one of them. A fleet may be called `login-gpu`: its nodes are nodes.
_LOGIN: Final = re.compile(r"login(-[0-9]+)?")
#: Where a person writes what leaves a part.
_EGRESS: Final[Mapping[Part, str]] = {"login": "logins", "controller": "controller"}
_LUSTRE: Final = ((988, 988), (1018, 1023))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the group ``part``: connections come in from ``other``, or go out to it. Without ``ports`` it is anything.

    ``other`` is a network, the group of a part, or the id of a group that is somebody else's.
    """

    part: Part
    way: Literal["from", "to"]
    other: IPv4Network | str
    ports: Ports | None
    why: str
    protocol: str = "tcp"

    @property
    def name(self) -> str:
        """Return its name by what it says, so that another order is no change: ``node-to-192.0.2.7-32-tcp-443-443``."""
        ports = f"{self.protocol}-{self.ports[0]}-{self.ports[1]}" if self.ports else "all"
        return f"{self.part}-{self.way}-{in_name(self.other)}-{ports}"


@dataclass(frozen=True, slots=True)
class Groups:
    """Facts that the rules of a cluster's groups follow from. ``has_own`` says whether the cluster's own machines are at AWS, or elsewhere.

    ``pods`` is where pods have their addresses, if machines of pools are at AWS.
    """

    network: IPv4Network
    place: SiteOptions
    firewall: Firewall
    has_own: bool = True
    pods: IPv4Network | None = None

    @classmethod
    def of(cls, spec: ClusterSpec, place: SiteOptions, *, has_own: bool) -> Groups:
        """Return those of a spec."""
        return cls(spec.network, place, spec.firewall, has_own, pods_at(spec))

    @property
    def logins(self) -> LoginFirewall:
        """Return the rules of login machines, where they are here."""
        return self.firewall.logins if self.has_own else LoginFirewall()

    def rules(self) -> Sequence[Rule]:
        """Return all rules, each once; what a person wrote of one comes before what it is here anyhow."""
        found: dict[str, Rule] = {}
        lustre = _of_lustre() if self.place.home == "lustre" else ()
        rules = (
            *self._of_firewall(),
            *self._from_networks(),
            *self._leaving(),
            *_arriving(),
            *self._of_kubernetes(),
            *lustre,
        )
        for rule in rules:
            found.setdefault(rule.name, rule)
        return tuple(found.values())

    def ways(self) -> Mapping[str, IPv4Network]:
        """Return the networks that the transit gateway leads to, by the names of their routes, each once."""
        sources = {source for rule in self.logins.ingress for source in rule.sources}
        networks = {*self.place.administrators, *self.place.kubernetes, *sources}
        return {f"to-{in_name(each)}": each for each in sorted(networks)}

    def former_names(self, rule: Rule) -> Iterator[str]:
        """Yield the names that a rule may have in a state: AWS would refuse another one that says the same, before the first goes."""
        here, first = f"{rule.part}-{rule.way}", rule.ports[0] if rule.ports else "all"
        if isinstance(rule.other, str):
            if rule.way == "from" or rule.part == "files":
                yield f"{here}-{rule.other}-{first}"
            else:
                yield f"{here}-{rule.other if rule.other in PARTS else 'secrets'}"
        elif rule.way == "to":
            if rule.other == self.network and rule.ports is None:
                yield f"{here}-cluster"
            elif rule.other == ANYWHERE and rule.protocol == "tcp":
                given = self.place.given
                if rule.ports == _HTTPS and given is not None and given.endpoint_group is None:
                    yield f"{here}-secrets"
                elif rule.ports == _NFS:
                    yield f"{here}-home"
        else:
            if rule.part == "login":
                yield f"{here}-{in_name(rule.other)}"
            if rule.part == "node" and rule.other == self.network:
                yield f"{here}-elsewhere-{first}"
            if rule.ports == _SSH:
                yield from (f"{here}-{each}" for each in self._administrators(rule.other))

    def former_ways(self, network: IPv4Network) -> Iterator[str]:
        """Yield the names that the route to a network may have in a state."""
        yield f"logins-{in_name(network)}"
        yield from self._administrators(network)

    def _administrators(self, network: IPv4Network) -> Iterator[str]:
        return (f"administrators-{i}" for i, each in enumerate(self.place.administrators) if each == network)

    def sizes(self, path: str) -> Mapping[str, int]:
        """Return how many rules the largest group has one way, by the key that they are of; ``path`` is the place's."""
        found: dict[str, int] = {}
        for (part, way), count in Counter((rule.part, rule.way) for rule in self.rules()).items():
            if way == "to":
                key = f"firewall.{_EGRESS.get(part, 'nodes')}.egress"
            elif part == "login" and self.logins.ingress:
                key = "firewall.logins.ingress"
            else:
                key = f"{path}.administrators"
            found[key] = max(found.get(key, 0), count)
        return found

    def _of_firewall(self) -> Iterator[Rule]:
        for allowed in self.logins.ingress:
            for source in allowed.sources:
                yield Rule("login", "from", source, _SSH, allowed.description or "SSH")
        parts: tuple[tuple[Part, LoginFirewall | NodeFirewall | ControllerFirewall], ...] = (
            ("login", self.logins),
            ("controller", self.firewall.controller if self.has_own else ControllerFirewall()),
            ("node", self.firewall.nodes),
        )
        for part, firewall in parts:
            for rule in firewall.egress:
                for to in rule.to:
                    for ports in rule.ports or (_ALL_PORTS,):
                        yield Rule(part, "to", to, port_range(ports), rule.description, rule.protocol)

    def _from_networks(self) -> Iterator[Rule]:
        if not self.has_own:
            # What the cluster's own machines open to nodes, where they are of no group.
            for rule in _arriving():
                if rule.part == "node" and rule.other != "node":
                    yield Rule("node", "from", self.network, rule.ports, rule.why)
        for administrators in self.place.administrators:
            for part in MACHINES:
                yield Rule(part, "from", administrators, _SSH, "SSH")

    def _of_kubernetes(self) -> Iterator[Rule]:
        """Yield what machines of pools say to each other, and to and from the API server, while they serve Kubernetes.

        A pod has an address that is no machine's of a group: to AWS its network is all that is known of it.
        """
        if self.pods is None:
            return
        # One of the cluster's own is never here.
        own = IPv4Network(OwnAddresses(self.network).control_plane)
        yield Rule("node", "from", self.pods, None, "pods")
        yield Rule("node", "to", self.pods, None, "")
        for network in self.place.kubernetes or (own,):
            yield Rule("node", "from", network, None, "Kubernetes")
            yield Rule("node", "to", network, None, "")

    def _leaving(self) -> Iterator[Rule]:
        given = self.place.given
        for part in MACHINES:
            # Addresses of the cluster are of no group: AWS knows them as routes alone.
            yield Rule(part, "to", self.network, None, "")
            yield Rule(part, "to", "files", None, "")
            yield Rule(part, "to", "endpoints", _HTTPS, "")
            if part == "node":
                yield Rule(part, "to", "node", None, "")
            if given is not None:
                # What machines boot by is in a VPC of somebody else's, at addresses that only they know.
                yield Rule(part, "to", given.endpoint_group or ANYWHERE, _HTTPS, "")
                if ":/" in self.place.home:
                    yield Rule(part, "to", ANYWHERE, _NFS, "")


def pods_at(spec: ClusterSpec) -> IPv4Network | None:
    """Return where pods have their addresses, if machines of pools are at AWS."""
    here = any(spec.pool_infrastructure(pool) == NAME for pool in spec.pools)
    return spec.kubernetes.pod_network if here and spec.kubernetes is not None else None


def in_name(other: IPv4Network | str) -> str:
    """Return a network, or a group, as names of resources have it."""
    return str(other).replace("/", "-")


def part_of(machine: str) -> Part:
    """Return the part that a machine is of, by its name or that of its boot."""
    if machine in ("ctl", "ctlbackup"):
        return "controller"
    if machine == ACCOUNTING_HOST:
        return "accounting"
    return "login" if _LOGIN.fullmatch(machine) else "node"


def _arriving() -> Iterator[Rule]:
    """Yield what machines of a cluster say to each other, and to its file systems."""
    for source in MACHINES:
        yield Rule("controller", "from", source, (6817, 6817), "slurmctld")
    for source in ("controller", "login"):
        yield Rule("accounting", "from", source, (6819, 6819), "slurmdbd")
        yield Rule("node", "from", source, (6818, 6818), "slurmd")
        yield Rule("node", "from", source, _SSH, "SSH")
    yield Rule("controller", "from", "login", _SSH, "SSH")
    # srun tells its user of each step, wherever the user is.
    yield Rule("login", "from", "controller", _ANY_PORT, "srun")
    yield Rule("login", "from", "node", _ANY_PORT, "srun")
    yield Rule("node", "from", "controller", _ANY_PORT, "srun")
    # MPI, and EFA, which lets nothing through but to its own group.
    yield Rule("node", "from", "node", None, "jobs")
    for source in MACHINES:
        yield Rule("files", "from", source, _NFS, "NFS")
        yield Rule("endpoints", "from", source, _HTTPS, "Secrets Manager")


def _of_lustre() -> Iterator[Rule]:
    """Yield what its servers and their clients say to each other, and servers among themselves."""
    for part in (*MACHINES, "files"):
        for ports in _LUSTRE:
            yield Rule("files", "from", part, ports, "Lustre")
            yield Rule("files", "to", part, ports, "")
            if part != "files":
                yield Rule(part, "from", "files", ports, "Lustre")

"""Cables between the switches of two stacks that have an agreement: each names the other's network, and what may pass.

There is one where both say so, whichever was brought up last. Addresses stay what they are, for who is asked opens connections
back. What passes is held on both sides, each in its own switch's table (`ruleset`), so that neither opens more than the other.
A cable goes with either of its switches.

Stacks with the same addresses are rivals for a cable, for a switch has one route there. Whoever has it keeps it; where none
has, it is whose switch began first. Both ends find the same one, whichever of them looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from tidepool.cluster.flows import Peer
from tidepool.infrastructures.local.kernel.errors import LocalError
from tidepool.infrastructures.local.kernel.layout import Paths, names_in, network_paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline
from tidepool.infrastructures.local.kernel.lock import locked
from tidepool.infrastructures.local.kernel.netns import listed, run_in, run_ip
from tidepool.infrastructures.local.kernel.record import load
from tidepool.infrastructures.local.kernel.ruleset import PEERS, peer_device
from tidepool.infrastructures.local.kernel.spec import is_name
from tidepool.infrastructures.local.kernel.uplink_record import load_uplink

_LOCK_S: Final = 30.0
_ALIAS: Final = re.compile(r"\balias (\S+)")


@dataclass(frozen=True, slots=True)
class Side:
    """A network ``cidr`` that is up, and what it names of a peer: its network, and who is to be there."""

    stack: str
    switch: Lifeline
    cidr: str
    peer: str
    name: str = ""

    @property
    def address(self) -> str:
        """That of the switch."""
        return str(IPv4Network(self.cidr)[-2])

    def has_cable_to(self, stack: str) -> bool:
        """Return whether its end of a cable to that stack is there, whatever else it is like."""
        found = _ALIAS.search(self._link())
        return found is not None and found[1] == stack

    def is_cabled_to(self, stack: str) -> bool:
        """Return whether its end of a cable to that stack is up, as the other is, and leads there."""
        way = listed(self.switch, "ip", "-4", "route", "show", "exact", self.peer)
        led = f"dev {peer_device(self.peer)} " in way
        return (
            led and self.has_cable_to(stack) and re.search(r"[<,]UP,LOWER_UP[,>]", self._link()) is not None
        )

    def _link(self) -> str:
        return listed(self.switch, "ip", "-o", "link", "show", "dev", peer_device(self.peer))


def find_peerings(data: Path, but: Path | None = None) -> Iterator[Side]:
    """Yield what each network that is up names of each of its peers; not the network of the folder ``but``."""
    for folder in sorted(data.iterdir()) if data.is_dir() else ():
        if not is_name(folder.name) or not folder.is_dir():
            continue
        for network in names_in(data, folder.name, "networks"):
            place = network_paths(data, folder.name, network)
            record = load(place.record) if place.folder != but else None
            if record is not None and record.standing is not None and (made := load_uplink(place.uplink)):
                for peer, name in made.peers.items():
                    yield Side(folder.name, record.standing, str(record.spec["cidr"]), peer, name)


def peer_of(sides: Iterable[Side], stack: str, cidr: str, peer: str) -> Side | None:
    """Return who has the cable to the network ``cidr`` of ``stack``, or is to have it: ``peer`` is within its network, and it names ``cidr``."""
    rivals = (
        each for each in sides if each.stack != stack and _is_in(peer, each.cidr) and _is_in(each.peer, cidr)
    )
    return min(
        rivals,
        key=lambda each: (not each.has_cable_to(stack), each.switch.start_ticks, each.stack),
        default=None,
    )


def connect_peers(place: Paths, cidr: str, switch: Lifeline, peers: Sequence[Peer]) -> None:
    """Lay the cables of a network to all of its peers that are up and agree, and take away those of others.

    Raises:
        LocalError: what `ip` said.
    """
    lock = place.folder.parents[2] / "peers.lock"
    with locked(lock, _LOCK_S), ExitStack() as after:
        after.callback(lock.unlink)
        for device in _devices(switch) - {peer_device(peer.network) for peer in peers}:
            run_in(switch, ("ip", "link", "delete", device))
        for own, other in _pairs(place, cidr, switch, peers):
            if not _is_cabled(own, other):
                _lay(own, other)


def _lay(own: Side, other: Side) -> None:
    near, far = peer_device(own.peer), peer_device(other.peer)
    for side, device in ((own, near), (other, far)):
        run_in(side.switch, ("ip", "link", "delete", device))
    try:
        run_ip(own.switch, (f"link add {near} type veth peer name {far} netns {other.switch.pid}",))
    except LocalError:
        if other.switch.is_alive():
            raise
        return  # the `up` that makes it again lays the cable
    for side, device, to in ((own, near, other), (other, far, own)):
        lines = (
            f"link set {device} alias {to.stack} addrgenmode none up",
            f"route replace {side.peer} via {to.address} dev {device} onlink",
        )
        run_ip(side.switch, lines)


def are_connected(place: Paths, cidr: str, switch: Lifeline, peers: Sequence[Peer]) -> bool:
    """Return whether all peers that are up and agree have their cables, and nobody else has one."""
    pairs = _pairs(place, cidr, switch, peers)
    return _devices(switch) <= {peer_device(peer.network) for peer in peers} and all(
        _is_cabled(own, other) for own, other in pairs
    )


def _is_cabled(own: Side, other: Side) -> bool:
    return own.is_cabled_to(other.stack) and other.is_cabled_to(own.stack)


def _pairs(place: Paths, cidr: str, switch: Lifeline, peers: Sequence[Peer]) -> Iterator[tuple[Side, Side]]:
    """Yield the ends of each cable that the network is to have: who is to have its peer's, and is its peer."""
    data, stack = place.folder.parents[2], place.folder.parents[1].name
    mine = [Side(stack, switch, cidr, peer.network, peer.name) for peer in peers]
    sides = [*mine, *find_peerings(data, but=place.folder)]
    for own in mine:
        other = peer_of(sides, stack, cidr, own.peer)
        if other is not None and peer_of(sides, other.stack, other.cidr, other.peer) == own:
            yield own, other


def _devices(switch: Lifeline) -> set[str]:
    done = run_in(switch, ("ip", "-o", "link", "show"))
    names = (
        (line.split()[1].partition("@")[0].rstrip(":") for line in done.stdout.splitlines()) if done else ()
    )
    return {name for name in names if name.startswith(PEERS)}


def _is_in(peer: str, cidr: str) -> bool:
    """Return whether it is a network's own range, or an address in it."""
    network, named = IPv4Network(cidr), IPv4Network(peer)
    return named == network or (named.prefixlen == 32 and named.subnet_of(network))

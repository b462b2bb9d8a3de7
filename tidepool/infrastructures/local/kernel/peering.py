"""Cables between the switches of two stacks that have an agreement: each names the other's network, and what may pass.

There is one where both say so, whichever was brought up last. Addresses stay what they are, for who is asked opens connections
back. What passes is held on both sides, each in its own switch's table (`ruleset`), so that neither opens more than the other.
A cable goes with either of its switches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from tidepool.cluster.flows import Peer
from tidepool.infrastructures.local.kernel.layout import Paths, names_in, network_paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline
from tidepool.infrastructures.local.kernel.lock import locked
from tidepool.infrastructures.local.kernel.netns import run_in, run_ip
from tidepool.infrastructures.local.kernel.record import load
from tidepool.infrastructures.local.kernel.ruleset import PEERS, peer_device
from tidepool.infrastructures.local.kernel.spec import is_name

_LOCK_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Side:
    """A network ``cidr`` that is up, and what it names of its peer: its network, and who is to be there."""

    stack: str
    switch: Lifeline
    cidr: str
    peer: str
    name: str = ""

    @property
    def address(self) -> str:
        """That of the switch."""
        return str(IPv4Network(self.cidr)[-2])

    def is_cabled(self) -> bool:
        """Return whether its end is up, as the other is, and leads there."""
        device = peer_device(self.peer)
        link = run_in(self.switch, ("ip", "-o", "link", "show", "dev", device, "up"))
        way = run_in(self.switch, ("ip", "-4", "route", "show", "exact", self.peer))
        return (
            link is not None
            and "LOWER_UP" in link.stdout
            and way is not None
            and f"dev {device} " in way.stdout
        )


def find_peers(data: Path, cidr: str, peer: str) -> Iterator[Side]:
    """Yield the networks within which ``peer`` is, of stacks that name ``cidr`` in turn, or an address in it, and are up."""
    for folder in sorted(data.iterdir()) if data.is_dir() else ():
        if not is_name(folder.name) or not folder.is_dir():
            continue
        for name in names_in(data, folder.name, "networks"):
            place = network_paths(data, folder.name, name)
            record = load(place.record)
            if record.standing is not None and _is_in(peer, there := str(record.spec["cidr"])):
                for theirs, whose in _named(place).items():
                    if _is_in(theirs, cidr):
                        yield Side(folder.name, record.standing, there, theirs, whose)


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
            if own.is_cabled() and other.is_cabled():
                continue
            near, far = peer_device(own.peer), peer_device(other.peer)
            for side, device in ((own, near), (other, far)):
                run_in(side.switch, ("ip", "link", "delete", device))
            # One that died meanwhile is cabled by the `up` that makes it again.
            run_ip(own.switch, (f"link add {near} type veth peer name {far} netns {other.switch.pid}",))
            for side, device, gateway in ((own, near, other.address), (other, far, own.address)):
                lines = (
                    f"link set {device} addrgenmode none up",
                    f"route replace {side.peer} via {gateway} dev {device} onlink",
                )
                run_ip(side.switch, lines)


def are_connected(place: Paths, cidr: str, switch: Lifeline, peers: Sequence[Peer]) -> bool:
    """Return whether all peers that are up and agree have their cables, and nobody else has one."""
    pairs = _pairs(place, cidr, switch, peers)
    return _devices(switch) <= {peer_device(peer.network) for peer in peers} and all(
        own.is_cabled() and other.is_cabled() for own, other in pairs
    )


def _pairs(place: Paths, cidr: str, switch: Lifeline, peers: Sequence[Peer]) -> Iterator[tuple[Side, Side]]:
    data, stack = place.folder.parents[2], place.folder.parents[1].name
    for peer in peers:
        own = Side(stack, switch, cidr, peer.network)
        for other in find_peers(data, cidr, peer.network):
            rivals = (each for each in find_peers(data, other.cidr, other.peer) if each.stack != stack)
            # Of two stacks with the same addresses the one that was there first has it.
            if not any(each.is_cabled() for each in rivals):
                yield own, other
            break


def _devices(switch: Lifeline) -> set[str]:
    done = run_in(switch, ("ip", "-o", "link", "show"))
    names = (
        (line.split()[1].partition("@")[0].rstrip(":") for line in done.stdout.splitlines()) if done else ()
    )
    return {name for name in names if name.startswith(PEERS)}


def _named(place: Paths) -> Mapping[str, str]:
    """Return the networks that a network's uplink was last made to pass something to, with their names."""
    try:
        return dict(json.loads(place.uplink.read_text("utf-8")).get("peers", {}))
    except (FileNotFoundError, ValueError):
        return {}


def _is_in(peer: str, cidr: str) -> bool:
    """Return whether it is a network's own range, or an address in it."""
    network, named = IPv4Network(cidr), IPv4Network(peer)
    return named == network or (named.prefixlen == 32 and named.subnet_of(network))

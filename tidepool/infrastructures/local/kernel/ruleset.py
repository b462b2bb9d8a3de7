"""Tables of nftables that a network with an uplink has: what machines reach, and who reaches them. Pure text.

There are two. That of the switch is in the switch's own namespace, lets through what the rules say, and refuses all else, so that
who tries is told at once. Packets of a connection are held to the rules for as long as it lasts, and not only the first: a change
ends what is not allowed any more, and nothing else. That of the host, named after the stack, keeps stacks from each other, and
translates addresses: two stacks may have the same ones.

Each text replaces its table as a whole, in one transaction, and touches no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidepool.cluster.flows import LINK_LOCAL, SSH, Flow, Forward, Peer

#: The host's ends of all uplinks begin so.
UPLINKS: Final = "tide"
#: The switch's ends, of its uplink and of its machines.
UPLINK: Final = "uplink"
BRIDGE: Final = "switch"
#: The ends of cables to switches of other stacks begin so.
PEERS: Final = "peer"
SWITCH_TABLE: Final = "tidepool"

_ESTABLISHED: Final = "ct direction reply ct state established,related accept"
_ERRORS: Final = "ct state related accept"


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a network's uplink, and of its peers. Without any there is no uplink; with peers alone nothing passes it."""

    egress: tuple[Flow, ...] = ()
    ingress: tuple[Forward, ...] = ()
    #: Not in the text, which a record of before has a digest of.
    peers: tuple[Peer, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.egress or self.ingress or self.peers)


@dataclass(frozen=True, slots=True)
class Link:
    """The uplink of a network: ``table`` and ``device`` are the host's, the addresses those of its two ends."""

    table: str
    device: str
    host: str
    switch: str


def switch_ruleset(rules: Rules) -> str:
    """Return the text, for `nft -f`, of the table of the switch."""
    forward = [
        # Between machines, where the host has bridges ask nftables.
        f'iifname "{BRIDGE}" oifname "{BRIDGE}" accept',
        _ESTABLISHED,
        _ERRORS,
        f"ip daddr {LINK_LOCAL} reject with icmp type admin-prohibited",
        *(
            f'iifname "{UPLINK}" ip saddr {_set(each.sources)} ip daddr {each.address} tcp dport {SSH} accept'
            for each in rules.ingress
        ),
        *(_between(UPLINK, each) for each in rules.egress),
        *(_between(peer_device(peer.network), each) for peer in rules.peers for each in peer.egress),
        *(_between(BRIDGE, each, peer_device(peer.network)) for peer in rules.peers for each in peer.ingress),
        f'iifname "{BRIDGE}" reject with icmp type admin-prohibited',
    ]
    return _table(
        SWITCH_TABLE,
        _chain("forward", "filter hook forward priority filter; policy drop", forward),
        _chain(
            "input",
            "filter hook input priority filter; policy accept",
            [
                _ESTABLISHED,
                f'iifname "{UPLINK}" drop',
                *([f'iifname "{PEERS}*" drop'] if rules.peers else []),
            ],
        ),
        _chain(
            "prerouting",
            "nat hook prerouting priority dstnat; policy accept",
            [
                f'iifname "{UPLINK}" tcp dport {each.port} dnat to {each.address}:{SSH}'
                for each in rules.ingress
            ],
        ),
        _chain(
            "postrouting",
            "nat hook postrouting priority srcnat; policy accept",
            [f'oifname "{UPLINK}" masquerade'],
        ),
    )


def host_ruleset(rules: Rules, link: Link) -> str:
    """Return the text, for `nft -f`, of the table of the host."""
    own, others = f'"{link.device}"', f'"{UPLINKS}*"'
    return _table(
        link.table,
        _chain(
            "prerouting",
            "nat hook prerouting priority dstnat; policy accept",
            [
                f"iifname != {others} fib daddr type local ip saddr {_set(each.sources)} tcp dport {each.port} "
                f"dnat to {link.switch}:{each.port}"
                for each in rules.ingress
            ],
        ),
        _chain(
            "forward",
            "filter hook forward priority filter; policy accept",
            [
                f"iifname {others} oifname {own} drop",
                # Nothing but what the switch let through and translated.
                f"iifname {own} ip saddr != {link.switch} drop",
                f"oifname {own} ct direction original ct status & dnat == 0 drop",
            ],
        ),
        _chain(
            "input",
            "filter hook input priority filter; policy accept",
            [f"iifname {own} ip saddr != {link.switch} drop"],
        ),
        _chain(
            "postrouting",
            "nat hook postrouting priority srcnat; policy accept",
            [f"ip saddr {link.switch} oifname != {own} masquerade"],
        ),
    )


def removal(table: str) -> str:
    """Return the text that takes a table away, whether it is there or not."""
    return f"table ip {table}\ndelete table ip {table}\n"


def peer_device(network: str) -> str:
    """Return a switch's end of its cable to a peer, whose name may have 15 letters."""
    return PEERS + hashlib.sha256(network.encode()).hexdigest()[:8]


def _between(device: str, flow: Flow, source: str = BRIDGE) -> str:
    ports = f"{flow.protocol} dport {_set(flow.ports)}" if flow.ports else f"ip protocol {flow.protocol}"
    return (
        f'iifname "{source}" oifname "{device}" ip saddr {_set(flow.sources)} ip daddr {_set(flow.to)} '
        f"{ports} accept"
    )


def _set(elements: Sequence[str]) -> str:
    return f"{{ {', '.join(elements)} }}"


def _chain(name: str, hook: str, rules: Sequence[str]) -> Iterator[str]:
    yield f"    chain {name} {{"
    yield f"        type {hook};"
    yield from (f"        {rule}" for rule in rules)
    yield "    }"


def _table(name: str, *chains: Iterator[str]) -> str:
    lines = [f"table ip {name} {{", *(line for chain in chains for line in chain), "}"]
    return removal(name) + "\n".join(lines) + "\n"

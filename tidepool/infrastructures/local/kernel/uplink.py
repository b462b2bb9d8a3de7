"""The uplink of a network: a veth pair from its switch to this machine, routes over it, and the rules of what goes through.

A network has one where its rules let anything through; all others have no way out at all. It is made once, and a change of
rules is one transaction of nftables on each side: nothing else is touched, and connections that are still allowed go on.

The addresses of its ends are link-local, and unique on this machine; by them the switch hides the stack's own, which another
stack may have too. With the switch's namespace goes its end, and with that the host's; the host's table is taken away by name.
This machine forwards packets only where its administrator has it do so (``net.ipv4.ip_forward``): it would be everybody's router.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tidepool.infrastructures.local.kernel.errors import LocalError, NoSuchNetwork
from tidepool.infrastructures.local.kernel.layout import Paths, machine_paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline
from tidepool.infrastructures.local.kernel.lock import host_locked, locked
from tidepool.infrastructures.local.kernel.netns import listed, run_in, run_ip
from tidepool.infrastructures.local.kernel.peering import are_connected, connect_peers
from tidepool.infrastructures.local.kernel.record import load
from tidepool.infrastructures.local.kernel.ruleset import (
    SWITCH_TABLE,
    UPLINK,
    UPLINKS,
    Link,
    Rules,
    host_ruleset,
    removal,
    switch_ruleset,
)
from tidepool.infrastructures.local.kernel.uplink_lacks import (
    FORWARDS,
    forwarded_ports,
    table_of,
    uplink_lacks,
)
from tidepool.infrastructures.local.kernel.uplink_record import UplinkRecord, load_uplink

#: Pairs of addresses for uplinks. Clouds have services of their own further up in 169.254.0.0/16.
_LINKS: Final = ipaddress.IPv4Network("169.254.64.0/18")
_LOCK_S: Final = 30.0


def gateway_of(network: Paths) -> str:
    """The address that a network's machines reach others by; empty where it has no uplink."""
    found = load_uplink(network.uplink)
    return found.gateway if found else ""


def set_uplink(place: Paths, gateway: str, rules: Rules) -> None:
    """Bring a network's uplink to its rules; without any, take it away. The network is up.

    Raises:
        NoSuchNetwork: its switch died.
        LocalError: this machine cannot do it; says what is missing.
    """
    with locked(place.lock, _LOCK_S):
        known, record = load_uplink(place.uplink), load(place.record)
        switch, cidr = record.standing, str(record.spec.get("cidr"))
        if switch is None:
            raise NoSuchNetwork(f"network {place.folder.name} is not up; `tidepool up` mends it")
        if not rules:
            if known is not None:
                # From here on it does not stand, and names no peer, wherever this is cut off.
                replace(known, stands="", peers={}).save(place.uplink)
                connect_peers(place, cidr, switch, ())
                _take_away(place, known.link.device, switch)
            return
        up = known is not None and bool(known.stands) and _is_up(known.link, switch)
        # Ports and addresses of the host are there once: who finds them free takes them before another looks.
        with host_locked(_LOCK_S):
            if lacks := list(uplink_lacks(place, rules)):
                raise LocalError("\n".join(map(str, lacks)))
            link = known.link if known is not None and up else _free_link(place)
            made = UplinkRecord(gateway, link, peers={peer.network: peer.name for peer in rules.peers})
            made.save(place.uplink)
            # First the rules: nothing is let through before.
            _nft(switch, switch_ruleset(rules))
            _nft(None, host_ruleset(rules, link))
            if not up:
                _connect(link, switch)
        if not up:
            for machine in _machines(place, switch):
                run_ip(machine, (f"route replace default via {gateway} quickack 1",))
        run_in(switch, ("tee", FORWARDS), "1")
        connect_peers(place, cidr, switch, rules.peers)
        replace(made, rules=_digest(rules), stands=_standing(link, switch)).save(place.uplink)


def is_as_known(place: Paths, rules: Rules) -> bool:
    """Return whether the uplink of a network that is up is there, as it was made for these rules."""
    known, record = load_uplink(place.uplink), load(place.record)
    switch = record.standing
    if known is None or switch is None:
        return not rules
    stands = (known.rules, known.stands) == (_digest(rules), _standing(known.link, switch))
    return stands and are_connected(place, str(record.spec["cidr"]), switch, rules.peers)


def remove_uplink(place: Paths) -> None:
    """Take away what the host has of the uplink of a network whose switch is gone; its record may be lost."""
    table = table_of(place)
    if place.uplink.exists() or table in forwarded_ports():
        _nft(None, removal(table))
        # It goes with the switch, but not at once.
        _remove_device(_device_of(table))


def _take_away(place: Paths, device: str, switch: Lifeline) -> None:
    run_in(switch, ("tee", FORWARDS), "0")
    for machine in _machines(place, switch):
        run_ip(machine, ("route flush exact 0.0.0.0/0",))
    _remove_device(device)
    _nft(switch, removal(SWITCH_TABLE))
    _nft(None, removal(table_of(place)))
    place.uplink.unlink()


def _connect(link: Link, switch: Lifeline) -> None:
    """Lay the cable, and lead all that is not the network's over it."""
    _remove_device(link.device)
    run_ip(
        None,
        (
            f"link add {link.device} type veth peer name {UPLINK} netns {switch.pid}",
            f"addr add {link.host}/31 dev {link.device}",
            f"link set {link.device} addrgenmode none up",
        ),
    )
    lines = (
        f"addr add {link.switch}/31 dev {UPLINK}",
        f"link set {UPLINK} addrgenmode none up",
        f"route replace default via {link.host}",
    )
    if not run_ip(switch, lines):
        raise NoSuchNetwork("the switch died while its uplink was made")


def _is_up(link: Link, switch: Lifeline) -> bool:
    return link.host in listed(
        None, "ip", "-o", "-4", "addr", "show", "dev", link.device, "up"
    ) and link.host in listed(switch, "ip", "-4", "route", "show", "default")


def _free_link(place: Paths) -> Link:
    """A pair of addresses that nothing on this machine has; the same one each time, as long as it is free."""
    table = table_of(place)
    device = _device_of(table)
    taken = [
        line.split()[3].partition("/")[0]
        for line in listed(None, "ip", "-o", "-4", "addr", "show").splitlines()
        if line.split()[1] != device
    ]
    pairs = _LINKS.num_addresses // 2
    for i in range(pairs):
        host = _LINKS[2 * ((int(device.removeprefix(UPLINKS), 16) + i) % pairs)]
        if str(host) not in taken:
            return Link(table, device, str(host), str(host + 1))
    raise LocalError(f"all addresses of {_LINKS} are in use on this machine: no stack more can get out")


def _device_of(table: str) -> str:
    """The host's end, whose name may have 15 letters."""
    return UPLINKS + hashlib.sha256(table.encode()).hexdigest()[:8]


def _remove_device(device: str) -> None:
    done = run_in(None, ("ip", "link", "delete", device))
    if done is not None and done.returncode and listed(None, "ip", "link", "show", "dev", device):
        raise LocalError(f"ip refused to delete {device}: {done.stderr.strip()}")


def _standing(link: Link, switch: Lifeline) -> str:
    """Tell what stands from all else: the rules as the kernel has them, the cable, its routes."""
    commands = (
        (None, ("nft", "-s", "list", "table", "ip", link.table)),
        (switch, ("nft", "-s", "list", "table", "ip", SWITCH_TABLE)),
        (None, ("ip", "-o", "-4", "addr", "show", "dev", link.device, "up")),
        (switch, ("ip", "-o", "-4", "addr", "show", "dev", UPLINK, "up")),
        (switch, ("ip", "-4", "route", "show", "default")),
        (switch, ("cat", FORWARDS)),
    )
    text = "\0".join(listed(where, *command) for where, command in commands)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(rules: Rules) -> str:
    text = f"{rules}{rules.peers or ''}"
    return hashlib.sha256(text.encode()).hexdigest()


def _machines(place: Paths, switch: Lifeline) -> Iterator[Lifeline]:
    """First processes of all machines that are plugged into the switch: others find their gateway when they are."""
    data, stack = place.folder.parents[2], place.folder.parents[1].name
    machines = place.folder.parents[1] / "machines"
    for folder in sorted(machines.iterdir()) if machines.is_dir() else ():
        if folder.is_dir():
            record = load(machine_paths(data, stack, folder.name).record)
            if record.standing is not None and record.switch == switch:
                yield record.standing


def _nft(where: Lifeline | None, ruleset: str) -> None:
    done = run_in(where, ("nft", "-f", "-"), ruleset)
    if done is None:
        raise NoSuchNetwork("the switch died while its rules were made")
    if done.returncode:
        raise LocalError(f"nft refused the rules: {done.stderr.strip()}")

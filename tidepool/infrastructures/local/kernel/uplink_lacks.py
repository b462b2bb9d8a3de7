"""Lacks of this machine for the uplink of a network: a program, forwarding, ports that are free.

Asked of the host as it is, each time: a record of the uplink outlives a boot of the host, and nothing else of it does.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.errors import Lack
from tidepool.infrastructures.local.kernel.layout import Paths
from tidepool.infrastructures.local.kernel.netns import listed
from tidepool.infrastructures.local.kernel.ruleset import Rules

#: Whether a network namespace, the host's too, forwards packets: of whoever opens it.
FORWARDS: Final = "/proc/sys/net/ipv4/ip_forward"
_FORWARD: Final = re.compile(r"tcp dport (\d+) dnat to ")
#: In /proc/net/tcp.
_LISTEN: Final = "0A"


def uplink_lacks(network: Paths, rules: Rules) -> Iterator[Lack]:
    """Yield what this machine lacks for the uplink of a network, whether that is there already or not."""
    if not rules:
        return
    if shutil.which("nft") is None:
        yield Lack(
            "firewall: the command nft, which holds the cluster to it, is not on PATH",
            "apt-get install nftables",
        )
    if (rules.egress or rules.ingress) and Path(FORWARDS).read_text().strip() == "0":
        yield Lack(
            "firewall: net.ipv4.ip_forward is 0, so this machine lets nothing through",
            "sysctl -w net.ipv4.ip_forward=1 (and in /etc/sysctl.d, for boots to come)",
        )
    tables = forwarded_ports()
    own = tables.pop(table_of(network), frozenset())
    # What comes to a port that leads to its login machine does so before anybody who listens there.
    taken = ({*_listening()} - own).union(*tables.values())
    for port in (each.port for each in rules.ingress):
        if port in taken:
            yield Lack(
                f"firewall.logins.port: port {port} of this machine, which is to lead to a login machine, is in use here",
                "write another one to firewall.logins.port",
            )


def table_of(network: Paths) -> str:
    """The name of its table on the host: ``tidepool-0f3a6b1c-physics-net``, with a digest of the data folder."""
    _, stack, _, name = network.cgroup.split("/")
    return f"tidepool-{stack}-{name}"


def forwarded_ports() -> dict[str, frozenset[int]]:
    """Return the ports of this machine that lead to login machines, by the tables of the networks that have an uplink."""
    found: dict[str, frozenset[int]] = {}
    table = ""
    # Nothing without nft, by which alone they are made.
    for line in listed(None, "nft", "list", "ruleset", "ip").splitlines() if shutil.which("nft") else ():
        if line.startswith("table "):
            table = line.split()[2]
        if not table.startswith("tidepool-"):
            continue
        ports = {int(match[1])} if (match := _FORWARD.search(line)) else set()
        found[table] = found.get(table, frozenset()) | ports
    return found


def _listening() -> Iterator[int]:
    """Ports of TCP that others reach something of this machine on."""
    for family, loopback in (("tcp", "0100007F"), ("tcp6", "00000000000000000000000001000000")):
        path = Path("/proc/net") / family
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            _, local, _, state, *_ = line.split()
            address, _, port = local.partition(":")
            if state == _LISTEN and address != loopback:
                yield int(port, 16)

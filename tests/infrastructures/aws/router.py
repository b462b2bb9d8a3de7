"""The router of a VPC: a network's switch, which sends on what is to machines by other addresses than those of their subnet."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tidepool.infrastructures.local.kernel.ruleset import BRIDGE

_IPV4 = "/proc/sys/net/ipv4"


def make_router(prefix: Sequence[str]) -> None:
    """Have the switch to which ``prefix`` leads a command forward, and tell nobody of a shorter way.

    Linux tells who sends that the next machine is on the same network (ICMP redirect), unless both the setting of all interfaces and
    the interface's own are off. Whoever believes it sends to that machine for five minutes, though the route leads to another by then.
    TCP believes it while no program is at work on the connection: where an answer takes its time, as on a busy machine. A VPC never
    says so.
    """
    settings = (f"{_IPV4}/conf/{each}/send_redirects" for each in ("all", BRIDGE))
    lines = (f"echo 1 >{_IPV4}/ip_forward", *(f"echo 0 >{each}" for each in settings))
    subprocess.run([*prefix, "sh", "-ec", "; ".join(lines)], check=True, timeout=30)

"""Switches, and the cables from machines to them: a bridge, and a veth pair for each machine.

``ip`` does it, in the namespace that it is handed as a descriptor: a namespace needs no name, and one that is
gone is not mistaken for another. All of a namespace's commands go in one batch. No interface gets an IPv6 address
by itself: among hundreds of machines, their greetings alone would keep the switch busy.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final

from tidepool.local.errors import LocalError, NoSuchMachine, NoSuchNetwork, TimedOut
from tidepool.local.lifeline import Lifeline
from tidepool.local.spec import MachineSpec, NetworkSpec

_BRIDGE: Final = "switch"
_INTERFACE: Final = "eth0"
_TIMEOUT_S: Final = 30.0


def make_switch(switch: Lifeline, spec: NetworkSpec) -> None:
    """Make the bridge in the switch's namespace.

    No spanning tree: it would keep each new port waiting for seconds, and there are no loops.

    Raises:
        NoSuchNetwork: the switch died.
        LocalError: what ``ip`` said.
    """
    address = f"{spec.switch_address}/{spec.prefix_length}"
    lines = (
        "link set lo up",
        f"link add {_BRIDGE} type bridge stp_state 0 forward_delay 0",
        f"addr add {address} dev {_BRIDGE}",
        f"link set {_BRIDGE} addrgenmode none up",
    )
    if not _ip(switch, lines):
        raise NoSuchNetwork(f"the switch of network {spec.name} died while it was made")


def plug_in(machine: Lifeline, switch: Lifeline, spec: MachineSpec, prefix_length: int) -> None:
    """Lay a cable from the machine to the switch, and give the machine its address there.

    Raises:
        NoSuchNetwork: the switch died.
        NoSuchMachine: the machine died.
        LocalError: what ``ip`` said.
    """
    port = f"p{machine.pid}"  # no two living machines share it, and the one before took its own away
    into_the_switch = (
        f"link add {port} type veth peer name {_INTERFACE} address {spec.mac} netns {machine.pid}",
        f"link set {port} master {_BRIDGE} addrgenmode none up",
    )
    if not _ip(switch, into_the_switch):
        raise NoSuchNetwork(f"the switch of network {spec.network} died while {spec.name} was plugged in")
    into_the_machine = (
        "link set lo up",
        f"addr add {spec.address}/{prefix_length} dev {_INTERFACE}",
        f"link set {_INTERFACE} addrgenmode none up",
    )
    if not _ip(machine, into_the_machine):
        raise NoSuchMachine(f"machine {spec.name} died while it was plugged in")


def unplug(machine: Lifeline, spec: MachineSpec) -> None:
    """Take the machine's end of its cable away. That of a dead switch goes by itself, but not at once.

    Raises:
        NoSuchMachine: the machine died.
        LocalError: what ``ip`` said.
    """
    try:
        if not _ip(machine, (f"link del {_INTERFACE}",)):
            raise NoSuchMachine(f"machine {spec.name} died while it was unplugged")
    except LocalError as error:
        if isinstance(error, NoSuchMachine) or "Cannot find device" not in str(error):
            raise


def try_cabling(where: Lifeline) -> None:
    """Make a bridge and a cable, in a namespace that will be thrown away.

    Raises:
        LocalError: what ``ip`` said.
    """
    _ip(where, (f"link add {_BRIDGE} type bridge", f"link add p1 type veth peer name {_INTERFACE}"))


def _ip(where: Lifeline, lines: tuple[str, ...]) -> bool:
    """Run a batch of ``ip`` commands in a process's network; False where that process is gone."""
    namespace = where.open_network_namespace()
    if namespace is None:
        return False
    command = ["nsenter", f"--net=/proc/self/fd/{namespace}", "ip", "-batch", "-"]
    try:
        done = subprocess.run(
            command,
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            pass_fds=(namespace,),
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise LocalError(f"{error.filename} is not on PATH: apt-get install iproute2 util-linux") from None
    except subprocess.TimeoutExpired:
        raise TimedOut(f"ip did not end within {_TIMEOUT_S:g} s") from None
    finally:
        os.close(namespace)
    if done.returncode:
        raise LocalError(f"ip refused ({'; '.join(lines)}): {done.stderr.strip()}")
    return True

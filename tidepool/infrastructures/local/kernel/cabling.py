"""Switches, and the cables from machines to them: a bridge, and a veth pair for each machine.

A machine's first process lays its cable itself (``init/cable.c``): the processes that would do it for hundreds of
machines were a seventh of the time that they took. For the few switches there is ``ip``, in the namespace that it
is handed as a descriptor: a namespace needs no name, and one that is gone is not mistaken for another. All of a
namespace's commands go in one batch. No interface gets an IPv6 address by itself: among hundreds of machines,
their greetings alone would keep the switch busy.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from tidepool.infrastructures.local.kernel.errors import LocalError, NoSuchNetwork, TimedOut
from tidepool.infrastructures.local.kernel.lifeline import Lifeline
from tidepool.infrastructures.local.kernel.spec import MachineSpec, NetworkSpec

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


def cable(
    machine: Lifeline, switch: Lifeline, spec: MachineSpec, prefix_length: int
) -> tuple[int | str, ...]:
    """Return the inputs of a plan's step ``cable``: the switch, the name of its port, and the machine's place there."""
    port = f"p{machine.pid}"  # no two living machines share it, and the one before took its own away
    return switch.pid, switch.start_ticks, port, spec.mac, spec.address, prefix_length


def plug_in(
    program: Path, machine: Lifeline, switch: Lifeline, spec: MachineSpec, prefix_length: int
) -> None:
    """Plug a machine that runs into another switch than the one that it was plugged into.

    Args:
        program: what makes cables (:func:`tidepool.infrastructures.local.kernel.birth.init_program`).
        machine: its PID 1.
        switch: of its network.
        spec: of the machine.
        prefix_length: of its network.

    Raises:
        LocalError: the machine or the switch died, or the kernel refused; says what.
    """
    pid, start, *place = cable(machine, switch, spec, prefix_length)
    arguments = ("cable", pid, start, machine.pid, machine.start_ticks, *place)
    command = [str(program), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise TimedOut(f"machine {spec.name} was not plugged in within {_TIMEOUT_S:g} s") from None
    if done.returncode:
        said = done.stdout.strip().removeprefix("error: ")
        raise LocalError(f"machine {spec.name} could not be plugged in: {said}")


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

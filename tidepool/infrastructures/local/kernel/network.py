"""The networks of a stack. Each is a switch in a namespace of its own: what is in another cannot be reached.

The switch is a bridge; it belongs to no process of ours: its first process only keeps the namespace, and outlives whoever made it.
For the few switches there is ``ip``, in the namespace that it is handed as a descriptor: a namespace needs no name, and one that is
gone is not mistaken for another. All of a namespace's commands go in one batch. A machine's first process lays its cable, a veth
pair, itself (``init/cable.c``): the processes that would do it for hundreds of machines were a seventh of the time that they took. No
interface gets an IPv6 address by itself: among hundreds of machines, their greetings alone would keep the switch busy.

A network has a ``hosts`` file, who has which address, which also keeps addresses from being given twice. All of its machines see the
folder that it is in, so that it can be replaced as a whole.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

from tidepool.cluster.addresses import mac
from tidepool.infrastructures.local.kernel.birth import init_program, newborn
from tidepool.infrastructures.local.kernel.cgroup import Limits
from tidepool.infrastructures.local.kernel.cgroup_versions import choose
from tidepool.infrastructures.local.kernel.errors import InUse, LocalError, NoSuchNetwork, TimedOut, explained
from tidepool.infrastructures.local.kernel.layout import Paths, cgroup_of, names_in, network_paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline, end_all, network_namespace
from tidepool.infrastructures.local.kernel.lock import locked, remove_lock
from tidepool.infrastructures.local.kernel.netns import run_ip
from tidepool.infrastructures.local.kernel.plan import encode, switch_steps
from tidepool.infrastructures.local.kernel.record import Record, load
from tidepool.infrastructures.local.kernel.ruleset import BRIDGE
from tidepool.infrastructures.local.kernel.spec import MachineSpec, NetworkSpec
from tidepool.infrastructures.local.kernel.uplink import gateway_of, remove_uplink

_INTERFACE: Final = "eth0"
_CABLE_S: Final = 30.0


def make_switch(switch: Lifeline, spec: NetworkSpec) -> None:
    """Make the bridge in the switch's namespace.

    No spanning tree: it would keep each new port waiting for seconds, and there are no loops. Its MAC is of its address: by itself a
    bridge has the lowest of its ports', and once that machine is gone, all others would send to a gateway that is nobody's any more,
    for half a minute.

    Raises:
        NoSuchNetwork: the switch died.
        LocalError: what ``ip`` said.
    """
    address = f"{spec.switch_address}/{spec.prefix_length}"
    own = mac(ipaddress.IPv4Address(spec.switch_address))
    lines = (
        "link set lo up",
        f"link add {BRIDGE} address {own} type bridge stp_state 0 forward_delay 0",
        f"addr add {address} dev {BRIDGE}",
        f"link set {BRIDGE} addrgenmode none up",
    )
    if not run_ip(switch, lines):
        raise NoSuchNetwork(f"the switch of network {spec.name} died while it was made")


def cable(
    machine: Lifeline, switch: Lifeline, network: Paths, spec: MachineSpec, prefix_length: int
) -> tuple[int | str, ...]:
    """Return the inputs of a plan's step ``cable``: the switch, the name of its port, the machine's place there, its gateway."""
    port = f"p{machine.pid}"  # no two living machines share it, and the one before took its own away
    return switch.pid, switch.start_ticks, port, spec.mac, spec.address, prefix_length, gateway_of(network)


def plug_in(
    program: Path,
    machine: Lifeline,
    switch: Lifeline,
    network: Paths,
    spec: MachineSpec,
    prefix_length: int,
) -> None:
    """Plug a machine that runs into another switch than the one that it was plugged into.

    ``program`` makes cables (:func:`tidepool.infrastructures.local.kernel.birth.init_program`); ``machine`` is its PID 1.

    Raises:
        LocalError: the machine or the switch died, or the kernel refused; says what.
    """
    pid, start, *place = cable(machine, switch, network, spec, prefix_length)
    arguments = ("cable", pid, start, machine.pid, machine.start_ticks, *place)
    command = [str(program), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CABLE_S, check=False)
    except subprocess.TimeoutExpired:
        raise TimedOut(f"machine {spec.name} was not plugged in within {_CABLE_S:g} s") from None
    if done.returncode:
        said = done.stdout.strip().removeprefix("error: ")
        raise LocalError(f"machine {spec.name} could not be plugged in: {said}")


def try_cabling(where: Lifeline) -> None:
    """Make a bridge and a cable, in a namespace that will be thrown away.

    Raises:
        LocalError: what ``ip`` said.
    """
    run_ip(where, (f"link add {BRIDGE} type bridge", f"link add p1 type veth peer name {_INTERFACE}"))


_LOCALHOST: Final = "127.0.0.1 localhost\n"
_HOSTS_LOCK_S: Final = 30.0


def register_address(network: Paths, address: str, names: tuple[str, ...]) -> None:
    """Give the address to the machine ``names[0]``, which may have had another one.

    Raises:
        InUse: another machine has the address or one of the names.
    """
    with locked(network.folder / "hosts.lock", _HOSTS_LOCK_S):
        entries = dict(_read_hosts(network.hosts))
        for other, others in entries.items():
            if others[0] == names[0]:
                continue
            if other == address:
                raise InUse(
                    f"address {address} of {names[0]} belongs to {others[0]}; each machine has its own"
                )
            if taken := set(others) & set(names):
                raise InUse(f"the name {min(taken)} of {names[0]} belongs to {others[0]} at {other}")
        kept = {other: others for other, others in entries.items() if others[0] != names[0]}
        _write_hosts(network.hosts, {**kept, address: names})


def release_address(network: Paths, name: str) -> None:
    """Take the machine's address back; nothing happens where it has none, or the network is gone."""
    if not network.hosts.is_dir():
        return
    with locked(network.folder / "hosts.lock", _HOSTS_LOCK_S):
        entries = _read_hosts(network.hosts)
        _write_hosts(
            network.hosts, {address: names for address, names in entries.items() if names[0] != name}
        )


def machines_on(network: Paths) -> tuple[str, ...]:
    """The names of those that have an address."""
    return tuple(sorted(names[0] for names in _read_hosts(network.hosts).values()))


def _read_hosts(folder: Path) -> Mapping[str, tuple[str, ...]]:
    try:
        text = (folder / "hosts").read_text("utf-8")
    except FileNotFoundError:
        return {}
    lines = (line.split() for line in text.removeprefix(_LOCALHOST).splitlines())
    return {address: tuple(names) for address, *names in lines if names}


def _write_hosts(folder: Path, entries: Mapping[str, tuple[str, ...]]) -> None:
    folder.mkdir(exist_ok=True, mode=0o755)
    beside = folder / "hosts.new"
    lines = "".join(f"{address} {' '.join(names)}\n" for address, names in entries.items())
    beside.write_text(_LOCALHOST + lines, "utf-8")
    os.replace(beside, folder / "hosts")


@dataclass(frozen=True, slots=True)
class Network:
    """A network that is there. ``dead`` is one whose switch is gone: :func:`create_network` makes it anew."""

    stack: str
    name: str
    cidr: str
    state: Literal["up", "dead"]
    #: The switch's process, as the host sees it; None when dead.
    pid: int | None
    #: Those that have an address on it.
    machines: tuple[str, ...]

    @property
    def prefix(self) -> tuple[str, ...]:
        """Put before a command of the host, it runs in this network, with the switch's address.

        Raises:
            NoSuchNetwork: the network is dead.
        """
        if self.pid is None:
            raise NoSuchNetwork(
                f"network {self.name} of stack {self.stack} is not up; `tidepool up` mends it"
            )
        return ("nsenter", f"--net={network_namespace(self.pid)}", "--")


def create_network(data: Path, spec: NetworkSpec, timeout_s: float = 30.0) -> Network:
    """Make a network; one that is there stays as it is, a half-made or dead one is made anew.

    Machines that were plugged into a switch which died are plugged in again by
    :func:`~tidepool.infrastructures.local.kernel.machine.create_machine`.

    Raises:
        InUse: there is one of that name with other addresses and machines on it, or another network of the stack
            has addresses in the same range.
        TimedOut: it took longer than ``timeout_s``.
        LocalError: this machine cannot do it; says what is missing.
    """
    place = network_paths(data, spec.stack, spec.name)
    deadline = time.monotonic() + timeout_s
    with explained(f"network {spec.name} of stack {spec.stack} could not be made"):
        program = init_program(data)
        with locked(place.lock, timeout_s):
            record = load(place.record)
            if record.fingerprint == spec.fingerprint and record.standing:
                return _describe(place, spec.stack, spec.name, record)
            try:
                _refuse_conflicts(data, spec, place, record)
                end_all(choose(), place.cgroup, record.lifeline)
                made = _make(program, place, spec, deadline)
            except BaseException:
                if not record:  # nobody knows of it yet, so nobody would delete it
                    _unmake(place)
                raise
            return _describe(place, spec.stack, spec.name, made)


def read_network(data: Path, stack: str, name: str) -> Network | None:
    """The network as it is now; None where there is none."""
    place = network_paths(data, stack, name)
    if not place.exists and not choose().members(place.cgroup):
        return None
    return _describe(place, stack, name, load(place.record))


def list_networks(data: Path, stack: str) -> tuple[Network, ...]:
    """All networks of a stack, by name; those too that no state knows, or whose folder somebody removed."""
    running = choose().below(cgroup_of(data, stack, "networks"))
    found = (
        read_network(data, stack, name) for name in sorted({*names_in(data, stack, "networks"), *running})
    )
    return tuple(network for network in found if network is not None)


def delete_network(data: Path, stack: str, name: str, timeout_s: float = 30.0) -> None:
    """Delete a network; one that is gone is no error.

    Raises:
        InUse: machines are still on it.
        TimedOut: it took longer than ``timeout_s``.
    """
    place = network_paths(data, stack, name)
    with explained(f"network {name} of stack {stack} could not be deleted"), locked(place.lock, timeout_s):
        if on_it := machines_on(place):
            raise InUse(
                f"network {name} of stack {stack} still has machines: {', '.join(on_it)}; delete them first"
            )
        _unmake(place)


def _make(program: Path, place: Paths, spec: NetworkSpec, deadline: float) -> Record:
    place.root.mkdir(parents=True, exist_ok=True)
    place.hosts.mkdir(exist_ok=True, mode=0o755)
    record = Record(asdict(spec), spec.fingerprint)
    record.save(place.record)
    cgroups = choose()
    cgroups.create(place.cgroup, Limits())
    with newborn(program, place.log, place.status, deadline) as switch:
        cgroups.add(place.cgroup, switch.lifeline.pid)
        record = replace(record, lifeline=switch.lifeline)
        record.save(place.record)
        make_switch(switch.lifeline, spec)
        switch.boot(encode(switch_steps(str(place.root))), deadline)
    record = replace(record, complete=True)
    record.save(place.record)
    return record


def _unmake(place: Paths) -> None:
    cgroups = choose()
    end_all(cgroups, place.cgroup, load(place.record).lifeline)
    cgroups.remove(place.cgroup)
    remove_uplink(place)
    if place.folder.is_dir():
        shutil.rmtree(place.folder)
    remove_lock(place)


def _refuse_conflicts(data: Path, spec: NetworkSpec, place: Paths, record: Record) -> None:
    if record and record.fingerprint != spec.fingerprint and (on_it := machines_on(place)):
        raise InUse(
            f"network {spec.name} of stack {spec.stack} has {record.spec.get('cidr')}, and the machines "
            f"{', '.join(on_it)}; delete them before it gets {spec.cidr}"
        )
    wanted = ipaddress.IPv4Network(spec.cidr)
    for other in list_networks(data, spec.stack):
        if other.name != spec.name and other.cidr and wanted.overlaps(ipaddress.IPv4Network(other.cidr)):
            raise InUse(
                f"the range {spec.cidr} of network {spec.name} overlaps with {other.cidr} of network {other.name} "
                f"in stack {spec.stack}; give it another"
            )


def _describe(place: Paths, stack: str, name: str, record: Record) -> Network:
    switch = record.standing
    return Network(
        stack=stack,
        name=name,
        cidr=str(record.spec.get("cidr", "")),
        state="up" if switch else "dead",
        pid=switch.pid if switch else None,
        machines=machines_on(place),
    )

"""The networks of a stack. Each is a switch in a namespace of its own: what is in another cannot be reached.

The switch belongs to no process of ours: its first process only keeps the namespace, and outlives whoever made it. A network
has a ``hosts`` file, who has which address, which also keeps addresses from being given twice. All of its machines see the folder
that it is in, so that it can be replaced as a whole.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tidepool.infrastructures.local.kernel.birth import init_program, newborn
from tidepool.infrastructures.local.kernel.cabling import make_switch
from tidepool.infrastructures.local.kernel.cgroup import Limits
from tidepool.infrastructures.local.kernel.cgroup_versions import choose
from tidepool.infrastructures.local.kernel.errors import InUse, NoSuchNetwork, explained
from tidepool.infrastructures.local.kernel.layout import Paths, cgroup_of, names_in, network_paths
from tidepool.infrastructures.local.kernel.lifeline import Lifeline, end_all
from tidepool.infrastructures.local.kernel.lock import locked, remove_lock
from tidepool.infrastructures.local.kernel.plan import encode, switch_steps
from tidepool.infrastructures.local.kernel.record import Record, load
from tidepool.infrastructures.local.kernel.spec import NetworkSpec

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
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net", "--")


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
            if record and record.fingerprint == spec.fingerprint and standing_switch(record):
                return _describe(place, spec.stack, spec.name, record)
            try:
                _refuse_conflicts(data, spec, place, record)
                end_all(choose(), place.cgroup, record.lifeline if record else None)
                made = _make(program, place, spec, deadline)
            except BaseException:
                if record is None:  # nobody knows of it yet, so nobody would delete it
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


def standing_switch(record: Record | None) -> Lifeline | None:
    """The switch of a network's record, where it is whole and alive."""
    if record is None or not record.complete or record.lifeline is None or not record.lifeline.is_alive():
        return None
    return record.lifeline


def _make(program: Path, place: Paths, spec: NetworkSpec, deadline: float) -> Record:
    place.root.mkdir(parents=True, exist_ok=True)
    place.hosts.mkdir(exist_ok=True, mode=0o755)
    record = Record(asdict(spec), spec.fingerprint)
    record.save(place.record)
    cgroups = choose()
    cgroups.create(place.cgroup, Limits())
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    status = os.open(place.status, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with newborn(program, log, status, deadline) as switch:
            cgroups.add(place.cgroup, switch.lifeline.pid)
            record = Record(asdict(spec), spec.fingerprint, switch.lifeline)
            record.save(place.record)
            make_switch(switch.lifeline, spec)
            switch.boot(encode(switch_steps(str(place.root))), deadline)
    finally:
        os.close(log)
        os.close(status)
    record = Record(asdict(spec), spec.fingerprint, switch.lifeline, complete=True)
    record.save(place.record)
    return record


def _unmake(place: Paths) -> None:
    record = load(place.record)
    cgroups = choose()
    end_all(cgroups, place.cgroup, record.lifeline if record else None)
    cgroups.remove(place.cgroup)
    if place.folder.is_dir():
        shutil.rmtree(place.folder)
    remove_lock(place)


def _refuse_conflicts(data: Path, spec: NetworkSpec, place: Paths, record: Record | None) -> None:
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


def _describe(place: Paths, stack: str, name: str, record: Record | None) -> Network:
    switch = standing_switch(record)
    spec: Mapping[str, Any] = record.spec if record else {}
    return Network(
        stack=stack,
        name=name,
        cidr=str(spec.get("cidr", "")),
        state="up" if switch else "dead",
        pid=switch.pid if switch else None,
        machines=machines_on(place),
    )

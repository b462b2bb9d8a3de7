"""The machines of a stack: made, found again, stopped, deleted.

All functions take the data folder and nothing else of the world but the kernel: what they need to know of a
machine is there, so that any process can go on where another one died. They may be called from many threads and
processes at once; each machine has a lock.
"""

from __future__ import annotations

import ipaddress
import shutil
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tidepool.infrastructures.local.kernel.birth import init_program
from tidepool.infrastructures.local.kernel.boot import boot, change
from tidepool.infrastructures.local.kernel.cgroup import Cgroups
from tidepool.infrastructures.local.kernel.cgroup_versions import choose
from tidepool.infrastructures.local.kernel.errors import (
    BadSpec,
    BootFailed,
    InUse,
    NoSuchMachine,
    NoSuchNetwork,
    TimedOut,
    explained,
)
from tidepool.infrastructures.local.kernel.layout import (
    Paths,
    cgroup_of,
    machine_paths,
    names_in,
    network_paths,
)
from tidepool.infrastructures.local.kernel.lifeline import Lifeline, end_all
from tidepool.infrastructures.local.kernel.lock import locked, remove_lock
from tidepool.infrastructures.local.kernel.network import release_address
from tidepool.infrastructures.local.kernel.record import Record, ServiceState, load, service_states
from tidepool.infrastructures.local.kernel.spec import MachineSpec, NetworkSpec, boot_fingerprint

_LOCK_S: Final = 60.0
_TOLD_LINES: Final = 20

#: ``running``; ``frozen``; ``dead``: its disk is there, and nothing runs; ``half-made``: its maker died, or is
#: at work; ``unplugged``: it runs, but its network's switch died. ``create_machine`` makes all but ``frozen`` run.
MachineState = Literal["running", "frozen", "dead", "half-made", "unplugged"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as it is now. What cannot be told, because its record was lost, is empty."""

    stack: str
    name: str
    state: MachineState
    network: str
    address: str
    mac: str
    image: str
    cpus: float
    memory_mib: int
    #: Tells with which specification it was made (:attr:`MachineSpec.fingerprint`).
    fingerprint: str
    #: Whether it runs, and its next boot would bring other services, files, ... than it booted with.
    outdated: bool
    #: Its PID 1, as the host sees it; None where it does not run.
    pid: int | None
    services: tuple[ServiceState, ...]
    #: How many of its processes were killed because it has no more memory.
    memory_kills: int
    boot_log: Path
    #: Given when its disk was made: the next machine of that name has another one.
    machine_id: str = ""


def create_machine(data: Path, spec: MachineSpec, timeout_s: float = 60.0) -> Machine:
    """Make a machine run as specified: its services begin to start, :func:`wait_ready` waits for them.

    One that runs goes on: limits and aliases are changed at once, the rest is taken at its next boot
    (:attr:`Machine.outdated`). A dead or half-made one boots on the disk that it has. Another identity (network,
    address, mac, image) is refused. When it fails, what it made is taken away again; what was there is not.

    Its network must be there. ``timeout_s`` is for all of it.

    Raises:
        NoSuchNetwork: the network is not there, or not up.
        BadSpec: its address is not one of the network's.
        InUse: another machine, or the switch, has its address or its name; or it is there with another identity.
        BootFailed: it did not boot; says why, with the end of its boot log.
        TimedOut: it took longer than ``timeout_s``.
        LocalError: this machine cannot do it; says what is missing.
    """
    place = machine_paths(data, spec.stack, spec.name)
    network = network_paths(data, spec.stack, spec.network)
    deadline = time.monotonic() + timeout_s
    with explained(f"machine {spec.name} of stack {spec.stack} could not be made"):
        program = init_program(data)
        cgroups = choose()
        with locked(place.lock, timeout_s):
            was_there, known = place.folder.is_dir(), load(place.record)
            try:
                _refuse_another(known, spec)
                switch, prefix_length = _switch_of(network, spec)
                if known.standing:
                    change(program, place, network, spec, cgroups, known, switch, prefix_length)
                else:
                    boot(program, place, network, spec, cgroups, switch, prefix_length, deadline)
            except BaseException as error:
                log_end = "" if known else _log(place, _TOLD_LINES)
                if not was_there:  # nobody knows of it yet, so nobody would delete it
                    _unmake(data, place, cgroups, load(place.record), spec.network)
                    remove_lock(place)
                if isinstance(error, BootFailed | TimedOut) and log_end:
                    raise type(error)(f"machine {spec.name}: {error}; its boot log:\n{log_end}") from error
                raise
            return _describe(place, cgroups, spec.stack, spec.name)


def read_machine(data: Path, stack: str, name: str) -> Machine | None:
    """The machine as it is now; None where there is none."""
    place, cgroups = machine_paths(data, stack, name), choose()
    if not place.exists and not cgroups.members(place.cgroup):
        return None
    return _describe(place, cgroups, stack, name)


def list_machines(data: Path, stack: str) -> tuple[Machine, ...]:
    """All machines of a stack, by name; those too that no state knows, or whose folder somebody removed."""
    running = choose().below(cgroup_of(data, stack, "machines"))
    found = (
        read_machine(data, stack, name) for name in sorted({*names_in(data, stack, "machines"), *running})
    )
    return tuple(machine for machine in found if machine is not None)


def wait_ready(data: Path, stack: str, name: str, timeout_s: float) -> Machine:
    """Wait until all of its services are up, but for those of roles that it has not.

    Raises:
        NoSuchMachine: it is not there, or it died.
        TimedOut: one was not up in time; says which, with the end of the boot log.
    """
    start, pause = time.monotonic(), threading.Event()
    deadline = start + timeout_s
    place = machine_paths(data, stack, name)
    while True:
        if not load(place.record).running:
            raise NoSuchMachine(f"machine {name} of stack {stack} is not running")
        services = service_states(place.status)
        if services is not None and all(service.is_ready for service in services):
            return _describe(place, choose(), stack, name)
        if time.monotonic() > deadline:
            late = ", ".join(f"{each.name} is {each.state}" for each in services or () if not each.is_ready)
            said = boot_log(data, stack, name, _TOLD_LINES)
            raise TimedOut(
                f"machine {name} is not ready after {timeout_s:g} s: {late}; its boot log:\n{said}"
            )
        # Often at first; then so that hundreds who wait do not keep from work those that they wait for.
        pause.wait(min(max(0.005, (time.monotonic() - start) / 8), 0.1))


def stop_machine(data: Path, stack: str, name: str, timeout_s: float = 30.0) -> None:
    """Shut it down: its services are stopped, the last one first. Its disk stays. One that is dead is no error.

    After ``timeout_s`` its plug is pulled.

    Raises:
        NoSuchMachine: there is none.
    """
    place = machine_paths(data, stack, name)
    _must_exist(place, stack, name)
    with explained(f"machine {name} of stack {stack} could not be stopped"), locked(place.lock, _LOCK_S):
        record, cgroups = load(place.record), choose()
        if lifeline := record.running:
            cgroups.thaw(place.cgroup)
            lifeline.signal(signal.SIGTERM)
            try:
                lifeline.wait_gone(timeout_s)
            except TimedOut:
                pass  # it was asked; now it is made to
        end_all(cgroups, place.cgroup, record.lifeline)


def delete_machine(
    data: Path, stack: str, name: str, timeout_s: float = 60.0, *, machine_id: str = ""
) -> None:
    """Take away all of it, its disk too, without shutting it down. One that is gone is no error.

    With ``machine_id`` only the machine that has it: another one of its name stays.

    Raises:
        TimedOut: another call was at work on it for ``timeout_s``, or its processes do not end.
    """
    place = machine_paths(data, stack, name)
    with explained(f"machine {name} of stack {stack} could not be deleted"), locked(place.lock, timeout_s):
        record = load(place.record)
        if machine_id and record.machine_id not in ("", machine_id):
            return
        _unmake(data, place, choose(), record)
        remove_lock(place)


def boot_log(data: Path, stack: str, name: str, lines: int | None = None) -> str:
    """Return what its first process and its services said, over all boots; the last ``lines`` of it.

    Raises:
        NoSuchMachine: there is none.
    """
    place = machine_paths(data, stack, name)
    _must_exist(place, stack, name)
    return _log(place, lines)


def processes(data: Path, stack: str, name: str) -> frozenset[int]:
    """The ids of all of its processes, as this host sees them, those of its jobs and containers too; none where it does not run."""
    return choose().members(machine_paths(data, stack, name).cgroup)


def all_processes(data: Path, stack: str) -> frozenset[int]:
    """The ids of all processes of all machines of a stack, as this host sees them."""
    return choose().members(cgroup_of(data, stack, "machines"))


def bind_to_processors(data: Path, stack: str, name: str) -> tuple[int, ...]:
    """Bind all processes of a machine to the processors that its boot chose for its jobs, and return those.

    It holds until it boots again. No two machines have the same ones, as long as there are enough.

    Raises:
        NoSuchMachine: it is not running.
        LocalError: the kernel does not do it.
    """
    place = machine_paths(data, stack, name)
    running_machine(data, stack, name)
    with explained(f"machine {name} of stack {stack} could not be bound to processors"):
        processors = tuple(map(int, place.processors.read_text("utf-8").split()))
        choose().bind(place.cgroup, processors)
    return processors


def cpu_seconds(data: Path, stack: str) -> float:
    """Return the processor time of all machines of a stack since they were first made; of machines that are gone too."""
    try:
        return choose().cpu_s(cgroup_of(data, stack, "machines"))
    except FileNotFoundError:
        return 0.0


def running_machine(data: Path, stack: str, name: str) -> Lifeline:
    """Its PID 1.

    Raises:
        NoSuchMachine: it is not running.
    """
    place = machine_paths(data, stack, name)
    if lifeline := load(place.record).running:
        return lifeline
    what = "is not running" if place.folder.is_dir() else "does not exist"
    raise NoSuchMachine(f"machine {name} of stack {stack} {what}")


def _log(place: Paths, lines: int | None) -> str:
    try:
        text = place.log.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:])


def _switch_of(network: Paths, spec: MachineSpec) -> tuple[Lifeline, int]:
    record = load(network.record)
    switch = record.standing
    if switch is None:
        what = "is not up" if record else "does not exist"
        raise NoSuchNetwork(
            f"machine {spec.name}: network {spec.network} of stack {spec.stack} {what}; create it first"
        )
    its_spec = NetworkSpec(**record.spec)
    if ipaddress.IPv4Address(spec.address) not in ipaddress.IPv4Network(its_spec.cidr):
        raise BadSpec(
            f"machine {spec.name}: address {spec.address} is not in {its_spec.cidr}, its network's range"
        )
    if spec.address == its_spec.switch_address:
        raise InUse(f"machine {spec.name}: address {spec.address} is the switch's own; give it another")
    return switch, its_spec.prefix_length


def _refuse_another(known: Record, spec: MachineSpec) -> None:
    changes = [
        f"{name} {known.spec[name]}, not {wanted}"
        for name, wanted in spec.identity.items()
        if known.spec.get(name, wanted) != wanted
    ]
    if changes:
        raise InUse(
            f"machine {spec.name} of stack {spec.stack} is there, and has {'; '.join(changes)}; "
            "delete it first: its disk goes with it"
        )


def _unmake(data: Path, place: Paths, cgroups: Cgroups, record: Record, network: str = "") -> None:
    end_all(cgroups, place.cgroup, record.lifeline)
    cgroups.remove(place.cgroup)
    stack = place.folder.parent.parent.name
    network = str(record.spec.get("network", network))
    # Without its record nobody knows its network, so all are asked.
    for name in [network] if network else names_in(data, stack, "networks"):
        release_address(network_paths(data, stack, name), place.folder.name)
    if place.folder.is_dir():
        shutil.rmtree(place.folder)


def _must_exist(place: Paths, stack: str, name: str) -> None:
    if not place.folder.is_dir():
        raise NoSuchMachine(f"there is no machine {name} in stack {stack}")


def _describe(place: Paths, cgroups: Cgroups, stack: str, name: str) -> Machine:
    record = load(place.record)
    spec, running = record.spec, record.running
    return Machine(
        stack=stack,
        name=name,
        machine_id=record.machine_id,
        state=_state(place, cgroups, record, alive=running is not None),
        network=str(spec.get("network", "")),
        address=str(spec.get("address", "")),
        mac=str(spec.get("mac", "")),
        image=str(spec.get("image", "")),
        cpus=float(spec.get("cpus", 0)),
        memory_mib=int(spec.get("memory_mib", 0)),
        fingerprint=record.fingerprint,
        outdated=running is not None and record.booted != boot_fingerprint(spec),
        pid=running.pid if running else None,
        services=(service_states(place.status) or ()) if running else (),
        memory_kills=_memory_kills(cgroups, place.cgroup),
        boot_log=place.log,
    )


def _state(place: Paths, cgroups: Cgroups, record: Record, *, alive: bool) -> MachineState:
    if not record.complete:
        return "half-made"
    if not alive:
        return "dead"
    if cgroups.is_frozen(place.cgroup):
        return "frozen"
    if record.switch is None or not record.switch.is_alive():
        return "unplugged"
    return "running"


def _memory_kills(cgroups: Cgroups, group: str) -> int:
    try:
        return cgroups.memory_kills(group)
    except FileNotFoundError:
        return 0

"""Kinds of resources of local: the provider's side of `tidepool.infrastructures.local.resources`; boots are in `boots`."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidepool.cluster.boot import Boot, Service
from tidepool.images.store import ImageStore
from tidepool.infrastructures.local.boots import (
    boot_path,
    load_boot,
    machine_spec,
    name_mistakes,
    stored_boot,
)
from tidepool.infrastructures.local.kernel import (
    BadSpec,
    Lack,
    LocalError,
    MachineSpec,
    NetworkSpec,
    NoSuchMachine,
    Rules,
    create_machine,
    create_network,
    delete_machine,
    delete_network,
    preflight,
    read_machine,
    read_network,
    stop_machine,
    uplink_lacks,
    wait_ready,
)
from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.layout import network_paths
from tidepool.infrastructures.local.kernel.private import make_private, remove_if_empty
from tidepool.infrastructures.local.kernel.uplink import is_as_known, set_uplink
from tidepool.infrastructures.local.resources import (
    Machine,
    MachineModel,
    Network,
    NetworkModel,
    Volume,
    VolumeModel,
)
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Kind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Inputs, Plain


def spec_mistakes(error: BadSpec, inputs: Mapping[str, str]) -> list[Mistake]:
    """Tell the mistakes in a specification of the inputs that it was made of. ``inputs`` names those that are not called as the field is."""
    return [Mistake(inputs.get(field, field), said) for field, said in error.mistakes]


def _rules(network: NetworkModel) -> Rules:
    return Rules(tuple(network.egress), tuple(network.ingress), tuple(network.peers))


class NetworkKind(IdempotentKind[NetworkModel]):
    """A switch. Before the first one is made it is seen whether this machine can make machines at all."""

    resource = Network
    timeout_s = 30.0

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self._lock = threading.Lock()
        self._lacks: tuple[Lack, ...] | None = None

    def mistakes(self, wanted: NetworkModel) -> Iterable[Mistake]:
        try:
            spec = NetworkSpec(wanted.stack, wanted.network, wanted.cidr)
        except BadSpec as error:
            return spec_mistakes(error, {"name": "network"})
        place = network_paths(self._home.data, wanted.stack, wanted.network)
        rules = _rules(wanted)
        lacks = list(uplink_lacks(place, rules))
        if not self._is_up(spec):  # where one is, more can be made
            lacks += self._found_lacking()
        return [Mistake("", str(lack)) for lack in lacks]

    def create(self, wanted: NetworkModel, task: Task) -> Made:
        spec = NetworkSpec(wanted.stack, wanted.network, wanted.cidr)
        create_network(self._home.data, spec, task.left_s)
        place = network_paths(self._home.data, wanted.stack, wanted.network)
        set_uplink(place, spec.switch_address, _rules(wanted))
        return Made(f"{wanted.stack}/{wanted.network}")

    def look(self, id: str, state: NetworkModel) -> Mapping[str, Plain] | None:
        found = read_network(self._home.data, state.stack, state.network)
        if found is None:
            return None
        if found.state == "dead":
            return {"state": "dead"}
        if found.cidr != state.cidr:
            return {"cidr": found.cidr}
        place = network_paths(self._home.data, state.stack, state.network)
        return AS_KNOWN if is_as_known(place, _rules(state)) else {"state": "firewall changed by hand"}

    def delete(self, id: str, state: NetworkModel, task: Task) -> None:
        delete_network(self._home.data, state.stack, state.network, task.left_s)

    def _is_up(self, spec: NetworkSpec) -> bool:
        try:
            there = read_network(self._home.data, spec.stack, spec.name)
        except LocalError:
            return False  # what hinders a look is among what this machine lacks
        return there is not None and there.cidr == spec.cidr and there.state == "up"

    def _found_lacking(self) -> tuple[Lack, ...]:
        # It tries things out, so once for each process.
        with self._lock:
            if self._lacks is None:
                self._lacks = tuple(lack for lack in preflight(self._home.data) if lack.fatal)
            return self._lacks


class VolumeKind(Kind[VolumeModel]):
    """A folder ``<data>/<stack>/volumes/<name>``."""

    resource = Volume

    def mistakes(self, wanted: VolumeModel) -> Iterable[Mistake]:
        return name_mistakes(stack=wanted.stack, volume=wanted.volume)

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        stack, volume = inputs.get("stack"), inputs.get("volume")
        if isinstance(stack, str) and isinstance(volume, str):
            return {"path": str(self._path(stack, volume))}
        return {}

    def create(self, wanted: VolumeModel, task: Task) -> Made:
        path = self._path(wanted.stack, wanted.volume)
        with explained(f"volume {wanted.volume} of stack {wanted.stack} could not be made"):
            make_private(path.parent)
            # One that is there may be in use, and its owner is whom a machine gave it to.
            path.mkdir(exist_ok=True, mode=0o755)
        return Made(f"{wanted.stack}/{wanted.volume}")

    def look(self, id: str, state: VolumeModel) -> Mapping[str, Plain] | None:
        return {} if self._path(state.stack, state.volume).is_dir() else None

    def delete(self, id: str, state: VolumeModel, task: Task) -> None:
        path = self._path(state.stack, state.volume)
        if state.retain:
            if path.is_dir():
                task.info(f"{path} is kept, as the volume says; the next volume of that name has it")
            return
        with explained(f"volume {id} could not be deleted"):
            if path.is_dir():
                shutil.rmtree(path)
            remove_if_empty(path.parent, below=self._home.data)

    def _path(self, stack: str, volume: str) -> Path:
        return self._home.data / stack / "volumes" / volume


#: States in which a machine is one; in the others, creating it mends it.
_THERE: Final = frozenset({"running", "frozen"})
#: The environment variable of who has no time for a machine that does not boot: for how many seconds it is waited for.
PATIENCE: Final = "TIDEPOOL_MACHINE_PATIENCE_S"
_USUAL_STOP_S: Final = Service("any", ("/any",)).stop_timeout_s


def _machine_spec(wanted: MachineModel, root: str, boot: Boot[str]) -> MachineSpec:
    """The machine, as the kernel takes it, with the folder of its image and its boot.

    Raises:
        BadSpec: there are mistakes in it.
    """
    return machine_spec(
        boot,
        stack=wanted.stack,
        name=wanted.machine,
        network=wanted.network,
        address=wanted.address,
        mac=wanted.mac,
        image=root,
        cpus=wanted.cpus,
        memory_mib=wanted.memory_mib,
        aliases=tuple(wanted.aliases),
    )


class MachineKind(IdempotentKind[MachineModel]):
    """A machine of `tidepool.infrastructures.local.kernel`."""

    resource = Machine
    timeout_s = 60.0

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self._patience_s = float(home.environment.get(PATIENCE) or "inf")
        # More at a time only wait for each other's processors.
        self._at_once = threading.BoundedSemaphore(4 * (os.cpu_count() or 1))

    def mistakes(self, wanted: MachineModel) -> Iterable[Mistake]:
        try:
            _machine_spec(wanted, "/", Boot())
        except BadSpec as error:
            return spec_mistakes(error, {"name": "machine", "memory_mib": "memoryMib", "alias": "aliases"})
        return ()

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        connection = {"kind": "local", "stack": inputs.get("stack"), "machine": inputs.get("machine")}
        return {"connection": connection}

    def create(self, wanted: MachineModel, task: Task) -> Made:
        with self._at_once:
            task = task.anew()
            root = self._root(wanted)
            spec = _machine_spec(wanted, root, stored_boot(self._home, wanted.stack, wanted.boot))
            create_machine(self._home.data, spec, min(task.left_s, self._patience_s))
        if wanted.wait_ready:
            wait_ready(self._home.data, wanted.stack, wanted.machine, task.left_s)
        return Made(f"{wanted.stack}/{wanted.machine}")

    def look(self, id: str, state: MachineModel) -> Mapping[str, Plain] | None:
        found = read_machine(self._home.data, state.stack, state.machine)
        if found is None:
            return None
        if found.state not in _THERE:
            return {"state": found.state}
        compared: tuple[tuple[str, Plain, Plain], ...] = (
            ("network", found.network, state.network),
            ("address", found.address, state.address),
            ("mac", found.mac, state.mac),
            ("cpus", found.cpus, state.cpus),
            ("memoryMib", found.memory_mib, state.memory_mib),
        )
        # What its record does not say is no other than it was.
        return {key: there for key, there, known in compared if there and there != known}

    def delete(self, id: str, state: MachineModel, task: Task) -> None:
        with self._at_once:
            task = task.anew()
            if self._takes_time_to_stop(state):
                # One that is gone is as well.
                with suppress(NoSuchMachine):
                    stop_machine(self._home.data, state.stack, state.machine, task.left_s)
            delete_machine(self._home.data, state.stack, state.machine, task.left_s)

    def _takes_time_to_stop(self, state: MachineModel) -> bool:
        """Return whether a service of it was given more time than others to stop: it writes then what others will read."""
        try:
            services = load_boot(boot_path(self._home, state.stack, state.boot)).services
        except FileNotFoundError:
            return False
        return any(service.stop_timeout_s > _USUAL_STOP_S for service in services)

    def _root(self, wanted: MachineModel) -> str:
        image = ImageStore(self._home.images).find(wanted.image)
        if image is None:
            raise Refusal(
                f"machine {wanted.machine}: image {wanted.image[:12]} is not in {self._home.images}; "
                "the resource Image puts it there"
            )
        return str(image.root)

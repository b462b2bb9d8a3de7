"""tidepool:local:Machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from tidepool.cluster.boot import Boot, Service
from tidepool.images.store import ImageStore
from tidepool.infrastructures.local.kernel import (
    BadSpec,
    MachineSpec,
    NoSuchMachine,
    create_machine,
    delete_machine,
    read_machine,
    stop_machine,
    wait_ready,
)
from tidepool.infrastructures.local.kinds.boot import boot_path, load_boot, machine_spec
from tidepool.infrastructures.local.kinds.spec_mistakes import spec_mistakes
from tidepool.infrastructures.local.resources import Machine, MachineModel
from tidepool.resources.errors import Refusal
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Inputs, Plain

#: States in which a machine is one; in the others, creating it mends it.
_THERE: Final = frozenset({"running", "frozen"})
#: The environment variable of who has no time for a machine that does not boot: for how many seconds it is waited for.
PATIENCE: Final = "TIDEPOOL_MACHINE_PATIENCE_S"
_USUAL_STOP_S: Final = Service("any", ("/any",)).stop_timeout_s


def _spec(wanted: MachineModel, root: str, boot: Boot[str]) -> MachineSpec:
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


class MachineKind(Kind[MachineModel]):
    """A machine of `tidepool.infrastructures.local.kernel`."""

    resource = Machine
    timeout_s = 60.0

    def __init__(self, home: Home) -> None:
        self._home = home
        self._patience_s = float(home.environment.get(PATIENCE) or "inf")
        # More at a time only wait for each other's processors.
        self._at_once = threading.BoundedSemaphore(4 * (os.cpu_count() or 1))

    def mistakes(self, wanted: MachineModel) -> Iterable[Mistake]:
        try:
            _spec(wanted, "/", Boot())
        except BadSpec as error:
            return spec_mistakes(error, {"name": "machine", "memory_mib": "memoryMib", "alias": "aliases"})
        return ()

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        connection = {"kind": "local", "stack": inputs.get("stack"), "machine": inputs.get("machine")}
        return {"connection": connection}

    def create(self, wanted: MachineModel, task: Task) -> Made:
        self._make(wanted, task)
        return Made(f"{wanted.stack}/{wanted.machine}")

    def update(self, id: str, old: MachineModel, wanted: MachineModel, task: Task) -> Mapping[str, Plain]:
        self._make(wanted, task)
        return {}

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
                self._shut_down(state, task)
            delete_machine(self._home.data, state.stack, state.machine, task.left_s)

    def _make(self, wanted: MachineModel, task: Task) -> None:
        with self._at_once:
            task = task.anew()
            spec = _spec(wanted, self._root(wanted), self._boot(wanted))
            create_machine(self._home.data, spec, min(task.left_s, self._patience_s))
        if wanted.wait_ready:
            wait_ready(self._home.data, wanted.stack, wanted.machine, task.left_s)

    def _takes_time_to_stop(self, state: MachineModel) -> bool:
        """Return whether a service of it was given more time than others to stop: it writes then what others will read."""
        try:
            services = load_boot(boot_path(self._home, state.stack, state.boot)).services
        except FileNotFoundError:
            return False
        return any(service.stop_timeout_s > _USUAL_STOP_S for service in services)

    def _shut_down(self, state: MachineModel, task: Task) -> None:
        try:
            stop_machine(self._home.data, state.stack, state.machine, task.left_s)
        except NoSuchMachine:
            return  # it is gone, which is as well

    def _root(self, wanted: MachineModel) -> str:
        image = ImageStore(self._home.images).find(wanted.image)
        if image is None:
            raise Refusal(
                f"machine {wanted.machine}: image {wanted.image[:12]} is not in {self._home.images}; "
                "the resource Image puts it there"
            )
        return str(image.root)

    def _boot(self, wanted: MachineModel) -> Boot[str]:
        path = boot_path(self._home, wanted.stack, wanted.boot)
        try:
            return load_boot(path)
        except FileNotFoundError:
            raise Refusal(
                f"machine {wanted.machine}: there is no boot {wanted.boot} ({path} is missing); "
                "the resource Boot writes it, `tidepool up` too where it was removed by hand"
            ) from None

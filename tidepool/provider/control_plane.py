"""tidepool:kubernetes:ControlPlane."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidepool.clients.kubernetes.control_plane import ControlPlane
from tidepool.clients.kubernetes.errors import Conflict, KubernetesError, NotFound, Unreachable
from tidepool.clients.kubernetes.first_objects import first_objects
from tidepool.infrastructures.kubernetes_access import Access, NoAccess, dialer, load_access
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.boots import boot_path, load_boot, machine_spec
from tidepool.provider.machines import boot_log_end
from tidepool.resources.errors import Refusal
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.kubernetes import ControlPlane as Resource
from tidepool.resources.kubernetes import ControlPlaneModel
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

_STATE: Final = "state"
_LOOK_S: Final = 0.05


class ControlPlaneKind(Kind[ControlPlaneModel]):
    """An API server that answers, with controllers and a scheduler that work, and its first objects."""

    resource = Resource
    timeout_s = 90.0

    def __init__(self, home: Home) -> None:
        self._home = home

    def mistakes(self, wanted: ControlPlaneModel) -> Iterable[Mistake]:
        if _place(wanted.machine) is None:
            yield Mistake("machine", f"{dict(wanted.machine)!r} is no connection; known kinds are: local")

    def create(self, wanted: ControlPlaneModel, task: Task) -> Made:
        self._boot_as_wanted(wanted, task)
        return Made(f"{wanted.stack}/{wanted.machine['machine']}", {"version": self._complete(wanted, task)})

    def update(
        self, id: str, old: ControlPlaneModel, wanted: ControlPlaneModel, task: Task
    ) -> Mapping[str, Plain]:
        self._boot_as_wanted(wanted, task)
        return {"version": self._complete(wanted, task)}

    def look(self, id: str, state: ControlPlaneModel) -> Mapping[str, Plain] | None:
        try:
            with self._reached(state) as control_plane:
                if down := control_plane.what_is_down():
                    return {_STATE: f"down: {down}"}
                others = [each.name for each in first_objects() if not control_plane.has(each)]
        except (KubernetesError, Refusal) as error:
            return {_STATE: f"down: {error}"}
        return {_STATE: f"changed: {', '.join(others)}"} if others else AS_KNOWN

    def _complete(self, wanted: ControlPlaneModel, task: Task) -> str:
        """Wait until all of it works, make its first objects, and give its version."""
        with self._reached(wanted) as control_plane:
            pause, said = threading.Event(), ""
            while down := self._still_down(control_plane):
                if time.monotonic() > task.deadline:
                    log = boot_log_end(wanted.machine, self._home.data)
                    raise Refusal(
                        f"the control plane of stack {wanted.stack} does not work after {task.timeout_s:.0f} s: {down}; "
                        f"the boot log of machine {wanted.machine['machine']} ends with:\n{log}"
                    )
                if down != said:
                    task.status(f"waits: {down}")
                    said = down
                pause.wait(_LOOK_S)
        try:
            with self._access(wanted).client(self._home.data) as kubernetes:
                return kubernetes.version()
        except KubernetesError as error:
            raise Refusal(f"the control plane of stack {wanted.stack} came up, and ended: {error}") from None

    def _still_down(self, control_plane: ControlPlane) -> str:
        """Why it cannot be used yet; empty where it can, and has its first objects."""
        try:
            if down := control_plane.what_is_down():
                return down
            if not control_plane.makes_pods():
                return "its controllers have made no service account yet"
            for each in first_objects():
                control_plane.apply(each)
            return ""
        except (Conflict, NotFound, Unreachable) as error:
            return str(error)  # it ended meanwhile; or its own namespaces are yet to come
        except KubernetesError as error:
            raise Refusal(f"the control plane cannot be set up: {error}") from None

    def _boot_as_wanted(self, wanted: ControlPlaneModel, task: Task) -> None:
        """Boot the machine again, where it runs something else than its boot says now."""
        stack, name = _place(wanted.machine) or ("", "")
        there = kernel.read_machine(self._home.data, stack, name)
        if there is None:
            raise Refusal(f"machine {name} of stack {stack} is not there; `tidepool up` makes it")
        try:
            parts = load_boot(boot_path(self._home, stack, wanted.boot))
        except FileNotFoundError:
            raise Refusal(
                f"there is no boot {wanted.boot} in stack {stack}; `tidepool up` writes it"
            ) from None
        spec = machine_spec(
            parts,
            stack=stack,
            name=name,
            network=there.network,
            address=there.address,
            mac=there.mac,
            image=there.image,
            cpus=there.cpus,
            memory_mib=there.memory_mib,
        )
        if kernel.create_machine(self._home.data, spec, task.left_s).outdated:
            task.status(f"machine {name} boots again")
            kernel.stop_machine(self._home.data, stack, name, task.left_s / 2)
            kernel.create_machine(self._home.data, spec, task.left_s)

    def _access(self, wanted: ControlPlaneModel) -> Access:
        try:
            return load_access(self._home.data, wanted.stack, wanted.access)
        except NoAccess as error:
            raise Refusal(f"the control plane of stack {wanted.stack} cannot be reached: {error}") from None

    def _reached(self, wanted: ControlPlaneModel) -> ControlPlane:
        return ControlPlane(self._access(wanted).kubeconfig, dialer(wanted.machine, self._home.data))


def _place(machine: Mapping[str, Any]) -> tuple[str, str] | None:
    match machine:
        case {"kind": "local", "stack": str(stack), "machine": str(name)}:
            return stack, name
    return None

"""tidepool:kubernetes:Access and tidepool:kubernetes:ControlPlane."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tidepool.clients.kubernetes.contract import NEEDED, Conflict, KubernetesError, NotFound, Unreachable
from tidepool.clients.kubernetes.control_plane import ControlPlane
from tidepool.clients.kubernetes.first_objects import first_objects, shown_objects
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.infrastructures.kubernetes_access import Access, NoAccess, access_path, dialer, load_access
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.boots import machine_spec, name_mistakes, stored_boot
from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.private import remove_private
from tidepool.provider.machines import boot_log_end, local_machine
from tidepool.resources.declarations import Access as AccessResource
from tidepool.resources.declarations import AccessModel, ControlPlaneModel
from tidepool.resources.declarations import ControlPlane as ControlPlaneResource
from tidepool.resources.kind import AS_KNOWN, IdempotentKind, Made, Refusal, Task
from tidepool.resources.reading import Mistake, read
from tidepool.resources.values import UNKNOWN, Inputs, Plain

_STATE: Final = "state"
_OBJECTS: Final = (*first_objects(), *shown_objects())
#: An API server learns of bindings by a watch: rights that were given a moment ago may still be missing, in seconds.
_SETTLES_S: Final = 5.0


def _resolved(wanted: AccessModel) -> Access:
    """Return the access that is to be kept.

    Raises:
        ValueError: it cannot be read, is no kubeconfig, or leads nowhere safe.
    """
    machine = wanted.machine or None
    if wanted.path:
        return Access.in_file(Path(wanted.path), machine)
    return Access.of(wanted.kubeconfig, Path("/"), machine)


class AccessKind(IdempotentKind[AccessModel]):
    """A kubeconfig that is kept, and that was seen to do before anything stood on it."""

    resource = AccessResource
    timeout_s = 60.0

    def mistakes(self, wanted: AccessModel) -> Iterable[Mistake]:
        yield from name_mistakes(stack=wanted.stack, access=wanted.access)
        if bool(wanted.kubeconfig) == bool(wanted.path):
            yield Mistake("kubeconfig", "either kubeconfig or path is wanted")
            return
        if wanted.path and not Path(wanted.path).is_absolute():
            yield Mistake("path", f"it is {wanted.path!r}; an absolute path is wanted")
            return
        try:
            dialer(wanted.machine or None, self._home.data)
        except ValueError as error:
            yield Mistake("machine", str(error))
            return
        key = "path" if wanted.path else "kubeconfig"
        try:
            found = _resolved(wanted)
        except ValueError as error:
            yield Mistake(key, str(error))
            return
        # A person's is asked before anything is made; one that is kept already was asked then.
        if (
            wanted.path
            and wanted.checked
            and self._kept(wanted) != found
            and (why := found.why_not(self._home.data))
        ):
            yield Mistake(key, f"{why}; nothing was changed")

    def derived(self, wanted: AccessModel) -> Mapping[str, Plain]:
        if not wanted.path:
            return {}
        return {"digest": hashlib.sha256(_resolved(wanted).kubeconfig.encode()).hexdigest()[:16]}

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        if any(inputs.get(key) is UNKNOWN for key in ("kubeconfig", "path", "machine")):
            return {}
        try:
            found = _resolved(read(AccessModel, inputs).value)
        except ValueError:
            return {}  # said by a check, or by who uses it
        config = read_kubeconfig(found.kubeconfig)
        return {"server": str(config.cluster["server"]), "authorityCertificate": config.authority}

    def create(self, wanted: AccessModel, task: Task) -> Made:
        try:
            found = _resolved(wanted)
        except ValueError as error:
            raise Refusal(f"access {wanted.access} of stack {wanted.stack}: {error}") from None
        if wanted.checked and (why := found.why_not(self._home.data, settles_s=_SETTLES_S)):
            raise Refusal(f"access {wanted.access} of stack {wanted.stack}: {why}; nothing was changed")
        with explained(f"access {wanted.access} of stack {wanted.stack} could not be written"):
            found.save(access_path(self._home.data, wanted.stack, wanted.access))
        return Made(f"{wanted.stack}/{wanted.access}")

    def look(self, id: str, state: AccessModel) -> Mapping[str, Plain] | None:
        kept = self._kept(state)
        if kept is None:
            return None
        if state.kubeconfig and kept != _resolved(state):
            return None  # somebody wrote into it: it is written anew
        if not state.checked:
            return AS_KNOWN
        try:
            with kept.client(self._home.data) as kubernetes:
                missing = kubernetes.missing_rights(NEEDED)
        except (KubernetesError, ValueError):
            return AS_KNOWN  # what cannot be asked is as it was; who needs it says so
        return {_STATE: f"lacks {', '.join(map(str, missing))}"} if missing else AS_KNOWN

    def delete(self, id: str, state: AccessModel, task: Task) -> None:
        with explained(f"access {id} could not be deleted"):
            remove_private(access_path(self._home.data, state.stack, state.access), below=self._home.data)

    def _kept(self, wanted: AccessModel) -> Access | None:
        try:
            return load_access(self._home.data, wanted.stack, wanted.access)
        except NoAccess:
            return None


_LOOK_S: Final = 0.05


class ControlPlaneKind(IdempotentKind[ControlPlaneModel]):
    """An API server that answers, with controllers and a scheduler that work, and its first objects."""

    resource = ControlPlaneResource
    timeout_s = 90.0

    def mistakes(self, wanted: ControlPlaneModel) -> Iterable[Mistake]:
        if local_machine(wanted.machine) is None:
            yield Mistake("machine", f"{dict(wanted.machine)!r} is no connection; known kinds are: local")

    def create(self, wanted: ControlPlaneModel, task: Task) -> Made:
        self._boot_as_wanted(wanted, task)
        return Made(f"{wanted.stack}/{wanted.machine['machine']}", {"version": self._complete(wanted, task)})

    def look(self, id: str, state: ControlPlaneModel) -> Mapping[str, Plain] | None:
        try:
            with self._reached(state) as control_plane:
                if down := control_plane.what_is_down():
                    return {_STATE: f"down: {down}"}
                others = [each.name for each in _OBJECTS if not control_plane.has(each)]
        except (KubernetesError, Refusal) as error:
            return {_STATE: f"down: {error}"}
        return {_STATE: f"changed: {', '.join(others)}"} if others else AS_KNOWN

    def _complete(self, wanted: ControlPlaneModel, task: Task) -> str:
        """Wait until all of it works, make its first objects, and give its version."""
        with self._reached(wanted) as control_plane:
            if down := task.wait(lambda: self._still_down(control_plane), "waits", _LOOK_S):
                log = boot_log_end(wanted.machine, self._home.data)
                raise Refusal(
                    f"the control plane of stack {wanted.stack} does not work after {task.timeout_s:.0f} s: {down}; "
                    f"the boot log of machine {wanted.machine['machine']} ends with:\n{log}"
                )
        try:
            with self._access(wanted).client(self._home.data) as kubernetes:
                return kubernetes.version()
        except KubernetesError as error:
            raise Refusal(f"the control plane of stack {wanted.stack} came up, and ended: {error}") from None

    def _still_down(self, control_plane: ControlPlane) -> str:
        """Tell why it cannot be used yet; empty where it can, and has its first objects."""
        try:
            if down := control_plane.what_is_down():
                return down
            if not control_plane.makes_pods():
                return "its controllers have made no service account yet"
            for each in _OBJECTS:
                control_plane.apply(each)
            return ""
        except (Conflict, NotFound, Unreachable) as error:
            return str(error)  # it ended meanwhile; or its own namespaces are yet to come
        except KubernetesError as error:
            raise Refusal(f"the control plane cannot be set up: {error}") from None

    def _boot_as_wanted(self, wanted: ControlPlaneModel, task: Task) -> None:
        """Boot the machine again, where it runs something else than its boot says now."""
        stack, name = local_machine(wanted.machine) or ("", "")
        there = kernel.read_machine(self._home.data, stack, name)
        if there is None:
            raise Refusal(f"machine {name} of stack {stack} is not there; `tidepool up` makes it")
        spec = machine_spec(
            stored_boot(self._home, stack, wanted.boot),
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

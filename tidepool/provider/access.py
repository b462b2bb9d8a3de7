"""tidepool:kubernetes:Access."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tidepool.clients.kubernetes.contract import NEEDED
from tidepool.clients.kubernetes.errors import KubernetesError
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.infrastructures.kubernetes_access import Access, NoAccess, access_path, dialer, load_access
from tidepool.infrastructures.local.boots import name_mistakes, remove_if_empty
from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.resources.errors import Refusal
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.kubernetes import Access as Resource
from tidepool.resources.kubernetes import AccessModel
from tidepool.resources.reading import Mistake, read
from tidepool.resources.values import UNKNOWN, Inputs, Plain

_STATE: Final = "state"
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


class AccessKind(Kind[AccessModel]):
    """A kubeconfig that is kept, and that was seen to do before anything stood on it."""

    resource = Resource
    timeout_s = 60.0

    def __init__(self, home: Home) -> None:
        self._home = home

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
        self._keep(wanted)
        return Made(f"{wanted.stack}/{wanted.access}")

    def update(self, id: str, old: AccessModel, wanted: AccessModel, task: Task) -> Mapping[str, Plain]:
        self._keep(wanted)
        return {}

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
        path = access_path(self._home.data, state.stack, state.access)
        with explained(f"access {id} could not be deleted"):
            path.unlink(missing_ok=True)
            path.with_suffix(".new").unlink(missing_ok=True)
            remove_if_empty(path.parent, below=self._home.data)

    def _keep(self, wanted: AccessModel) -> None:
        try:
            found = _resolved(wanted)
        except ValueError as error:
            raise Refusal(f"access {wanted.access} of stack {wanted.stack}: {error}") from None
        if wanted.checked and (why := found.why_not(self._home.data, settles_s=_SETTLES_S)):
            raise Refusal(f"access {wanted.access} of stack {wanted.stack}: {why}; nothing was changed")
        with explained(f"access {wanted.access} of stack {wanted.stack} could not be written"):
            found.save(access_path(self._home.data, wanted.stack, wanted.access))

    def _kept(self, wanted: AccessModel) -> Access | None:
        try:
            return load_access(self._home.data, wanted.stack, wanted.access)
        except NoAccess:
            return None

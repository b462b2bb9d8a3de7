"""tidepool:kubernetes:Access."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.clients.kubernetes.contract import NEEDED
from tidepool.clients.kubernetes.errors import KubernetesError
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.infrastructures.kubernetes_access import Access, NoAccess, access_path, dialer, load_access
from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.spec import is_name
from tidepool.infrastructures.local.kinds.volume import NAME_RULE, remove_if_empty
from tidepool.resources.difference import Rules
from tidepool.resources.errors import Refusal
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import UNKNOWN, Inputs, Plain

_STATE: Final = "state"
_ALLOWED: Final = "allowed"
#: An API server learns of bindings by a watch: rights that were given a moment ago may still be missing, in seconds.
_SETTLES_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    stack: str
    access: str
    kubeconfig: str = field(repr=False)
    path: str
    machine: Mapping[str, Any] | None
    checked: bool

    def resolved(self) -> Access:
        """What is to be kept.

        Raises:
            ValueError: it cannot be read, is no kubeconfig, or leads nowhere safe.
        """
        if self.path:
            return Access.in_file(Path(self.path), self.machine)
        return Access.of(self.kubeconfig, Path("/"), self.machine)


class AccessKind(Kind[Wanted]):
    """A kubeconfig that is kept, and that was seen to do before anything stood on it."""

    token = "tidepool:kubernetes:Access"  # noqa: S105 - a type of resource
    keys = frozenset({"stack", "access", "kubeconfig", "path", "machine", "checked", "digest", _STATE})
    rules = Rules(replaces=frozenset({"stack", "access"}))
    derives = frozenset({"digest"})
    always = {_STATE: _ALLOWED}  # noqa: RUF012 - nobody writes to it
    timeout_s = 60.0

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, reader: Reader) -> Wanted:
        reader.text(_STATE, _ALLOWED)
        reader.text("digest", "")
        reader.text("server", "")
        reader.text("authorityCertificate", "")
        return Wanted(
            stack=reader.text("stack"),
            access=reader.text("access"),
            kubeconfig=reader.text("kubeconfig", ""),
            path=reader.text("path", ""),
            machine=reader.mapping("machine", {}) or None,
            checked=reader.flag("checked", default=True),
        )

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        for key, name in (("stack", wanted.stack), ("access", wanted.access)):
            if not is_name(name):
                yield Mistake(key, f"it is {name!r}; {NAME_RULE}")
        if bool(wanted.kubeconfig) == bool(wanted.path):
            yield Mistake("kubeconfig", "either kubeconfig or path is wanted")
            return
        if wanted.path and not Path(wanted.path).is_absolute():
            yield Mistake("path", f"it is {wanted.path!r}; an absolute path is wanted")
            return
        try:
            dialer(wanted.machine, self._home.data)
        except ValueError as error:
            yield Mistake("machine", str(error))
            return
        key = "path" if wanted.path else "kubeconfig"
        try:
            found = wanted.resolved()
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

    def derived(self, wanted: Wanted) -> Mapping[str, Plain]:
        if not wanted.path:
            return {}
        return {"digest": hashlib.sha256(wanted.resolved().kubeconfig.encode()).hexdigest()[:16]}

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        if any(inputs.get(key) is UNKNOWN for key in ("kubeconfig", "path", "machine")):
            return {}
        try:
            found = self.read(Reader(inputs)).resolved()
        except ValueError:
            return {}  # said by a check, or by who uses it
        config = read_kubeconfig(found.kubeconfig)
        return {"server": str(config.cluster["server"]), "authorityCertificate": config.authority}

    def create(self, wanted: Wanted, task: Task) -> Made:
        self._keep(wanted)
        return Made(f"{wanted.stack}/{wanted.access}")

    def update(self, id: str, old: Wanted, wanted: Wanted, task: Task) -> Mapping[str, Plain]:
        self._keep(wanted)
        return {}

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        kept = self._kept(state)
        if kept is None:
            return None
        if state.kubeconfig and kept != state.resolved():
            return None  # somebody wrote into it: it is written anew
        if not state.checked:
            return AS_KNOWN
        try:
            with kept.client(self._home.data) as kubernetes:
                missing = kubernetes.missing_rights(NEEDED)
        except (KubernetesError, ValueError):
            return AS_KNOWN  # what cannot be asked is as it was; who needs it says so
        return {_STATE: f"lacks {', '.join(map(str, missing))}"} if missing else AS_KNOWN

    def delete(self, id: str, state: Wanted, task: Task) -> None:
        path = access_path(self._home.data, state.stack, state.access)
        with explained(f"access {id} could not be deleted"):
            path.unlink(missing_ok=True)
            path.with_suffix(".new").unlink(missing_ok=True)
            remove_if_empty(path.parent, below=self._home.data)

    def _keep(self, wanted: Wanted) -> None:
        try:
            found = wanted.resolved()
        except ValueError as error:
            raise Refusal(f"access {wanted.access} of stack {wanted.stack}: {error}") from None
        if wanted.checked and (why := found.why_not(self._home.data, settles_s=_SETTLES_S)):
            raise Refusal(f"access {wanted.access} of stack {wanted.stack}: {why}; nothing was changed")
        with explained(f"access {wanted.access} of stack {wanted.stack} could not be written"):
            found.save(access_path(self._home.data, wanted.stack, wanted.access))

    def _kept(self, wanted: Wanted) -> Access | None:
        try:
            return load_access(self._home.data, wanted.stack, wanted.access)
        except NoAccess:
            return None

"""The kinds of resources that belong to no infrastructure, by their tokens; the registry has those of infrastructures.

Each is imported when it is asked for, or shortly before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from tidepool.infrastructures.registry import BUILT_IN, descriptor, resource_kind
from tidepool.resources.declarations import RETIRED
from tidepool.resources.kind import AnyKind, Home

_CLASSES: Final = {
    "tidepool:image:Image": ("tidepool.provider.image", "ImageKind"),
    "tidepool:keys:MungeKey": ("tidepool.provider.keys", "MungeKeyKind"),
    "tidepool:keys:SshKey": ("tidepool.provider.keys", "SshKeyKind"),
    "tidepool:keys:SigningKey": ("tidepool.provider.keys", "SigningKeyKind"),
    "tidepool:keys:EncryptionKey": ("tidepool.provider.keys", "EncryptionKeyKind"),
    "tidepool:slurm:Configuration": ("tidepool.provider.configuration", "ConfigurationKind"),
    "tidepool:slurm:Slots": ("tidepool.provider.slots", "SlotsKind"),
    "tidepool:slurm:Node": ("tidepool.provider.node", "NodeKind"),
    "tidepool:slurm:Users": ("tidepool.provider.users", "UsersKind"),
}
#: Of clusters with pools, accounts or quotas, and of machines of several infrastructures: no other cluster waits for what they import.
_LATER: Final = {
    "tidepool:keys:Authority": ("tidepool.provider.certificates", "AuthorityKind"),
    "tidepool:keys:Certificate": ("tidepool.provider.certificates", "CertificateKind"),
    "tidepool:kubernetes:Access": ("tidepool.provider.kubernetes", "AccessKind"),
    "tidepool:kubernetes:ControlPlane": ("tidepool.provider.kubernetes", "ControlPlaneKind"),
    "tidepool:pool:Role": ("tidepool.provider.role", "RoleKind"),
    "tidepool:image:File": ("tidepool.provider.image", "ImageFileKind"),
    "tidepool:ssh:Access": ("tidepool.provider.ssh", "SshAccessKind"),
    "tidepool:infrastructure:Preflight": ("tidepool.provider.preflight", "PreflightKind"),
    **dict.fromkeys(RETIRED.values(), ("tidepool.provider.preflight", "PreflightKind")),
    "tidepool:ssh:Machine": ("tidepool.provider.ssh", "SshMachineKind"),
    "tidepool:slurm:Account": ("tidepool.provider.accounts", "AccountKind"),
    "tidepool:slurm:Accounts": ("tidepool.provider.accounts", "AccountsKind"),
    "tidepool:slurm:Association": ("tidepool.provider.accounts", "AssociationKind"),
    "tidepool:slurm:DatabaseServer": ("tidepool.provider.databases", "DatabaseServerKind"),
    "tidepool:slurm:DatabaseClient": ("tidepool.provider.databases", "DatabaseClientKind"),
    "tidepool:files:Policy": ("tidepool.provider.files", "FilePolicyKind"),
    "tidepool:slurm:Qos": ("tidepool.provider.qualities", "QosKind"),
    "tidepool:runs:Run": ("tidepool.provider.run", "RunKind"),
}
TOKENS: Final = frozenset({*_CLASSES, *_LATER})


def public_tokens() -> frozenset[str]:
    """Return the tokens of all resources that programs can register; those of retired types are not among them."""
    of_infrastructures = (token for name in BUILT_IN for token in descriptor(name).kinds)
    return (TOKENS | {*of_infrastructures}) - {*RETIRED.values()}


class Kinds:
    """The kinds of one provider process, whose resources are kept at ``home``."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._made: dict[str, AnyKind] = {}

    def of(self, token: str) -> AnyKind:
        """The kind of that token.

        Raises:
            KeyError: there is none.
        """
        with self._lock:
            if token not in self._made:
                self._made[token] = _class(token)(self._home)
            return self._made[token]


def _class(token: str) -> Callable[[Home], AnyKind]:
    if (found := _CLASSES.get(token) or _LATER.get(token)) is None:
        return cast(Callable[[Home], AnyKind], resource_kind(token))
    module, name = found
    return cast(Callable[[Home], AnyKind], getattr(import_module(module), name))


def import_ahead() -> None:
    """Import the kinds of every cluster in a thread: the program that will ask for them has its own imports to do meanwhile."""
    threading.Thread(target=_import_all, name="imports", daemon=True).start()


def _import_all() -> None:
    local = (path.partition(":")[0] for path in descriptor("local").kinds.values())
    for module in (*(module for module, _ in _CLASSES.values()), *local):
        try:
            import_module(module)
        except ImportError:
            return  # told to who asks for it

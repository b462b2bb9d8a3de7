"""All kinds of resources, by their tokens. Each is imported when it is asked for, or shortly before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Final

from tidepool.resources.kind import AnyKind, Home

_CLASSES: Final = {
    "tidepool:image:Image": ("tidepool.provider.image", "ImageKind"),
    "tidepool:keys:MungeKey": ("tidepool.provider.keys", "MungeKeyKind"),
    "tidepool:keys:SshKey": ("tidepool.provider.keys", "SshKeyKind"),
    "tidepool:keys:SigningKey": ("tidepool.provider.keys", "SigningKeyKind"),
    "tidepool:keys:EncryptionKey": ("tidepool.provider.keys", "EncryptionKeyKind"),
    "tidepool:local:Network": ("tidepool.infrastructures.local.kinds.network", "NetworkKind"),
    "tidepool:local:Volume": ("tidepool.infrastructures.local.kinds.volume", "VolumeKind"),
    "tidepool:local:Boot": ("tidepool.infrastructures.local.kinds.boot", "BootKind"),
    "tidepool:local:Machine": ("tidepool.infrastructures.local.kinds.machine", "MachineKind"),
    "tidepool:slurm:Configuration": ("tidepool.provider.configuration", "ConfigurationKind"),
    "tidepool:slurm:Slots": ("tidepool.provider.slots", "SlotsKind"),
    "tidepool:slurm:Node": ("tidepool.provider.node", "NodeKind"),
}
#: Of clusters with pools: no other cluster waits for what they import.
_OF_POOLS: Final = {
    "tidepool:keys:Authority": ("tidepool.provider.certificates", "AuthorityKind"),
    "tidepool:keys:Certificate": ("tidepool.provider.certificates", "CertificateKind"),
    "tidepool:kubernetes:Access": ("tidepool.provider.access", "AccessKind"),
    "tidepool:kubernetes:ControlPlane": ("tidepool.provider.control_plane", "ControlPlaneKind"),
    "tidepool:pool:Role": ("tidepool.provider.role", "RoleKind"),
}
#: Of infrastructures that are not this machine.
_ELSEWHERE: Final = {
    "tidepool:aws:Forwarding": ("tidepool.infrastructures.aws.kinds.forwarding", "AwsForwardingKind"),
    "tidepool:aws:Region": ("tidepool.infrastructures.aws.kinds.region", "AwsRegionKind"),
    "tidepool:image:File": ("tidepool.provider.image_file", "ImageFileKind"),
    "tidepool:kubernetes:Place": ("tidepool.infrastructures.kubernetes.kinds.cluster", "KubernetesPlaceKind"),
    "tidepool:kubernetes:Machine": (
        "tidepool.infrastructures.kubernetes.kinds.machine",
        "KubernetesMachineKind",
    ),
    "tidepool:libvirt:Host": ("tidepool.infrastructures.libvirt.kinds.host", "LibvirtHostKind"),
    "tidepool:nomad:Cluster": ("tidepool.infrastructures.nomad.kinds.cluster", "NomadClusterKind"),
    "tidepool:nomad:Machine": ("tidepool.infrastructures.nomad.kinds.machine", "NomadMachineKind"),
    "tidepool:ssh:Access": ("tidepool.provider.ssh_access", "SshAccessKind"),
    "tidepool:ssh:Host": ("tidepool.infrastructures.ssh.kinds.host", "SshHostKind"),
    "tidepool:ssh:Inventory": ("tidepool.infrastructures.ssh.kinds.inventory", "SshInventoryKind"),
    "tidepool:ssh:Machine": ("tidepool.provider.ssh_machine", "SshMachineKind"),
    "tidepool:ssh:Playbook": ("tidepool.infrastructures.ssh.kinds.playbook", "SshPlaybookKind"),
}
#: What no other cluster waits for.
_LATER: Final = {**_OF_POOLS, **_ELSEWHERE}
TOKENS: Final = frozenset({*_CLASSES, *_LATER})


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
        module, name = _CLASSES.get(token) or _LATER[token]
        with self._lock:
            if token not in self._made:
                make: Callable[[Home], AnyKind] = getattr(import_module(module), name)
                self._made[token] = make(self._home)
            return self._made[token]


def import_ahead() -> None:
    """Import the kinds of every cluster in a thread: the program that will ask for them has its own imports to do meanwhile."""
    threading.Thread(target=_import_all, name="imports", daemon=True).start()


def _import_all() -> None:
    for module, _ in _CLASSES.values():
        try:
            import_module(module)
        except ImportError:
            return  # told to who asks for it

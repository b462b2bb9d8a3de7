"""All kinds of resources, by their tokens. Each is imported when it is asked for, or shortly before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Final

from tidepool.provider.kind import AnyKind, Home

_CLASSES: Final = {
    "tidepool:image:Image": ("image", "ImageKind"),
    "tidepool:keys:MungeKey": ("keys", "MungeKeyKind"),
    "tidepool:keys:SshKey": ("keys", "SshKeyKind"),
    "tidepool:keys:SigningKey": ("keys", "SigningKeyKind"),
    "tidepool:keys:EncryptionKey": ("keys", "EncryptionKeyKind"),
    "tidepool:local:Network": ("network", "NetworkKind"),
    "tidepool:local:Volume": ("volume", "VolumeKind"),
    "tidepool:local:Boot": ("boot", "BootKind"),
    "tidepool:local:Machine": ("machine", "MachineKind"),
    "tidepool:slurm:Configuration": ("configuration", "ConfigurationKind"),
    "tidepool:slurm:Slots": ("slots", "SlotsKind"),
    "tidepool:slurm:Node": ("node", "NodeKind"),
}
#: Of clusters with pools: no other cluster waits for what they import.
_OF_POOLS: Final = {
    "tidepool:keys:Authority": ("certificates", "AuthorityKind"),
    "tidepool:keys:Certificate": ("certificates", "CertificateKind"),
    "tidepool:kubernetes:Access": ("access", "AccessKind"),
    "tidepool:kubernetes:ControlPlane": ("control_plane", "ControlPlaneKind"),
    "tidepool:pool:Role": ("role", "RoleKind"),
}
#: Of infrastructures that are not this machine.
_ELSEWHERE: Final = {
    "tidepool:aws:Forwarding": ("aws_forwarding", "AwsForwardingKind"),
    "tidepool:aws:Region": ("aws_region", "AwsRegionKind"),
    "tidepool:image:File": ("image_file", "ImageFileKind"),
    "tidepool:kubernetes:Place": ("kubernetes_place", "KubernetesPlaceKind"),
    "tidepool:kubernetes:Machine": ("kubernetes_machine", "KubernetesMachineKind"),
    "tidepool:libvirt:Host": ("libvirt_host", "LibvirtHostKind"),
    "tidepool:nomad:Cluster": ("nomad_cluster", "NomadClusterKind"),
    "tidepool:nomad:Machine": ("nomad_machine", "NomadMachineKind"),
    "tidepool:ssh:Access": ("ssh_access", "SshAccessKind"),
    "tidepool:ssh:Host": ("ssh_host", "SshHostKind"),
    "tidepool:ssh:Inventory": ("ssh_inventory", "SshInventoryKind"),
    "tidepool:ssh:Machine": ("ssh_machine", "SshMachineKind"),
    "tidepool:ssh:Playbook": ("ssh_playbook", "SshPlaybookKind"),
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
                make: Callable[[Home], AnyKind] = getattr(import_module(f"tidepool.provider.{module}"), name)
                self._made[token] = make(self._home)
            return self._made[token]


def import_ahead() -> None:
    """Import the kinds of every cluster in a thread: the program that will ask for them has its own imports to do meanwhile."""
    threading.Thread(target=_import_all, name="imports", daemon=True).start()


def _import_all() -> None:
    for module, _ in _CLASSES.values():
        try:
            import_module(f"tidepool.provider.{module}")
        except ImportError:
            return  # told to who asks for it

"""The Kubernetes that pools serve: one of the cluster's own, on one machine of it, or one that is there already."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.clients.kubernetes.first_objects import API_SERVER_USER, TIDEPOOL_USER
from tidepool.clients.kubernetes.kubeconfig_text import kubeconfig_text
from tidepool.cluster.kubelet_files import api_address, pod_routes
from tidepool.cluster.names import CONTROL_PLANE_HOST, KUBERNETES_ACCESS, KUBERNETES_ADMIN_ACCESS
from tidepool.cluster.pool import Kubernetes
from tidepool.components.control_plane_boot import (
    API_PORT,
    ControlPlaneKeys,
    Pair,
    control_plane_boot,
    encryption_configuration,
)
from tidepool.components.locations import Locations
from tidepool.infrastructures.contract import Boot, MachineOrder, VolumeOrder

_NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    CONTROL_PLANE_HOST,
    "localhost",
)
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_SERVER: Final = f"https://{_LOOPBACK}:{API_PORT}"


class KubernetesControlPlane(pulumi.ComponentResource):
    """The machine `kube`: etcd, the API server, the controllers and the scheduler; their keys; and the ways to them.

    Other flags, programs or keys boot the machine again: nodes and pods go on meanwhile. Its objects are in a volume, and
    go with the stack.

    Args:
        name: the cluster's.
        locations: the cluster's, whose spec says of which shape the machine is, and which networks pods and services have.
        toolchain: the folder of Kubernetes' programs (`tidepool.toolchain.find`).
        api_server_flags: more flags of the API server, behind ours.
        timeout_s: how long it may take to come up.
        opts: Pulumi's.
    """

    access: Output[str]
    """Name of the access that Tidepool uses (`resources.Access`), there when the control plane works."""
    admin_access: Output[str]
    """Name of the access that may do everything."""
    server: Output[str]
    """URL of the API server, from within the cluster's network."""
    authority_certificate: Output[str]
    """PEM, by which all know the API server."""
    connection: Output[Mapping[str, Any]]
    """How its machine is reached."""

    def __init__(
        self,
        name: str,
        *,
        locations: Locations,
        toolchain: Input[str],
        api_server_flags: Sequence[str] = (),
        timeout_s: int = 90,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("tidepool:components:KubernetesControlPlane", name, None, locations.options(opts))
        spec = locations.spec
        kubernetes = spec.kubernetes or Kubernetes()
        own = locations.own
        self._name, self._stack = name, locations.stack
        self._mine = pulumi.ResourceOptions(parent=self)
        address = spec.own_addresses.control_plane
        self._authority = resources.Authority(name, common_name=f"{name} kubernetes", opts=self._mine)
        self.authority_certificate = self._authority.certificate
        self.server = Output.from_input(f"https://{address}:{API_PORT}")

        boot = control_plane_boot(
            self._keys(kubernetes, str(address)),
            address=address,
            services=kubernetes.service_network,
            pods=pod_routes(kubernetes.pod_network, spec.pools),
            toolchain=toolchain,
            etcd=own.infrastructure.volume(VolumeOrder("etcd"), self._mine),
            extra=api_server_flags,
        )
        kept = own.infrastructure.boot(CONTROL_PLANE_HOST, boot, self._mine)
        image = own.images[spec.controller_image]
        order = MachineOrder(CONTROL_PLANE_HOST, own.network, address, kubernetes.shape, image, kept)
        machine = own.infrastructure.machine(order, self._mine)
        self.connection = machine.connection

        admin = self._access(KUBERNETES_ADMIN_ACCESS, "tidepool:admin", ("system:masters",), checked=False)
        works = resources.ControlPlane(
            name,
            stack=self._stack,
            access=admin.access,
            machine=machine.connection,
            boot=kept,
            digest=_digest(boot),
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=f"{timeout_s}s", update=f"{timeout_s}s"),
            ),
        )
        access = self._access(KUBERNETES_ACCESS, TIDEPOOL_USER, (), checked=True, after=works)
        self.access, self.admin_access = access.access, admin.access
        self.register_outputs(
            {
                "access": self.access,
                "adminAccess": self.admin_access,
                "server": self.server,
                "authorityCertificate": self.authority_certificate,
                "connection": self.connection,
            }
        )

    def _keys(self, kubernetes: Kubernetes, address: str) -> ControlPlaneKeys:
        name, mine = self._name, self._mine
        etcd = resources.Authority(f"{name}-etcd", common_name=f"{name} etcd", opts=mine)
        accounts = resources.SigningKey(f"{name}-accounts", opts=mine)
        encryption = resources.EncryptionKey(f"{name}-secrets", opts=mine)
        addresses = [str(api_address(kubernetes)), address, _LOOPBACK]
        server = self._signed(
            "server", self._authority, "kube-apiserver", ["server"], names=_NAMES, addresses=addresses
        )
        return ControlPlaneKeys(
            authority=Pair(self._authority.certificate, Output.secret(self._authority.key)),
            server=_pair(server),
            kubelet_client=_pair(self._client("kubelet-client", API_SERVER_USER)),
            etcd_authority=etcd.certificate,
            etcd=_pair(
                self._signed(
                    "etcd", etcd, "etcd", ["server", "client"], names=["localhost"], addresses=[_LOOPBACK]
                )
            ),
            etcd_client=_pair(self._signed("etcd-client", etcd, "kube-apiserver", ["client"])),
            accounts_private=Output.secret(accounts.private_key),
            accounts_public=accounts.public_key,
            encryption=Output.secret(encryption.key.apply(encryption_configuration)),
            controllers=self._kubeconfig(
                _LOCAL_SERVER, self._client("controllers", "system:kube-controller-manager")
            ),
            scheduler=self._kubeconfig(_LOCAL_SERVER, self._client("scheduler", "system:kube-scheduler")),
        )

    def _client(self, name: str, user: str, groups: Sequence[str] = ()) -> resources.Certificate:
        return self._signed(name, self._authority, user, ["client"], organizations=list(groups))

    def _signed(
        self,
        name: str,
        authority: resources.Authority,
        common_name: str,
        usages: Sequence[Literal["server", "client"]],
        *,
        organizations: Sequence[str] = (),
        names: Sequence[str] = (),
        addresses: Sequence[str] = (),
    ) -> resources.Certificate:
        return resources.Certificate(
            f"{self._name}-{name}",
            authority_certificate=authority.certificate,
            authority_key=authority.key,
            common_name=common_name,
            usages=usages,
            organizations=organizations,
            names=names,
            addresses=addresses,
            opts=self._mine,
        )

    def _kubeconfig(self, server: Input[str], client: resources.Certificate) -> Output[str]:
        parts = Output.all(server, self._authority.certificate, client.certificate, client.key)
        return Output.secret(parts.apply(lambda known: kubeconfig_text(*known)))

    def _access(
        self,
        name: str,
        user: str,
        groups: Sequence[str],
        *,
        checked: bool,
        after: pulumi.Resource | None = None,
    ) -> resources.Access:
        return resources.Access(
            name,
            stack=self._stack,
            access=name,
            kubeconfig=self._kubeconfig(self.server, self._client(name, user, groups)),
            machine=self.connection,
            checked=checked,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[after] if after else []),
        )


class KubernetesAccess(pulumi.ComponentResource):
    """A way to a Kubernetes that somebody else runs, by a person's kubeconfig. It has what `KubernetesControlPlane` has.

    The kubeconfig is read at each `up`, and what it leads to must answer, and allow all that Tidepool does.

    Args:
        name: the cluster's.
        locations: the cluster's.
        kubeconfig: an absolute path.
        opts: Pulumi's.
    """

    access: Output[str]
    """Name of the access (`resources.Access`)."""
    server: Output[str]
    """URL of the API server."""
    authority_certificate: Output[str]
    """PEM, by which the API server is known; empty where its certificate is of an authority that all know."""

    def __init__(
        self,
        name: str,
        *,
        locations: Locations,
        kubeconfig: Path,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("tidepool:components:KubernetesAccess", name, None, locations.options(opts))
        made = resources.Access(
            KUBERNETES_ACCESS,
            stack=locations.stack,
            access=KUBERNETES_ACCESS,
            path=str(kubeconfig),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.access, self.server = made.access, made.server
        self.authority_certificate = made.authority_certificate
        self.register_outputs(
            {
                "access": self.access,
                "server": self.server,
                "authorityCertificate": self.authority_certificate,
            }
        )


def _pair(made: resources.Certificate) -> Pair:
    return Pair(made.certificate, Output.secret(made.key))


def _digest(boot: Boot) -> Output[str]:
    """Return what tells the machine's programs from all others. Of keys, nobody guesses it back: it is no secret."""
    parts = Output.json_dumps(
        {
            "services": [asdict(service) for service in boot.services],
            "files": {file.path: file.content for file in boot.files},
            "mounts": {mount.target: mount.source for mount in boot.mounts},
        }
    )
    return Output.unsecret(parts.apply(lambda text: hashlib.sha256(text.encode()).hexdigest()[:16]))

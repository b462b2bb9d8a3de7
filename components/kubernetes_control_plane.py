"""KubernetesControlPlane: a Kubernetes of the cluster's own, on one machine of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.clients.kubernetes.first_objects import API_SERVER_USER, TIDEPOOL_USER
from tidepool.clients.kubernetes.kubeconfig_text import kubeconfig_text
from tidepool.cluster.names import CONTROL_PLANE_HOST, KUBERNETES_ACCESS, KUBERNETES_ADMIN_ACCESS
from tidepool.cluster.pod_network import PodRoute, api_address
from tidepool.cluster.pool import Kubernetes
from tidepool.cluster.spec import ClusterSpec
from tidepool.components.boots.control_plane import (
    API_PORT,
    ControlPlaneKeys,
    Networks,
    Pair,
    control_plane_boot,
)
from tidepool.infrastructures.boot import Boot
from tidepool.infrastructures.contract import Infrastructure, MachineOrder, VolumeOrder

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


@dataclass(frozen=True, slots=True)
class KubernetesControlPlaneArgs:
    """What a control plane is made from.

    ``stack`` is the name under which the data folder keeps its ways; ``network`` is what ``infrastructure`` gave for the
    cluster's network, ``image`` an image's digest, ``toolchain`` the folder of Kubernetes' programs
    (`tidepool.toolchain.find`). ``routes`` lead to the pods of all machines (`tidepool.cluster.pod_network`).
    ``api_server_flags`` are more flags of the API server, behind ours. It has ``timeout_s`` to come up.
    """

    stack: str
    spec: ClusterSpec
    kubernetes: Kubernetes
    infrastructure: Infrastructure
    network: Input[str]
    image: Input[str]
    toolchain: Input[str]
    routes: Sequence[PodRoute] = ()
    api_server_flags: Sequence[str] = ()
    timeout_s: int = 90


class KubernetesControlPlane(pulumi.ComponentResource):
    """The machine `kube`: etcd, the API server, the controllers and the scheduler; their keys; and the ways to them.

    Other flags, programs or keys boot the machine again: nodes and pods go on meanwhile. Its objects are in a volume, and
    go with the stack.
    """

    #: Name of the access that Tidepool uses (`resources.Access`), there when the control plane works.
    access: Output[str]
    #: Name of the one that may do everything.
    admin_access: Output[str]
    #: URL of the API server, from within the cluster's network.
    server: Output[str]
    #: PEM, by which all know the API server.
    authority_certificate: Output[str]
    #: Of its machine.
    connection: Output[Mapping[str, Any]]

    def __init__(
        self, name: str, args: KubernetesControlPlaneArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tidepool:components:KubernetesControlPlane", name, None, opts)
        self._name, self._args = name, args
        self._mine = pulumi.ResourceOptions(parent=self)
        address = args.spec.own_addresses.control_plane
        self._authority = resources.Authority(name, common_name=f"{name} kubernetes", opts=self._mine)
        self.authority_certificate = self._authority.certificate
        self.server = Output.from_input(f"https://{address}:{API_PORT}")

        boot = control_plane_boot(
            self._keys(str(address)),
            networks=Networks(address, args.kubernetes.service_network, args.routes),
            toolchain=args.toolchain,
            etcd=args.infrastructure.volume(VolumeOrder("etcd"), self._mine),
            extra=args.api_server_flags,
        )
        kept = args.infrastructure.boot(CONTROL_PLANE_HOST, boot, self._mine)
        order = MachineOrder(
            CONTROL_PLANE_HOST, args.network, address, args.kubernetes.shape, args.image, kept
        )
        machine = args.infrastructure.machine(order, self._mine)
        self.connection = machine.connection

        admin = self._access(KUBERNETES_ADMIN_ACCESS, "tidepool:admin", ("system:masters",), checked=False)
        works = resources.ControlPlane(
            name,
            stack=args.stack,
            access=admin.access,
            machine=machine.connection,
            boot=kept,
            digest=_digest(boot),
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{args.timeout_s}s", update=f"{args.timeout_s}s"
                ),
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

    def _keys(self, address: str) -> ControlPlaneKeys:
        name, mine, kubernetes = self._name, self._mine, self._args.kubernetes
        etcd = resources.Authority(f"{name}-etcd", common_name=f"{name} etcd", opts=mine)
        accounts = resources.SigningKey(f"{name}-accounts", opts=mine)
        encryption = resources.EncryptionKey(f"{name}-secrets", opts=mine)
        server = resources.Certificate(
            f"{name}-server",
            authority=self._authority,
            common_name="kube-apiserver",
            usages=["server"],
            names=_NAMES,
            addresses=[str(api_address(kubernetes)), address, _LOOPBACK],
            opts=mine,
        )
        return ControlPlaneKeys(
            authority=Pair(self._authority.certificate, Output.secret(self._authority.key)),
            server=_pair(server),
            kubelet_client=_pair(self._client("kubelet-client", API_SERVER_USER)),
            etcd_authority=etcd.certificate,
            etcd=_pair(
                resources.Certificate(
                    f"{name}-etcd",
                    authority=etcd,
                    common_name="etcd",
                    usages=["server", "client"],
                    names=["localhost"],
                    addresses=[_LOOPBACK],
                    opts=mine,
                )
            ),
            etcd_client=_pair(
                resources.Certificate(
                    f"{name}-etcd-client",
                    authority=etcd,
                    common_name="kube-apiserver",
                    usages=["client"],
                    opts=mine,
                )
            ),
            accounts_private=Output.secret(accounts.privateKey),
            accounts_public=accounts.publicKey,
            encryption=Output.secret(encryption.key),
            controllers=self._kubeconfig(
                _LOCAL_SERVER, self._client("controllers", "system:kube-controller-manager")
            ),
            scheduler=self._kubeconfig(_LOCAL_SERVER, self._client("scheduler", "system:kube-scheduler")),
        )

    def _client(self, name: str, user: str, groups: Sequence[str] = ()) -> resources.Certificate:
        return resources.Certificate(
            f"{self._name}-{name}",
            authority=self._authority,
            common_name=user,
            organizations=list(groups),
            usages=["client"],
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
            stack=self._args.stack,
            access=name,
            kubeconfig=self._kubeconfig(self.server, self._client(name, user, groups)),
            machine=self.connection,
            checked=checked,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[after] if after else []),
        )


def _pair(made: resources.Certificate) -> Pair:
    return Pair(made.certificate, Output.secret(made.key))


def _digest(boot: Boot) -> Output[str]:
    """Tells what the machine runs from all else. Of keys, nobody guesses it back: it is no secret."""
    told = Output.json_dumps(
        {
            "services": [asdict(service) for service in boot.services],
            "files": {file.path: file.content for file in boot.files},
            "mounts": {mount.target: mount.source for mount in boot.mounts},
        }
    )
    return Output.unsecret(told.apply(lambda text: hashlib.sha256(text.encode()).hexdigest()[:16]))

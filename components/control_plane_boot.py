"""The machine of a Kubernetes control plane: etcd, the API server, the controllers and the scheduler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from pulumi import Input

from tidepool.cluster.boot import Folder, Service
from tidepool.cluster.kubelet_files import PodRoute, routes
from tidepool.infrastructures.contract import Boot, File, Mount

API_PORT: Final = 6443
_BIN: Final = "/opt/kubernetes/bin"
_PKI: Final = "/etc/kubernetes/pki"
_ETC: Final = "/etc/kubernetes"
_ETCD: Final = "/var/lib/etcd"
#: The way to pods, for those of them that the API server calls.
_ROUTES: Final = f"{_ETC}/routes"
#: Who starts before the API server has its own roles is refused, and tries again only seconds later.
_UNTIL_READY: Final = f"""\
import http.client, ssl, time
context = ssl.create_default_context(cafile="{_PKI}/ca.crt")
context.load_cert_chain("{_PKI}/kubelet-client.crt", "{_PKI}/kubelet-client.key")
while True:
    try:
        connection = http.client.HTTPSConnection("127.0.0.1", {API_PORT}, timeout=5, context=context)
        connection.request("GET", "/readyz")
        if connection.getresponse().status == 200:
            break
    except (OSError, http.client.HTTPException):
        pass
    finally:
        connection.close()
    time.sleep(0.05)
"""
_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
#: As long as a kubelet may be silent. It says that it is there every few seconds.
_NODE_GRACE_S: Final = 12
_ADMISSION: Final = f"{_ETC}/admission.json"
#: What a pod may ask for where its namespace does not say otherwise (``pod-security.kubernetes.io/enforce``): nothing of
#: its machine. Who has the machine's disk has all of this host's, and so other departments' too.
_POD_SECURITY: Final = "baseline"
#: Of the certificate of a kubelet, which asks for the next one long before.
_KUBELET_CERTIFICATE: Final = "168h"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, PEM; the key is secret."""

    certificate: Input[str]
    key: Input[str]


@dataclass(frozen=True, slots=True)
class ControlPlaneKeys:
    """Keys by which the daemons of a control plane know each other.

    ``authority`` signs for all who speak to the API server, ``etcd_authority`` for etcd alone: who is let in by one is
    not by the other. ``controllers`` and ``scheduler`` are kubeconfigs, ``encryption`` is an `encryption_configuration`.
    """

    authority: Pair
    server: Pair
    kubelet_client: Pair
    etcd_authority: Input[str]
    etcd: Pair
    etcd_client: Pair
    accounts_private: Input[str]
    accounts_public: Input[str]
    encryption: Input[str]
    controllers: Input[str]
    scheduler: Input[str]


def control_plane_boot(
    keys: ControlPlaneKeys,
    *,
    address: IPv4Address,
    services: IPv4Network,
    pods: Sequence[PodRoute] = (),
    toolchain: Input[str],
    etcd: Input[str],
    extra: Sequence[str] = (),
) -> Boot:
    """Run them; ``toolchain`` is the folder of their programs, ``etcd`` the volume of etcd's data.

    ``services`` is the network of services, ``pods`` are the ways to pods, ``extra`` more flags of the API server.
    """
    return Boot(
        services=(
            *((Service("routes", ("/sbin/ip", "-batch", _ROUTES), once=True),) if pods else ()),
            _service("etcd", 2379, _etcd()),
            _service("kube-apiserver", API_PORT, (*_api_server(address, services), *extra)),
            Service("kube-apiserver-ready", ("/usr/bin/python3", "-I", "-S", "-c", _UNTIL_READY), once=True),
            _service("kube-controller-manager", 10257, _controllers()),
            _service("kube-scheduler", 10259, _beside("scheduler")),
        ),
        files=(*_files(keys), *((File(_ROUTES, routes(pods)),) if pods else ())),
        folders=(Folder(_ETC, "0700"), Folder(_PKI, "0700"), Folder(_ETCD, "0700")),
        mounts=(Mount(toolchain, _BIN), Mount(etcd, _ETCD, read_only=False)),
    )


def _service(name: str, port: int, flags: Sequence[str]) -> Service:
    return Service(name, (f"{_BIN}/{name}", *flags), ready=f"tcp:{port}")


def _etcd() -> tuple[str, ...]:
    # It listens to this machine alone; on it, too, only who has a key is let in.
    client, peer = "https://127.0.0.1:2379", "https://127.0.0.1:2380"
    return (
        "--name=kube",
        f"--data-dir={_ETCD}/data",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=kube={peer}",
        "--client-cert-auth",
        f"--trusted-ca-file={_PKI}/etcd-ca.crt",
        f"--cert-file={_PKI}/etcd.crt",
        f"--key-file={_PKI}/etcd.key",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={_PKI}/etcd-ca.crt",
        f"--peer-cert-file={_PKI}/etcd.crt",
        f"--peer-key-file={_PKI}/etcd.key",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=1h",
        "--log-level=warn",
    )


def _api_server(address: IPv4Address, services: IPv4Network) -> tuple[str, ...]:
    return (
        f"--advertise-address={address}",
        f"--secure-port={API_PORT}",
        f"--tls-cert-file={_PKI}/server.crt",
        f"--tls-private-key-file={_PKI}/server.key",
        f"--client-ca-file={_PKI}/ca.crt",
        "--anonymous-auth=false",
        "--enable-bootstrap-token-auth=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--admission-control-config-file={_ADMISSION}",
        "--etcd-servers=https://127.0.0.1:2379",
        f"--etcd-cafile={_PKI}/etcd-ca.crt",
        f"--etcd-certfile={_PKI}/etcd-client.crt",
        f"--etcd-keyfile={_PKI}/etcd-client.key",
        f"--encryption-provider-config={_ETC}/encryption.json",
        f"--kubelet-client-certificate={_PKI}/kubelet-client.crt",
        f"--kubelet-client-key={_PKI}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={_PKI}/accounts.pub",
        f"--service-account-signing-key-file={_PKI}/accounts.key",
        f"--service-cluster-ip-range={services}",
        "--profiling=false",
    )


def _controllers() -> tuple[str, ...]:
    return (
        *_beside("controllers"),
        # Each with the rights of what it does, and no more.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={_PKI}/accounts.key",
        f"--root-ca-file={_PKI}/ca.crt",
        # Certificates of kubelets, and of nobody else, are signed; and only when somebody approved them.
        f"--cluster-signing-kubelet-client-cert-file={_PKI}/ca.crt",
        f"--cluster-signing-kubelet-client-key-file={_PKI}/ca.key",
        f"--cluster-signing-duration={_KUBELET_CERTIFICATE}",
        # Tokens that have ended go.
        "--controllers=*,token-cleaner-controller",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={_NODE_GRACE_S}s",
        # By default a thousand pods take minutes.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    )


def _beside(name: str) -> tuple[str, ...]:
    """Return the arguments that the two beside the API server have in common. There is one of each, so none has to be elected."""
    kubeconfig = f"{_ETC}/{name}.kubeconfig"
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        # Nobody speaks to them for others.
        "--authentication-skip-lookup=true",
        f"--client-ca-file={_PKI}/ca.crt",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={_PKI}/server.crt",
        f"--tls-private-key-file={_PKI}/server.key",
        "--leader-elect=false",
        "--profiling=false",
    )


def _files(keys: ControlPlaneKeys) -> tuple[File, ...]:
    private = {
        f"{_PKI}/ca.key": keys.authority.key,
        f"{_PKI}/server.key": keys.server.key,
        f"{_PKI}/kubelet-client.key": keys.kubelet_client.key,
        f"{_PKI}/etcd.key": keys.etcd.key,
        f"{_PKI}/etcd-client.key": keys.etcd_client.key,
        f"{_PKI}/accounts.key": keys.accounts_private,
        f"{_ETC}/encryption.json": keys.encryption,
        f"{_ETC}/controllers.kubeconfig": keys.controllers,
        f"{_ETC}/scheduler.kubeconfig": keys.scheduler,
    }
    public = {
        f"{_PKI}/ca.crt": keys.authority.certificate,
        f"{_PKI}/server.crt": keys.server.certificate,
        f"{_PKI}/kubelet-client.crt": keys.kubelet_client.certificate,
        f"{_PKI}/etcd-ca.crt": keys.etcd_authority,
        f"{_PKI}/etcd.crt": keys.etcd.certificate,
        f"{_PKI}/etcd-client.crt": keys.etcd_client.certificate,
        f"{_PKI}/accounts.pub": keys.accounts_public,
    }
    return (
        File(_ADMISSION, _admission(), "0600"),
        *(File(path, content, "0600") for path, content in private.items()),
        *(File(path, content) for path, content in public.items()),
    )


def _admission() -> str:
    """Namespaces that say nothing are held to `_POD_SECURITY`, and warned of what `restricted` would refuse."""
    levels = {"enforce": _POD_SECURITY, "warn": "restricted"}
    versions = {f"{mode}-version": "latest" for mode in levels}
    configuration = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {**levels, **versions},
        "exemptions": {"namespaces": ["kube-system"]},
    }
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [{"name": "PodSecurity", "configuration": configuration}],
        }
    )


def encryption_configuration(key: str) -> str:
    """Return what has secrets encrypted before etcd has them, by 32 bytes in base64; those in the clear are read as well."""
    providers = [{"secretbox": {"keys": [{"name": "key1", "secret": key}]}}, {"identity": {}}]
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": providers}],
        }
    )

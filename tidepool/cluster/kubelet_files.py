"""The text of the files that a kubelet, its containerd and its network are set up by."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any, Final

from tidepool.cluster.pod_network import PodRoute
from tidepool.cluster.role_layout import (
    AUTHORITY,
    CNI_PROGRAMS,
    CONTAINERD_SOCKET,
    POD_BRIDGE,
    ROUTE_PROTOCOL,
)

#: The container that holds a pod's namespaces; machines have it from their image.
PAUSE: Final = "tidepool/pause:1"
KUBELET_PORT: Final = 10250


def kubelet_config(*, max_pods: int = 110) -> str:
    """KubeletConfiguration, as JSON.

    A machine's limits are those of its control group, which the kubelet cannot see beyond: what it may hand out is told
    to it on its command line.
    """
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": AUTHORITY},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "port": KUBELET_PORT,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            "evictionHard": {
                "imagefs.available": "0%",
                "memory.available": "0%",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "maxPods": max_pods,
            "nodeStatusUpdateFrequency": "2s",
            "registerNode": True,
            "logging": {"verbosity": 0},
        }
    )


def containerd_config() -> str:
    """containerd's, version 2: CRI, runc, and nothing that other machines reach."""
    return f"""\
version = 2
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PROGRAMS}"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def cni_config(pods: IPv4Network) -> str:
    """The network of a machine's pods: a bridge that has the first of their addresses."""
    return _json(
        {
            "cniVersion": "1.0.0",
            "name": "tidepool",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": POD_BRIDGE,
                    "isGateway": True,
                    "hairpinMode": True,
                    "ipMasq": False,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": str(pods)}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                        "dataDir": "/var/lib/cni/networks",
                    },
                }
            ],
        }
    )


def routes(ways: Iterable[PodRoute]) -> str:
    """Lines of `ip -batch`: to the pods of each machine, behind its address."""
    lines = (f"route replace {way.subnet} via {way.via} proto {ROUTE_PROTOCOL}\n" for way in ways)
    return "# To the pods of other machines.\n" + "".join(lines)


def routes_without(text: str, pods: IPv4Network) -> str:
    """Return the part of `routes` for a machine which has ``pods`` itself."""
    return "".join(line for line in text.splitlines(keepends=True) if f" {pods} via " not in line)


def bootstrap_kubeconfig(server: str, authority: str, token: str) -> str:
    """With it a kubelet asks for its first certificate.

    Args:
        server: the API server's URL.
        authority: PEM of the authority that the server's certificate is of.
        token: of a bootstrap token, as `BootstrapToken.text`.
    """
    return _json(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "tidepool",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
                    },
                }
            ],
            "users": [{"name": "bootstrap", "user": {"token": token}}],
            "contexts": [{"name": "bootstrap", "context": {"cluster": "tidepool", "user": "bootstrap"}}],
            "current-context": "bootstrap",
        }
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"

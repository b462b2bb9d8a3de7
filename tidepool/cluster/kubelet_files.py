"""Text of the files that a kubelet, its containerd and its network are set up by; and the subnets of pods.

Each machine of each pool has a /24 of the pod network. Pools take their subnets in the order in which the spec has
them, in blocks (`addresses.POD_BLOCK`): slot 3 of the first pool has the third subnet. A pool that is added behind the
others, or grows within its last block, moves no machine's pods. One that is put between others, or grows beyond its
blocks, moves those behind it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any, Final

from tidepool.cluster import addresses
from tidepool.cluster.roles import AUTHORITY, CNI_PROGRAMS, CONTAINERD_SOCKET, POD_BRIDGE, ROUTE_PROTOCOL

if TYPE_CHECKING:
    from tidepool.cluster.pool import ConvergedPool, Kubernetes


@dataclass(frozen=True, slots=True)
class PodRoute:
    """The pods of ``node`` are in ``subnet``, behind its machine at the address ``via``."""

    node: str
    subnet: IPv4Network
    via: IPv4Address


def pod_routes(pod_network: IPv4Network, pools: Sequence[ConvergedPool]) -> tuple[PodRoute, ...]:
    """The routes that the control plane needs, and each machine besides that of its own pods.

    Raises:
        ValueError: the network has not so many subnets; says what to do.
    """
    needed = addresses.pod_subnets_needed([pool.machines for pool in pools])
    there = addresses.pod_subnets_in(pod_network)
    if needed > there:
        raise ValueError(f"{pod_network} has {there} subnets for pods, and the pools need {needed}")
    found, first = [], 0
    for pool in pools:
        for slot in pool.slots():
            subnet = addresses.pod_subnet(pod_network, first + slot.number - 1)
            found.append(PodRoute(slot.node_name, subnet, slot.address))
        first += addresses.pod_block(pool.machines)
    return tuple(found)


def api_address(kubernetes: Kubernetes) -> IPv4Address:
    """The address of the service ``kubernetes``, by which pods reach the API: the first of the service network."""
    return kubernetes.service_network[1]


#: The container that holds a pod's namespaces; machines have it from their image.
PAUSE: Final = "tidepool/pause:1"
KUBELET_PORT: Final = 10250


def kubelet_config() -> str:
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
            "maxPods": 110,
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


def kubeconfig(server: str, authority: str, who: str, user: Mapping[str, str]) -> dict[str, Any]:
    """Return a kubeconfig with one context: ``server`` is a URL, ``authority`` PEM, ``user`` what ``who`` is known by."""
    certificate = base64.b64encode(authority.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "tidepool", "cluster": {"server": server, "certificate-authority-data": certificate}}
        ],
        "users": [{"name": who, "user": user}],
        "contexts": [{"name": who, "context": {"cluster": "tidepool", "user": who}}],
        "current-context": who,
    }


def bootstrap_kubeconfig(server: str, authority: str, token: str) -> str:
    """Return the kubeconfig with which a kubelet asks for its first certificate; ``token`` is a `BootstrapToken.text`."""
    return _json(kubeconfig(server, authority, "bootstrap", {"token": token}))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"

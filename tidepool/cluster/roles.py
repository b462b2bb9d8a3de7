"""Roles of a pool's machine, and the paths of what makes it serve each and of what serving leaves there. Names, no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Role = Literal["slurm", "kubernetes"]
"""The side that a machine of a pool serves: it is a node of Slurm's, or one of Kubernetes'. Never both."""
ROLES: Final[tuple[Role, ...]] = ("slurm", "kubernetes")

AtDeadline = Literal["stop", "force"]
"""The end of a graceful conversion whose work does not end in time: it is given up, or goes on by force."""


def marker(role: str) -> str:
    """Return the path of the file that a machine has for as long as it has the role."""
    return f"/var/lib/tidepool/roles/{role}"


MUNGE_KEY: Final = "/etc/munge/munge.key"

_ETC: Final = "/etc/kubernetes"
_KUBELET: Final = "/var/lib/kubelet"
#: By whom the API server and the kubelet know each other: the certificate of the authority, PEM.
AUTHORITY: Final = f"{_ETC}/ca.crt"
KUBELET_CONFIG: Final = f"{_ETC}/kubelet.json"
CONTAINERD_CONFIG: Final = f"{_ETC}/containerd.toml"
#: Lines of `ip -batch`: the ways to the pods of other machines.
ROUTES: Final = f"{_ETC}/routes"
#: With it a kubelet asks for its first certificate.
BOOTSTRAP: Final = f"{_ETC}/bootstrap.kubeconfig"
#: Where it writes that it has one, and where that one is.
KUBECONFIG: Final = f"{_KUBELET}/kubeconfig"
KUBELET_PKI: Final = f"{_KUBELET}/pki"
CNI_CONFIG: Final = "/etc/cni/net.d/10-tidepool.conflist"
CNI_PROGRAMS: Final = "/usr/lib/cni"
CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"
#: The containers that an image holds, as `ctr images import` reads them.
CONTAINER_IMAGES: Final = "/usr/share/tidepool/containers"
#: The bridge of the pods.
POD_BRIDGE: Final = "cni0"
#: By this number routes of ours are told from others (rtnetlink(7): those above 4 are nobody's).
ROUTE_PROTOCOL: Final = 116


@dataclass(frozen=True, slots=True)
class Layout:
    """Traces of a role on a machine's disk and in its network.

    ``secrets`` are files, and folders with files, that are overwritten before they are removed. ``state`` is removed;
    folders that begin with one of ``emptied`` stay, without what is in them, for they are of the image. ``links`` are
    network devices, by the beginning of their names; ``routes`` is the protocol of its routes, 0 where it has none,
    and ``routes_file`` what they are made of. ``groups`` are control groups that its services make beside their own, where
    systemd is the first process.
    """

    secrets: tuple[str, ...]
    state: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    routes: int = 0
    routes_file: str = ""
    groups: tuple[str, ...] = ()


LAYOUTS: Final[Mapping[Role, Layout]] = {
    "slurm": Layout(
        secrets=(MUNGE_KEY,),
        emptied=("/run/munge", "/run/slurm", "/var/spool/slurmd", "/var/lib/munge"),
        groups=("system.slice/slurmstepd.scope",),
    ),
    "kubernetes": Layout(
        secrets=(BOOTSTRAP, KUBECONFIG, KUBELET_PKI),
        state=(
            CNI_CONFIG,
            "/run/containerd",
            "/run/netns",
            "/var/lib/cni",
            "/var/log/pods",
            "/var/log/containers",
        ),
        emptied=(_KUBELET,),
        links=(POD_BRIDGE, "veth"),
        routes=ROUTE_PROTOCOL,
        routes_file=ROUTES,
        groups=("kubepods",),
    ),
}

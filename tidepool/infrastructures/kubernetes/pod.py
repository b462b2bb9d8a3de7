"""A machine as a pod: what Kubernetes is told. Plain JSON, by the names of its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final

from tidepool.cluster.shape import Shape
from tidepool.infrastructures.kubernetes.namespace import FLEET_LABEL, STACK_LABEL, labels_of
from tidepool.infrastructures.kubernetes.options import Offering, SiteOptions, Spread
from tidepool.infrastructures.kubernetes.reading import extended

#: Where a pod has what it does when it boots, and the program that does it.
BOOT_FOLDER: Final = "/run/tidepool/boot"
START: Final = "start"
SERVICE: Final = "machines"
ACCOUNT: Final = "machine"
#: What slurmd, munged and sshd need to become other users, and no more; all of it is allowed by the level `baseline`.
CAPABILITIES: Final = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT",
)  # fmt: skip
#: Ready is busy: a budget keeps pods that are ready, and lets all others go.
_BUSY: Final = {"exec": {"command": ["pgrep", "-x", "slurmstepd"]}, "periodSeconds": 5, "timeoutSeconds": 5}
#: So long daemons may take to stop, in their order. Whoever takes a machine away that has no jobs gives it this.
GRACE_S: Final = 30
#: Of a node's pod that somebody else deletes: its daemons stop when its jobs have ended, or after 30 days.
_JOBS_END: Final = {
    "preStop": {"exec": {"command": ["sh", "-c", "while pgrep -x slurmstepd >/dev/null; do sleep 1; done"]}}
}
JOBS_END_S: Final = 30 * 24 * 3600
#: What pods of earlier releases have not: they are left as they are, for another spec is another pod.
SINCE_DELETION_WAITS: Final = ("spec.containers[0].lifecycle", "spec.terminationGracePeriodSeconds")


@dataclass(frozen=True, slots=True)
class Mounted:
    """A volume of a pod: ``source`` is ``SERVER:/PATH`` or ``claim:NAME``."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class PodOrder:
    """One machine that is to be a pod. ``image`` is what nodes pull, ``boot`` the Secret of what it does when it boots."""

    stack: str
    #: Empty for the cluster's own machines.
    fleet: str
    name: str
    address: IPv4Address
    mac: str
    shape: Shape
    image: str
    boot: str
    mounts: tuple[Mounted, ...]
    #: The cluster's own machines by name, those that there can be: slurmd asks them for its configuration.
    hosts: Mapping[str, IPv4Address]
    namespace: str
    network: str
    architecture: str


def metadata(order: PodOrder, place: SiteOptions) -> Mapping[str, Any]:
    """Return the metadata of a pod, with its place in the network."""
    return {
        "name": order.name,
        "namespace": order.namespace,
        "labels": dict(labels_of(order.stack, order.fleet, order.name, order.address)),
        "annotations": {
            **addressed(order, place),
            # Ready is busy, so nobody waits for it: `tidepool:kubernetes:Machine` waits until the machine answers.
            "pulumi.com/skipAwait": "true",
        },
    }


def addressed(order: PodOrder, place: SiteOptions) -> Mapping[str, str]:
    """Return the annotations by which the network gives a pod the address of its slot."""
    match place.addresses:
        case "calico":
            return {"cni.projectcalico.org/ipAddrs": f'["{order.address}"]'}
        case "kube-ovn":
            return {
                "ovn.kubernetes.io/ip_address": str(order.address),
                "ovn.kubernetes.io/mac_address": order.mac,
            }
        case "multus":
            # Networks of multus are named with the length of their prefix: ``net-16``.
            prefix = order.network.rpartition("-")[2]
            one = f'{{"name": "{order.network}", "ips": ["{order.address}/{prefix}"], "mac": "{order.mac}"}}'
            return {"k8s.v1.cni.cncf.io/networks": f"[{one}]"}


def spec(order: PodOrder, offering: Offering, place: SiteOptions) -> Mapping[str, Any]:
    """The pod's spec: one container, which is the machine."""
    mounts = [_mount(at, each) for at, each in enumerate(order.mounts)]
    told: dict[str, Any] = {
        # Under the name of its slot, here and for others (`cpu-17.machines`).
        "hostname": order.name,
        "subdomain": SERVICE,
        "dnsConfig": {"searches": [f"{SERVICE}.{order.namespace}.svc.cluster.local"]},
        "hostAliases": [
            {"ip": str(at), "hostnames": [name]} for name, at in order.hosts.items() if name != order.name
        ],
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": JOBS_END_S if order.fleet else GRACE_S,
        "nodeSelector": {"kubernetes.io/arch": order.architecture, **offering.node_selector},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(order, offering, place, [mount for mount, _ in mounts])],
        "volumes": [
            {"name": "boot", "secret": {"secretName": order.boot, "defaultMode": 0o400}},
            # MPI talks within a machine by it, and needs more than the 64 MiB that pods have.
            {
                "name": "shm",
                "emptyDir": {"medium": "Memory", "sizeLimit": f"{order.shape.memory_mib // 2}Mi"},
            },
            *(volume for _, volume in mounts),
        ],
    }
    if place.pull_secret:
        told["imagePullSecrets"] = [{"name": place.pull_secret}]
    if offering.tolerations:
        told["tolerations"] = [
            _toleration(each.key, each.value, each.effect) for each in offering.tolerations
        ]
    if offering.spread:
        told["topologySpreadConstraints"] = [_spread(each, order) for each in offering.spread]
    if offering.priority_class:
        told["priorityClassName"] = offering.priority_class
    if offering.runtime_class:
        told["runtimeClassName"] = offering.runtime_class
    return told


def _container(
    order: PodOrder, offering: Offering, place: SiteOptions, mounts: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    amounts = {
        "cpu": str(order.shape.cpus),
        "memory": f"{order.shape.memory_mib + offering.overhead_mib}Mi",
        **{name: str(count) for name, count in extended(order.shape, offering).items()},
    }
    told: dict[str, Any] = {
        "name": "machine",
        "image": order.image,
        "imagePullPolicy": place.pull,
        "command": ["/bin/sh", f"{BOOT_FOLDER}/{START}"],
        # Guaranteed: what is asked for is what there is. Whole processors, which kubelets can give to one pod alone.
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
        },
        "volumeMounts": [
            {"name": "boot", "mountPath": BOOT_FOLDER, "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - where MPI looks
            *mounts,
        ],
    }
    if order.fleet:
        told["readinessProbe"] = _BUSY
        told["lifecycle"] = _JOBS_END
    return told


def _mount(at: int, mounted: Mounted) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """In the container, and what it is."""
    name = f"volume-{at}"
    inside: dict[str, Any] = {"name": name, "mountPath": mounted.target}
    kind, _, rest = mounted.source.partition(":")
    if kind == "claim":
        what: dict[str, Any] = {"persistentVolumeClaim": {"claimName": rest}}
    else:
        what = {"nfs": {"server": kind, "path": rest}}
    if mounted.read_only:
        inside["readOnly"] = True
    return inside, {"name": name, **what}


def _toleration(key: str, value: str | None, effect: str | None) -> Mapping[str, str]:
    told = (
        {"key": key, "operator": "Exists"}
        if value is None
        else {"key": key, "operator": "Equal", "value": value}
    )
    return told if effect is None else {**told, "effect": effect}


def _spread(spread: Spread, order: PodOrder) -> Mapping[str, Any]:
    alike = {STACK_LABEL: order.stack, **({FLEET_LABEL: order.fleet} if order.fleet else {})}
    return {
        "topologyKey": spread.over,
        "maxSkew": spread.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if spread.strict else "ScheduleAnyway",
        "labelSelector": {"matchLabels": alike},
    }

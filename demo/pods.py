"""Pods of the demo: made, looked at, and taken away, by the administrator's way to the cluster's own Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.objects import Right
from tidepool.clients.kubernetes.requests import Requests
from tidepool.infrastructures.kubernetes_access import dialer, load_access

#: Of the administrator, who may everything.
ADMIN: Final = "kubernetes-admin"
IMAGE: Final = "tidepool/busybox:1"
_ANY: Final = Right("*", "*")
_PODS: Final = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod as the API server has it. ``said`` is what its container left when it ended; times are in UTC."""

    name: str
    phase: str
    node: str
    created: datetime
    said: str
    restarts: int

    @property
    def has_ended(self) -> bool:
        """It ran to its end."""
        return self.phase in ("Succeeded", "Failed")


class Pods:
    """Pods of the namespace `default`."""

    def __init__(self, data: Path, stack: str, access: str = ADMIN) -> None:
        way = load_access(data, stack, access)
        asked = read_kubeconfig(way.kubeconfig)
        self.requests = Requests(Exchange(asked, dialer(way.machine, data)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.requests.close()

    def make(self, name: str, script: str, **spec: Any) -> None:
        """One that runs ``script`` in a shell; see `manifest`."""
        self.requests.post(_PODS, manifest(name, script, **spec), _ANY)

    def records(self) -> tuple[PodRecord, ...]:
        """All of them."""
        return self.requests.listed(_PODS, _ANY, "Pod", _pod)

    def remove(self, names: Sequence[str]) -> None:
        """Take those away that there are."""
        for name in names:
            self.requests.delete(f"{_PODS}/{name}", _ANY, grace_s=0)


def manifest(
    name: str,
    script: str,
    *,
    pool: str,
    cpu: str = "100m",
    memory: str = "32Mi",
    labels: Mapping[str, str] | None = None,
    grace_s: int = 1,
    restart: str = "Never",
    node: str = "",
    folder: str = "",
) -> dict[str, Any]:
    """A pod for the machines of ``pool``, whose script knows its node as ``NODE``, and ``folder`` of the machine's disk."""
    selector = {"tidepool/pool": pool, **({"kubernetes.io/hostname": node} if node else {})}
    container = {
        "name": "it",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
        **({"volumeMounts": [{"name": "folder", "mountPath": folder}]} if folder else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "nodeSelector": selector,
            "restartPolicy": restart,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": grace_s,
            "dnsPolicy": "Default",
            "containers": [container],
            **({"volumes": [{"name": "folder", "hostPath": {"path": folder}}]} if folder else {}),
        },
    }


def _pod(item: Mapping[str, Any]) -> PodRecord:
    meta, status = item["metadata"], item.get("status", {})
    containers = status.get("containerStatuses") or [{}]
    ended = containers[0].get("state", {}).get("terminated", {})
    return PodRecord(
        name=meta["name"],
        phase=status.get("phase", "Pending"),
        node=item["spec"].get("nodeName", ""),
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        said=str(ended.get("message", "")).strip(),
        restarts=int(containers[0].get("restartCount", 0)),
    )

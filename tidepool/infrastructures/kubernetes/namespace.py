"""Objects of a stack's namespace beside machines: rights, network policies, disruption budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any, Final

from tidepool.infrastructures.kubernetes.labels import FLEET_LABEL, STACK_LABEL

#: Levels of Pod Security. Machines are root within themselves, which the next one forbids.
LEVEL: Final = "baseline"
#: More than a fleet can have: no machine that is busy may be evicted.
_ALL: Final = 65_534


def namespace_labels(stack: str) -> Mapping[str, str]:
    """Whose it is, and what pods in it may be."""
    return {
        STACK_LABEL: stack,
        "pod-security.kubernetes.io/enforce": LEVEL,
        "pod-security.kubernetes.io/enforce-version": "latest",
        "pod-security.kubernetes.io/warn": LEVEL,
    }


def network_policy(
    stack: str, cluster: IPv4Network, reached_from: Iterable[IPv4Network], reaches: Iterable[IPv4Network]
) -> Mapping[str, Any]:
    """Machines of a stack reach each other and their cluster's network, and nobody else does, unless it is said."""
    mine = [{"podSelector": {"matchLabels": {STACK_LABEL: stack}}}, _block(cluster)]
    names = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    return {
        "podSelector": {"matchLabels": {STACK_LABEL: stack}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [*mine, *map(_block, reached_from)]}],
        "egress": [
            {"to": [*mine, *map(_block, reaches)]},
            {"to": [names], "ports": [{"port": 53, "protocol": each} for each in ("UDP", "TCP")]},
        ],
    }


def _block(network: IPv4Network) -> Mapping[str, Any]:
    return {"ipBlock": {"cidr": str(network)}}


def service(stack: str) -> Mapping[str, Any]:
    """Names of all machines of a stack, ready or not: for ready is busy."""
    return {"clusterIP": "None", "selector": {STACK_LABEL: stack}, "publishNotReadyAddresses": True}


def budget(stack: str, fleet: str | None) -> Mapping[str, Any]:
    """Return the budget of a fleet, or of the cluster's own machines: those that are ready stay, all others may be evicted.

    Of pods without a controller a budget can only say how many there must be.
    """
    if fleet is None:
        which: Mapping[str, Any] = {
            "matchLabels": {STACK_LABEL: stack},
            "matchExpressions": [{"key": FLEET_LABEL, "operator": "DoesNotExist"}],
        }
    else:
        which = {"matchLabels": {STACK_LABEL: stack, FLEET_LABEL: fleet}}
    return {"minAvailable": _ALL, "selector": which, "unhealthyPodEvictionPolicy": "AlwaysAllow"}


def attachment(interface: str) -> Mapping[str, Any]:
    """A network of multus: machines are on the nodes' interface, each with the address and MAC that it is given."""
    config = (
        '{"cniVersion": "0.3.1", "type": "macvlan", "master": "%s", "mode": "bridge", '
        '"capabilities": {"ips": true, "mac": true}, "ipam": {"type": "static"}}'
    )
    return {"config": config % interface}

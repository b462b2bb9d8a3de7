"""The namespace of a stack: labels by which its objects are found again, rights in it, and its objects beside machines.

Rights are one table, which a stack asks for in a preview, and gives to its scaler. Pods may nothing: their service account has
no role, and they are given no token of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any, Final

from tidepool.clients.kubernetes.contract import CLUSTER_API
from tidepool.clients.kubernetes.objects import Right
from tidepool.cluster.flows import LINK_LOCAL, SSH, port_range
from tidepool.infrastructures.machines import NO_ADDRESS

if TYPE_CHECKING:
    from tidepool.cluster.firewall import Egress, Firewall, Ingress

STACK_LABEL: Final = "tidepool/stack"
#: Of nodes; the cluster's own machines have none.
FLEET_LABEL: Final = "tidepool/fleet"
#: The machine's name: a node's, or one of the cluster's own.
NODE_LABEL: Final = "tidepool/node"
ADDRESS_LABEL: Final = "tidepool/address"


def labels_of(stack: str, fleet: str, node: str, address: IPv4Address) -> Mapping[str, str]:
    """Return the labels of one machine."""
    told = {STACK_LABEL: stack, FLEET_LABEL: fleet, NODE_LABEL: node, ADDRESS_LABEL: str(address)}
    return {name: value for name, value in told.items() if value}


def address_of(labels: Mapping[str, str]) -> IPv4Address:
    """Its address; 0.0.0.0 where somebody took the label away."""
    try:
        return IPv4Address(labels.get(ADDRESS_LABEL, ""))
    except ValueError:
        return NO_ADDRESS


METAL3: Final = "infrastructure.cluster.x-k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
#: What a resource of Pulumi does with an object: it is made and changed by patches.
_WHOLE: Final = ("create", "delete", "get", "patch")

#: Whose it is: a role in a namespace can allow to look at it.
_OF_NAMESPACES: Final = {("", "namespaces"): ("get",)}
#: What the scaler does in a namespace: it makes and takes machines, and sees what became of them. It reads and changes no
#: secret, no role and no policy.
_OF_PODS: Final = {("", "pods"): ("create", "delete", "get", "list", "patch", "watch")}
_OF_MACHINES: Final = {
    (CLUSTER_API, "machines"): (*_WHOLE, "list"),
    (METAL3, "metal3machines"): _WHOLE,
}
#: What `up` does besides.
_OF_STACKS: Final = {
    ("", "secrets"): _WHOLE,
    ("", "services"): _WHOLE,
    ("", "serviceaccounts"): _WHOLE,
    ("networking.k8s.io", "networkpolicies"): _WHOLE,
    ("policy", "poddisruptionbudgets"): _WHOLE,
}
_OF_CLAIMS: Final = {("", "persistentvolumeclaims"): _WHOLE}
_OF_MULTUS: Final = {("k8s.cni.cncf.io", "network-attachment-definitions"): _WHOLE}
_OF_CLUSTER_API: Final = {
    (CLUSTER_API, "clusters"): _WHOLE,
    (METAL3, "metal3clusters"): _WHOLE,
    (METAL3, "metal3datatemplates"): _WHOLE,
    (METAL3, "metal3machinetemplates"): _WHOLE,
}
#: Who makes the namespace gives rights in it, and so must have them.
_OF_OWNERS: Final = {
    ("", "resourcequotas"): _WHOLE,
    (RBAC, "rolebindings"): _WHOLE,
    (RBAC, "roles"): _WHOLE,
}

_Table = Mapping[tuple[str, str], Sequence[str]]


#: Without it, whether nodes have what pods ask for is seen when pods wait.
LIST_NODES: Final = Right("list", "nodes")


def scaler_table(*, pods: bool, machines: bool) -> _Table:
    """Return the scaler's rights in its namespace, by group and resource."""
    return {**_OF_NAMESPACES, **(_OF_PODS if pods else {}), **(_OF_MACHINES if machines else {})}


def needed(
    namespace: str, *, pods: bool, machines: bool, claims: bool, multus: bool, owner: bool
) -> tuple[Right, ...]:
    """All that an `up` of a stack does, in ``namespace`` and (with ``owner``, to make it) outside."""
    table: dict[tuple[str, str], Sequence[str]] = {
        **scaler_table(pods=pods, machines=machines),
        **_OF_STACKS,
        **(_OF_CLAIMS if claims else {}),
        **(_OF_MULTUS if multus else {}),
        **(_OF_CLUSTER_API if machines else {}),
        **(_OF_OWNERS if owner else {}),
    }
    # To see, in a preview, whether the place is the department's and nodes have what is asked of them.
    outside = [LIST_NODES]
    if owner:
        outside += [Right(verb, "namespaces") for verb in ("create", "delete", "patch")]
    return (*outside, *_rights(table, namespace))


def scaling(namespace: str, *, pods: bool, machines: bool) -> tuple[Right, ...]:
    """All that the scaler does, and what a preview looks at."""
    return _rights(scaler_table(pods=pods, machines=machines), namespace)


def _rights(table: _Table, namespace: str) -> tuple[Right, ...]:
    return tuple(
        Right(verb, resource, group, namespace)
        for (group, resource), verbs in table.items()
        for verb in verbs
    )


def role_rules(table: _Table) -> list[Mapping[str, Any]]:
    """The same as a Role has it."""
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": sorted(verbs)}
        for (group, resource), verbs in sorted(table.items())
    ]


def rights_summary(rights: Iterable[Right]) -> str:
    """Rights in a line: those to one resource together."""
    by_resource: dict[tuple[str, str, str, str], list[str]] = {}
    for right in rights:
        by_resource.setdefault((right.resource, right.group, right.name, right.namespace), []).append(
            right.verb
        )
    return "; ".join(
        str(Right(", ".join(verbs), resource, group, namespace, name))
        for (resource, group, name, namespace), verbs in by_resource.items()
    )


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
    stack: str, cluster: IPv4Network, reached_from: Iterable[IPv4Network]
) -> Mapping[str, Any]:
    """Machines of a stack reach each other and their cluster's network, and nobody else does, unless it is said."""
    mine = [{"podSelector": {"matchLabels": {STACK_LABEL: stack}}}, _block(cluster)]
    names = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    return {
        "podSelector": {"matchLabels": {STACK_LABEL: stack}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [*mine, *map(_block, reached_from)]}],
        "egress": [
            {"to": mine},
            {"to": [names], "ports": [{"port": 53, "protocol": each} for each in ("UDP", "TCP")]},
        ],
    }


def firewall_policies(
    stack: str, firewall: Firewall, logins: Sequence[str], controllers: Sequence[str] = ()
) -> Mapping[str, Mapping[str, Any]]:
    """Return the policies, by name, that let through besides what the firewall allows: of nodes, and of the own machines here."""
    rules = firewall.logins
    of_logins = {"key": NODE_LABEL, "operator": "In", "values": sorted(logins)}
    of_controllers = {"key": NODE_LABEL, "operator": "In", "values": sorted(controllers)}
    of_nodes = {"key": FLEET_LABEL, "operator": "Exists"}
    found = {
        **({"logins": _policy(stack, of_logins, rules.ingress, rules.egress)} if logins else {}),
        **(
            {"controller": _policy(stack, of_controllers, (), firewall.controller.egress)}
            if controllers
            else {}
        ),
        "nodes": _policy(stack, of_nodes, (), firewall.nodes.egress),
    }
    return {name: policy for name, policy in found.items() if policy["policyTypes"]}


def _policy(
    stack: str, machines: Mapping[str, Any], ingress: Sequence[Ingress], egress: Sequence[Egress]
) -> Mapping[str, Any]:
    ssh = [{"port": SSH, "protocol": "TCP"}]
    arrives = [{"from": [*map(_block, rule.sources)], "ports": ssh} for rule in ingress]
    leaves = [{"to": [*map(_block, rule.to)], "ports": _ports(rule)} for rule in egress]
    kinds = {"Ingress": arrives, "Egress": leaves}
    return {
        "podSelector": {"matchLabels": {STACK_LABEL: stack}, "matchExpressions": [machines]},
        "policyTypes": [kind for kind, rules in kinds.items() if rules],
        **{kind.lower(): rules for kind, rules in kinds.items() if rules},
    }


def _ports(rule: Egress) -> Sequence[Mapping[str, Any]]:
    protocol = rule.protocol.upper()
    return [
        {"protocol": protocol, "port": first, **({"endPort": last} if last > first else {})}
        for first, last in map(port_range, rule.ports or ("1-65535",))
    ]


def _block(network: IPv4Network) -> Mapping[str, Any]:
    # Nobody means the service there by which clouds give machines their credentials.
    links = {"except": [str(LINK_LOCAL)]} if LINK_LOCAL.subnet_of(network) else {}
    return {"ipBlock": {"cidr": str(network), **links}}


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

"""Rights in Kubernetes: one table, which a stack asks for in a preview, and gives to its scaler.

Pods may nothing: their service account has no role, and they are given no token of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tidepool.clients.kubernetes.contract import CLUSTER_API
from tidepool.clients.kubernetes.objects import Right

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
    inside = tuple(
        Right(verb, resource, group, namespace)
        for (group, resource), verbs in table.items()
        for verb in verbs
    )
    # To see, in a preview, whether the place is the department's and nodes have what is asked of them.
    outside = [LIST_NODES]
    if owner:
        outside += [Right(verb, "namespaces") for verb in ("create", "delete", "patch")]
    return (*outside, *inside)


def scaling(namespace: str, *, pods: bool, machines: bool) -> tuple[Right, ...]:
    """All that the scaler does, and what a preview looks at."""
    table = scaler_table(pods=pods, machines=machines)
    return tuple(
        Right(verb, resource, group, namespace)
        for (group, resource), verbs in table.items()
        for verb in verbs
    )


def rules(table: _Table) -> list[Mapping[str, Any]]:
    """The same as a Role has it."""
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": sorted(verbs)}
        for (group, resource), verbs in sorted(table.items())
    ]


def summary(rights: Iterable[Right]) -> str:
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

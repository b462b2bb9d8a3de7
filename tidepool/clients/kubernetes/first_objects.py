"""The first objects of a control plane of ours: who may join it, and what Tidepool may do. Pure; applied as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tidepool.clients.kubernetes.contract import BOOTSTRAPPERS, NEEDED
from tidepool.clients.kubernetes.objects import Right
from tidepool.clients.kubernetes.pool_machines import GROUP, PLURAL, RIGHTS, definition

#: Whom the certificate of Tidepool's own client names.
TIDEPOOL_USER: Final = "tidepool"
#: Whom the API server's certificate names, with which it asks kubelets.
API_SERVER_USER: Final = "tidepool:kube-apiserver"

_GROUP: Final = "rbac.authorization.k8s.io"
_PATH: Final = f"/apis/{_GROUP}/v1"
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FirstObject:
    """An object, and where the API has it."""

    path: str
    body: Json

    @property
    def name(self) -> str:
        """``ClusterRole tidepool``."""
        return f"{self.body['kind']} {self.body['metadata']['name']}"

    def is_as_in(self, there: Json) -> bool:
        """Return whether the object of the API says what this one says, whatever it says besides."""
        said = ("rules", "roleRef", "subjects", "spec")
        return all(_is_in(there.get(key), self.body[key]) for key in said if key in self.body)


def _is_in(there: Any, said: Any) -> bool:
    if isinstance(said, Mapping):
        return isinstance(there, Mapping) and all(
            _is_in(there.get(key), value) for key, value in said.items()
        )
    if isinstance(said, list):
        is_list = isinstance(there, list) and len(there) == len(said)
        return is_list and all(map(_is_in, there, said))
    return bool(there == said)


def first_objects(needed: Iterable[Right] = NEEDED) -> tuple[FirstObject, ...]:
    """All of them, in the order in which they are made."""
    needed = tuple(needed)
    return (
        # A kubelet with a token may ask for its certificate. Nobody approves it by itself: Tidepool does, one by one.
        _cluster_binding("tidepool:kubelet-bootstrap", "system:node-bootstrapper", _group(BOOTSTRAPPERS)),
        # One that has a certificate may have the next one of the same name.
        _cluster_binding(
            "tidepool:kubelet-renewal",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            _group("system:nodes"),
        ),
        _cluster_binding("tidepool:kubelet-api", "system:kubelet-api-admin", _user(API_SERVER_USER)),
        *_role_of(needed),
    )


def shown_objects() -> tuple[FirstObject, ...]:
    """Return what `kubectl get poolmachines` needs, which tells where machines of pools are; without it nothing else is missing."""
    kind = definition()
    writer = f"{TIDEPOOL_USER}:{PLURAL}"
    # Whoever may view a namespace may see them.
    viewer = _object(
        "clusterroles",
        "ClusterRole",
        f"{writer}:view",
        labels={"rbac.authorization.k8s.io/aggregate-to-view": "true"},
        rules=_rules(Right(verb, PLURAL, GROUP) for verb in ("get", "list", "watch")),
    )
    return (
        FirstObject(f"/apis/{kind['apiVersion']}/customresourcedefinitions/{kind['metadata']['name']}", kind),
        _object("clusterroles", "ClusterRole", writer, rules=_rules(RIGHTS)),
        _cluster_binding(writer, writer, _user(TIDEPOOL_USER)),
        viewer,
    )


def _role_of(needed: tuple[Right, ...]) -> Iterable[FirstObject]:
    """Roles with these rights and no others, and that Tidepool has them."""
    for namespace in sorted({right.namespace for right in needed}):
        rules = _rules(right for right in needed if right.namespace == namespace)
        if not namespace:
            yield _object("clusterroles", "ClusterRole", TIDEPOOL_USER, rules=rules)
            yield _cluster_binding(TIDEPOOL_USER, TIDEPOOL_USER, _user(TIDEPOOL_USER))
            continue
        yield _object("roles", "Role", TIDEPOOL_USER, namespace, rules=rules)
        yield _object(
            "rolebindings",
            "RoleBinding",
            TIDEPOOL_USER,
            namespace,
            roleRef={"apiGroup": _GROUP, "kind": "Role", "name": TIDEPOOL_USER},
            subjects=[_user(TIDEPOOL_USER)],
        )


def _rules(rights: Iterable[Right]) -> list[Json]:
    def what(right: Right) -> tuple[str, str, str]:
        return right.group, right.resource, right.name

    return [
        {
            "apiGroups": [group],
            "resources": [resource],
            "verbs": sorted(right.verb for right in alike),
            **({"resourceNames": [name]} if name else {}),
        }
        for (group, resource, name), alike in groupby(sorted(rights, key=what), what)
    ]


def _cluster_binding(name: str, role: str, subject: Json) -> FirstObject:
    reference = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role}
    return _object("clusterrolebindings", "ClusterRoleBinding", name, roleRef=reference, subjects=[subject])


def _object(
    plural: str, kind: str, name: str, namespace: str = "", labels: Json | None = None, **content: Any
) -> FirstObject:
    where = f"/namespaces/{namespace}" if namespace else ""
    metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "tidepool", **(labels or {})}}
    body = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, **content}
    return FirstObject(f"{_PATH}{where}/{plural}/{name}", body)


def _user(name: str) -> Json:
    return {"apiGroup": _GROUP, "kind": "User", "name": name}


def _group(name: str) -> Json:
    return {"apiGroup": _GROUP, "kind": "Group", "name": name}

"""The types of pulumi-kubernetes 4.34 that the graph uses, by the API server: applied server-side, with strict names of fields.

It follows the plugin's source of July 2026: what is replaced (provider/pkg/provider/diff.go), what is waited for
(provider/pkg/await). Objects that are there already are taken over where no one else wrote their fields. The annotation
``pulumi.com/skipAwait`` has nobody wait until an object is ready, nor until a pod or a namespace is gone.

What the graph does not use is refused: names that Pulumi makes up, and readiness of what it does not wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.clients.kubernetes.applying import Applying
from tests.plugins.serving import Configuration, Kinds
from tidepool.clients.kubernetes.contract import KubernetesError, NotFound
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.requests import Requests
from tidepool.resources.kind import AnyKind, Home, IdempotentKind, Made, Refusal, Task, Unfinished
from tidepool.resources.model import Field, Model, Resource, given
from tidepool.resources.reading import Change, Mistake, differences
from tidepool.resources.values import UNKNOWN, Inputs, Plain

_SKIP: Final = "pulumi.com/skipAwait"
_MANAGER: Final = "pulumi-kubernetes"
_AGAIN_S: Final = 0.1
#: What a change of means another object, for every type.
_ALWAYS: Final = ("metadata.name", "metadata.namespace")
#: Types that are not ready when they are made; the graph has nobody wait for them.
_SLOW: Final = ("Pod", "Service", "PersistentVolumeClaim")
#: Types of which, with the annotation, nobody waits for the end either.
_UNAWAITED: Final = ("Pod", "Namespace")


class ObjectModel(Model):
    """Properties that each object has."""

    api_version: Field[str] = given()
    kind: Field[str] = given()
    metadata: Field[Mapping[str, Any]] = given()


class SpecifiedModel(ObjectModel):
    """Properties of an object with a spec."""

    spec: Field[Mapping[str, Any]] = given()


class SecretModel(ObjectModel):
    """Properties of a Secret."""

    data: Field[Mapping[str, str], Any] = given(default={}, secret=True)
    type: Field[str] = given(default="Opaque")


class ServiceAccountModel(ObjectModel):
    """Properties of a ServiceAccount."""

    automount_service_account_token: Field[bool] = given(default=True)


class RoleModel(ObjectModel):
    """Properties of a Role."""

    rules: Field[tuple[Mapping[str, Any], ...], Any] = given()


class RoleBindingModel(ObjectModel):
    """Properties of a RoleBinding."""

    role_ref: Field[Mapping[str, str]] = given()
    subjects: Field[tuple[Mapping[str, str], ...], Any] = given()


class Namespace(Resource, ObjectModel, token="kubernetes:core/v1:Namespace"):
    """A namespace."""


class ResourceQuota(Resource, SpecifiedModel, token="kubernetes:core/v1:ResourceQuota"):
    """Amounts that a namespace may have at most."""


class Role(Resource, RoleModel, token="kubernetes:rbac.authorization.k8s.io/v1:Role"):
    """Rights in a namespace."""


class RoleBinding(Resource, RoleBindingModel, token="kubernetes:rbac.authorization.k8s.io/v1:RoleBinding"):
    """Users who have a role."""


class NetworkPolicy(Resource, SpecifiedModel, token="kubernetes:networking.k8s.io/v1:NetworkPolicy"):
    """Rules of who reaches pods, and whom they reach."""


class Service(Resource, SpecifiedModel, token="kubernetes:core/v1:Service"):
    """Names of pods."""


class ServiceAccount(Resource, ServiceAccountModel, token="kubernetes:core/v1:ServiceAccount"):
    """An identity of pods."""


class PodDisruptionBudget(Resource, SpecifiedModel, token="kubernetes:policy/v1:PodDisruptionBudget"):
    """Pods that are kept from eviction."""


class PersistentVolumeClaim(Resource, SpecifiedModel, token="kubernetes:core/v1:PersistentVolumeClaim"):
    """A claim of a volume."""


class Secret(Resource, SecretModel, token="kubernetes:core/v1:Secret"):
    """A secret; its data may change, as the provider is told by ``enableSecretMutable``."""


class Pod(Resource, SpecifiedModel, token="kubernetes:core/v1:Pod"):
    """A pod."""


#: By a type, what a change of means another object besides. Of pods the plugin lists all of the spec that the graph uses,
#: but for tolerations and spread.
TYPES: Final[Mapping[type[Resource], tuple[str, ...]]] = {
    Namespace: (),
    ResourceQuota: ("spec.scopes",),
    Role: (),
    RoleBinding: ("roleRef",),
    NetworkPolicy: (),
    Service: ("spec.clusterIP",),
    ServiceAccount: (),
    PodDisruptionBudget: (),
    PersistentVolumeClaim: (
        "spec.accessModes",
        "spec.selector",
        "spec.storageClassName",
        "spec.volumeName",
    ),
    Secret: ("type",),
    Pod: tuple(
        f"spec.{each}"
        for each in (
            "automountServiceAccountToken", "containers", "dnsConfig", "enableServiceLinks", "hostAliases", "hostname",
            "imagePullSecrets", "nodeSelector", "priorityClassName", "restartPolicy", "runtimeClassName", "securityContext",
            "serviceAccountName", "subdomain", "terminationGracePeriodSeconds", "volumes",
        )
    ),
}  # fmt: skip


class ObjectKind(IdempotentKind[Any]):
    """Objects of one type. In the state an object is as it was asked for, with its uid in the metadata."""

    timeout_s = 600.0

    def __init__(
        self, resource: type[Resource], applying: Applying, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(Home(Path(), Path()))
        self.resource = resource  # type: ignore[misc]  # of this one, not of all
        self._applying = applying
        self._sleep = sleep

    def mistakes(self, wanted: ObjectModel) -> Iterable[Mistake]:
        if not wanted.metadata.get("name"):
            yield Mistake("metadata.name", "it is missing; this plugin of the tests makes up no names")
        if wanted.kind in _SLOW and not _is_skipped(wanted):
            yield Mistake(
                "metadata.annotations",
                f"this plugin of the tests waits for no {wanted.kind}; give it {_SKIP}",
            )

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        before = {**old, "metadata": _without_uid(old.get("metadata"))}
        paths = (*_ALWAYS, *TYPES[self.resource])
        anew = {path.partition(".")[0] for path in paths if _at(before, path) != _at(new, path)}
        found = differences(self.resource.model, before, new)
        return tuple(replace(each, replaces=each.key in anew) for each in found)

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        metadata = inputs.get("metadata")
        return {"metadata": {"uid": UNKNOWN, **metadata}} if isinstance(metadata, Mapping) else {}

    def create(self, wanted: ObjectModel, task: Task) -> Made:
        thing, id = _thing(wanted), _id(wanted)
        try:
            live = self._applying.apply(thing, manager=_MANAGER, force=False)
        except KubernetesError as error:
            words = f"resource {id} was not successfully created by the Kubernetes API server: {error}"
            raise Refusal(words) from error
        outputs = {"metadata": {**wanted.metadata, "uid": live["metadata"]["uid"]}}
        if wanted.kind == "ResourceQuota" and not _is_skipped(wanted):
            self._await_quota(thing, task, Made(id, outputs))
        return Made(id, outputs)

    def look(self, id: str, state: ObjectModel) -> Mapping[str, Plain] | None:
        with _told():
            if (live := self._live(_thing(state))) is None:
                return None
        before, uid = _thing(state), live["metadata"]["uid"]
        found = _told_of(before, live)
        changed = {key: value for key, value in found.items() if value != before[key]}
        if "metadata" in changed or uid != state.metadata.get("uid"):
            changed["metadata"] = {**found["metadata"], "uid": uid}
        return changed

    def delete(self, id: str, state: ObjectModel, task: Task) -> None:
        thing = _thing(state)
        with _told():
            self._applying.delete(thing, propagation="Foreground")
            if state.kind in _UNAWAITED and _is_skipped(state):
                return
            late = task.wait(lambda: self._why_there(thing), f"deleting {id}", _AGAIN_S, self._sleep)
        if late:
            raise Refusal(f"{id} is still there after {task.timeout_s:g} s: {late}")

    def _await_quota(self, thing: Mapping[str, Any], task: Task, made: Made) -> None:
        def why_not() -> str:
            live = self._live(thing) or {}
            counted = live.get("status", {}).get("hard") == live.get("spec", {}).get("hard")
            return "" if counted else "nobody has counted what is used of it"

        with _told():
            late = task.wait(why_not, f"waiting for {made.id}", _AGAIN_S, self._sleep)
        if late:
            raise Unfinished(made.id, f"{made.id}: {late}", made.outputs)

    def _why_there(self, thing: Mapping[str, Any]) -> str:
        live = self._live(thing)
        if live is None:
            return ""
        kept = ", ".join(live["metadata"].get("finalizers", ()))
        return f"it is kept by {kept}" if kept else "it is ending"

    def _live(self, thing: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return self._applying.get(self._applying.path(thing))
        except NotFound:
            return None


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except KubernetesError as error:
        raise Refusal(str(error)) from error


def _id(wanted: ObjectModel) -> str:
    """Name the object as the plugin does: NAMESPACE/NAME, or its name where it is in no namespace."""
    named = (wanted.metadata.get("namespace"), wanted.metadata["name"])
    return "/".join(each for each in named if each)


def _thing(wanted: ObjectModel) -> dict[str, Any]:
    """Return the object as the API server is asked for it."""
    values = ((each, vars(wanted)[name]) for name, each in type(wanted).properties.items())
    found = {
        each.wire: list(value) if isinstance(value, tuple) else value
        for each, value in values
        if value != each.default
    }
    return {**found, "metadata": _without_uid(wanted.metadata)}


def _without_uid(metadata: Any) -> Any:
    if not isinstance(metadata, Mapping):
        return metadata
    return {key: value for key, value in metadata.items() if key != "uid"}


def _is_skipped(wanted: ObjectModel) -> bool:
    return bool(wanted.metadata.get("annotations", {}).get(_SKIP) == "true")


def _at(inputs: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(inputs, Mapping):
            return inputs  # nothing, or nothing that is known
        inputs = inputs.get(key)
    return inputs


def _told_of(asked: Any, live: Any) -> Any:
    """Return the part of ``live`` that was asked for: what the API server and others added is theirs."""
    if isinstance(asked, Mapping) and isinstance(live, Mapping):
        return {key: _told_of(each, live[key]) for key, each in asked.items() if key in live}
    if isinstance(asked, list | tuple) and isinstance(live, list) and len(asked) <= len(live):
        return [_told_of(each, there) for each, there in zip(asked, live, strict=False)]
    return live


@cache
def _applying_by(kubeconfig: str) -> Applying:
    """By the text of a kubeconfig, or the path of its file, as the plugin takes them."""
    text, folder = (kubeconfig, Path()) if "\n" in kubeconfig else _read(Path(kubeconfig))
    exchange = Exchange(read_kubeconfig(text, folder), timeout_s=30.0)
    return Applying(exchange, Requests(exchange))


def _read(path: Path) -> tuple[str, Path]:
    try:
        return path.read_text("utf-8"), path.parent
    except OSError as error:
        raise Refusal(f"kubeconfig: {path} cannot be read: {error.strerror}") from error


def _made(resource: type[Resource]) -> Callable[[Configuration], AnyKind]:
    return lambda configuration: ObjectKind(resource, _applying_by(configuration["kubeconfig"]))


KINDS: Final[Kinds] = {each.token: _made(each) for each in TYPES}

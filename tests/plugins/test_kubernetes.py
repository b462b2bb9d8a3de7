"""The plugin of pulumi-kubernetes' types does what that does: what it replaces, takes over, waits for and refuses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tests import versions
from tests.clients.kubernetes.applying import Applying
from tests.clients.kubernetes.real import RealKubernetes, shared
from tests.plugins import kubernetes
from tests.plugins.kubernetes import ObjectKind
from tests.provider.calls import Calls, plainly
from tidepool.provider.provider import EngineLog, TidepoolProvider
from tidepool.resources.kind import Refusal
from tidepool.resources.model import Resource
from tidepool.toolchain import KUBERNETES

pytestmark = pytest.mark.runs("kubernetes", versions.built(KUBERNETES))

SKIPPED = {"pulumi.com/skipAwait": "true"}


class Plugin(Calls):
    """The plugin's provider, asked about one type."""

    def __init__(self, type: type[Resource], applying: Applying | None = None) -> None:
        super().__init__(Path("/none"), type.token)
        kind = ObjectKind(type, cast(Applying, applying))
        self.provider = TidepoolProvider({type.token: kind}.__getitem__, EngineLog(""))


def thing(kind: str, name: str, namespace: str | None = "hpc", **more: Any) -> dict[str, Any]:
    """The inputs of an object of the group core."""
    annotations = {"annotations": dict(SKIPPED)} if more.pop("skipped", False) else {}
    placed = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **placed, **annotations}, **more}


POD = thing(
    "Pod", "cpu-1", skipped=True, spec={"containers": [{"name": "machine", "image": "a"}], "tolerations": []}
)
CLAIM = thing(
    "PersistentVolumeClaim",
    "home",
    skipped=True,
    spec={"accessModes": ["ReadWriteMany"], "storageClassName": "nfs", "resources": {}},
)


@pytest.mark.parametrize(
    ("type", "inputs", "change", "replaces"),
    [
        (kubernetes.Pod, POD, {"spec": {**POD["spec"], "containers": []}}, ["spec"]),
        (kubernetes.Pod, POD, {"spec": {**POD["spec"], "tolerations": [{"key": "site"}]}}, []),
        (kubernetes.Pod, POD, {"metadata": {**POD["metadata"], "labels": {"a": "b"}}}, []),
        (kubernetes.Pod, POD, {"metadata": {**POD["metadata"], "namespace": "other"}}, ["metadata"]),
        (kubernetes.Secret, thing("Secret", "boot", data={"a": "Yg=="}), {"data": {"a": "Yw=="}}, []),
        (kubernetes.Secret, thing("Secret", "boot"), {"type": "site"}, ["type"]),
        (kubernetes.PersistentVolumeClaim, CLAIM, {"spec": {**CLAIM["spec"], "resources": {"a": 1}}}, []),
        (
            kubernetes.PersistentVolumeClaim,
            CLAIM,
            {"spec": {**CLAIM["spec"], "storageClassName": "b"}},
            ["spec"],
        ),
    ],
)
def test_what_cannot_be_changed_is_replaced_the_old_one_first(
    type: type[Resource], inputs: dict[str, Any], change: Mapping[str, Any], replaces: list[str]
) -> None:
    state = {**inputs, "metadata": {**inputs["metadata"], "uid": "some"}}
    plugin = Plugin(type)
    assert not plugin.diff(state, inputs).changes
    found = plugin.diff(state, {**inputs, **change})
    assert found.changes
    assert (found.replaces or [], bool(found.delete_before_replace)) == (replaces, bool(replaces))


def test_what_it_does_not_know_is_refused() -> None:
    pod = Plugin(kubernetes.Pod)
    assert pod.failures(POD) == {}
    assert "no such input" in pod.failures({**POD, "status": {}})["status"]
    assert "skipAwait" in pod.failures(thing("Pod", "cpu-1", spec={}))["metadata.annotations"]
    nameless = {**POD, "metadata": {"annotations": SKIPPED}}
    assert "makes up no names" in pod.failures(nameless)["metadata.name"]


# By a real API server


@pytest.fixture(scope="module")
def real() -> RealKubernetes:
    return shared()


@pytest.fixture
def applying(real: RealKubernetes) -> Iterator[Applying]:
    it = Applying.to(real)
    yield it
    it.close()


@pytest.fixture
def namespace(applying: Applying) -> Iterator[str]:
    """A namespace that the plugin made, and takes away."""
    plugin, name = Plugin(kubernetes.Namespace, applying), f"plugin-{uuid.uuid4().hex[:6]}"
    made = plugin.create(thing("Namespace", name, None))
    assert made.resource_id == name
    yield name
    plugin.delete(name, plainly(made.properties))
    assert plainly(plugin.read(name, plainly(made.properties), {}).properties) == {}


@pytest.mark.slow
def test_an_object_is_made_changed_and_seen_as_it_was_asked_for(applying: Applying, namespace: str) -> None:
    plugin = Plugin(kubernetes.Secret, applying)
    inputs = thing("Secret", "boot", namespace, data={"a": "Yg==", "b": "Yg=="})
    made = plugin.create(inputs)
    id, state = f"{namespace}/boot", plainly(made.properties)
    assert made.resource_id == id
    assert plainly(plugin.read(id, state, inputs).properties) == state
    changed = {**inputs, "data": {"a": "Yw=="}}
    after = plainly(plugin.update(id, state, changed).properties)
    assert after["metadata"]["uid"] == state["metadata"]["uid"]
    assert applying.get(applying.path(inputs))["data"] == {"a": "Yw=="}
    applying.apply({**inputs, "data": {"a": "ZA=="}})
    assert plainly(plugin.read(id, after, changed).inputs)["data"] == {"a": "ZA=="}
    with pytest.raises(Refusal, match=r"boot was not successfully created .* conflict"):
        plugin.create(changed)
    plugin.delete(id, after)
    assert plugin.read(id, after, changed).resource_id in (None, "")


@pytest.mark.slow
def test_nobody_waits_for_the_end_of_a_pod_that_nobody_awaited(applying: Applying, namespace: str) -> None:
    plugin = Plugin(kubernetes.Pod, applying)
    container = {"name": "machine", "image": "a"}
    # Somebody else's finalizer keeps it, as a kubelet does that stops its containers.
    inputs = thing("Pod", "cpu-1", namespace, skipped=True, spec={"containers": [container]})
    inputs["metadata"]["finalizers"] = ["tests/kubelet"]
    state = plainly(plugin.create(inputs).properties)
    plugin.delete(f"{namespace}/cpu-1", state)
    assert applying.get(applying.path(inputs))["metadata"]["deletionTimestamp"]
    # So another one of its name is a change of it, and refused.
    with pytest.raises(Refusal, match="pod updates may not change fields"):
        plugin.create({**inputs, "spec": {"containers": [container], "hostname": "other"}})
    applying.apply(
        {**inputs, "metadata": {**inputs["metadata"], "finalizers": []}}, manager="pulumi-kubernetes"
    )

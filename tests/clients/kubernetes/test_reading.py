"""Objects from JSON: what is said is read, what is missing is empty, what is of another kind is a mistake."""

from __future__ import annotations

import base64
import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from tests.clients.kubernetes.pki import asked
from tests.properties import runs
from tests.simulation.kubernetes.pods import bears, wants
from tidepool.clients.kubernetes import reading
from tidepool.clients.kubernetes.objects import Requirement, Taint, Toleration, guards, selects
from tidepool.clients.kubernetes.signing import signing_request

CREATED = "2026-11-22T12:00:00Z"
POD: dict[str, Any] = {
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u1",
        "creationTimestamp": CREATED,
        "labels": {"app": "web"},
        "ownerReferences": [
            {"kind": "Thing", "name": "no controller"},
            {"kind": "ReplicaSet", "name": "web", "controller": True},
        ],
        "deletionTimestamp": "2026-11-22T12:00:30.5Z",
    },
    "spec": {
        "nodeName": "shared-1",
        "priority": -5,
        "nodeSelector": {"disk": "fast"},
        "tolerations": [
            {"operator": "Exists"},
            {"key": "a", "value": "b", "effect": "NoSchedule"},
            {"key": "c", "operator": "Gt", "value": "1"},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["shared-9"]}]},
                        {},
                    ]
                }
            }
        },
        "containers": [
            {"resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}},
            {"resources": {"requests": {"cpu": "250m", "nvidia.com/gpu": "1"}}},
            {},
        ],
    },
    "status": {"phase": "Running"},
}
NODE: dict[str, Any] = {
    "metadata": {
        "name": "shared-1",
        "uid": "u2",
        "creationTimestamp": CREATED,
        "labels": {"tidepool/pool": "shared"},
        "annotations": {"tidepool/reason": "it leaves"},
    },
    "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": CREATED}]},
    "status": {
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."},
        ],
        "allocatable": {"cpu": "1930m", "memory": "1015128Ki", "pods": "110", "nvidia.com/gpu": "2"},
        "nodeInfo": {"bootID": "b1"},
    },
}


def test_a_pod_is_read() -> None:
    pod = reading.pod(POD)
    assert (pod.key, pod.uid, pod.phase, pod.node, pod.owner) == (
        "shop/web-0",
        "u1",
        "Running",
        "shared-1",
        "ReplicaSet/web",
    )
    assert (pod.requests.cpu_milli, pod.requests.memory_bytes) == (500, 64 * 2**20)
    assert pod.requests.extended == {"nvidia.com/gpu": 1}
    assert pod.deleting_until == datetime(2026, 11, 22, 12, 0, 30, 500_000, UTC)
    assert pod.tolerations == (Toleration("", "Exists"), Toleration("a", "Equal", "b", "NoSchedule"))
    assert pod.affinity == (
        (Requirement("zone", "In", ("a", "b")),),
        (Requirement("metadata.name", "In", ("shared-9",)),),
        (Requirement("metadata.name", "In", ()),),
    )
    assert (pod.priority, pod.is_static, pod.is_daemon, pod.is_held, pod.unschedulable) == (
        -5,
        False,
        False,
        False,
        "",
    )


def test_a_node_is_read() -> None:
    node = reading.node(NODE)
    assert (node.name, node.uid, node.ready, node.unschedulable, node.reason) == (
        "shared-1",
        "u2",
        False,
        True,
        "it leaves",
    )
    assert node.taints == (Taint("a", "NoExecute"),)
    assert (node.allocatable.cpu_milli, node.allocatable.memory_bytes) == (1930, 1015128 * 1024)
    assert node.allocatable.extended == {"pods": 110, "nvidia.com/gpu": 2}
    assert (node.message, node.boot_id) == ("Kubelet stopped posting node status.", "b1")
    assert not node.takes_pods


def changed(thing: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with ``value`` at ``path``."""
    copied = copy.deepcopy(thing)
    *folders, last = path.split(".")
    place = copied
    for folder in folders:
        place = place.setdefault(folder, {})
    place[last] = value
    return copied


@pytest.mark.parametrize(
    ("path", "value", "has"),
    [
        ("metadata.annotations", {"kubernetes.io/config.mirror": "x"}, "is_static"),
        ("metadata.ownerReferences", [{"kind": "Node", "name": "n", "controller": True}], "is_static"),
        ("metadata.ownerReferences", [{"kind": "DaemonSet", "name": "log", "controller": True}], "is_daemon"),
        ("spec.schedulingGates", [{"name": "quota"}], "is_held"),
        ("spec.schedulerName", "another", "is_held"),
        ("status.phase", "Succeeded", "has_ended"),
        ("status.phase", "Failed", "has_ended"),
    ],
)
def test_what_kind_of_pod_it_is(path: str, value: Any, has: str) -> None:
    assert getattr(reading.pod(changed(POD, path, value)), has) is True
    assert getattr(reading.pod(POD), has) is False


def test_why_a_pod_waits() -> None:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    assert reading.pod(changed(POD, "status.conditions", [waits])).unschedulable == "0/3 nodes"
    gated = {**waits, "reason": "SchedulingGated"}
    assert reading.pod(changed(POD, "status.conditions", [gated])).unschedulable == ""


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [{"cpu": "1"}, {"cpu": "1"}]}, 2000),
        ({"containers": [{"cpu": "1"}], "initContainers": [{"cpu": "3"}, {"cpu": "2"}]}, 3000),
        ({"containers": [{"cpu": "1"}], "initContainers": [{"cpu": "1", "beside": True}]}, 2000),
        (
            {
                "containers": [{"cpu": "1"}],
                "initContainers": [{"cpu": "1", "beside": True}, {"cpu": "4"}, {"cpu": "1", "beside": True}],
            },
            5000,
        ),
        (
            {"containers": [{"cpu": "1"}], "initContainers": [{"cpu": "2"}, {"cpu": "1", "beside": True}]},
            2000,
        ),
        ({"containers": [{"cpu": "1"}], "overhead": "250m"}, 1250),
        ({"containers": [{"cpu": "1"}], "whole": "5", "overhead": "250m"}, 5250),
        ({"containers": [{"cpu": "9"}], "whole": "5"}, 5000),
        ({"containers": [{}]}, 0),
    ],
)
def test_what_the_scheduler_sets_aside(spec: dict[str, Any], cpu: int) -> None:
    def container(said: dict[str, Any]) -> dict[str, Any]:
        asks = {"resources": {"requests": {"cpu": said["cpu"]}}} if "cpu" in said else {}
        return {**asks, **({"restartPolicy": "Always"} if said.get("beside") else {})}

    written: dict[str, Any] = {
        kind: [container(said) for said in spec.get(kind, [])] for kind in ("containers", "initContainers")
    }
    if "overhead" in spec:
        written["overhead"] = {"cpu": spec["overhead"]}
    if "whole" in spec:
        written["resources"] = {"requests": {"cpu": spec["whole"]}}
    assert reading.pod(changed(POD, "spec", written)).requests.cpu_milli == cpu


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", ""),
        ("metadata.name", None),
        ("metadata.name", 7),
        ("metadata.labels", {"a": 1}),
        ("metadata.labels", ["a"]),
        ("metadata.creationTimestamp", None),
        ("metadata.creationTimestamp", "yesterday"),
        ("metadata.creationTimestamp", "2026-11-22T12:00:00"),
        ("metadata.deletionTimestamp", 7),
        ("metadata.ownerReferences", {"kind": "ReplicaSet"}),
        ("spec.containers", "none"),
        ("spec.containers", [7]),
        ("spec.containers", [{"resources": {"requests": {"cpu": "much"}}}]),
        ("spec.priority", "high"),
        ("spec.tolerations", [{"effect": "Never"}]),
        ("spec.nodeName", {}),
        ("status.phase", None),
        ("status.phase", "Dancing"),
        ("status", "Running"),
    ],
)
def test_what_is_not_as_it_should_be_is_a_mistake(path: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        reading.pod(changed(POD, path, value))


JUNK = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
PATHS = st.sampled_from(
    [f"metadata.{key}" for key in ("name", "uid", "labels", "annotations", "creationTimestamp", "ownerReferences")]
    + [f"spec.{key}" for key in ("unschedulable", "taints", "containers", "nodeSelector", "affinity", "overhead")]
    + [f"status.{key}" for key in ("phase", "conditions", "allocatable", "nodeInfo", "disruptionsAllowed")]
    + ["metadata", "spec", "status", "spec.selector", "spec.renewTime", "spec.holderIdentity"]
)  # fmt: skip


@runs(300)
@given(PATHS, JUNK, st.sampled_from([reading.pod, reading.node, reading.budget, reading.lease]))
def test_junk_anywhere_is_read_or_a_mistake_and_nothing_else(path: str, junk: Any, read: Any) -> None:
    try:
        read(changed({**POD, "status": {**NODE["status"], **POD["status"]}}, path, junk))
    except ValueError:
        return


@runs()
@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)),  # noqa: DTZ001  # the zone is drawn beside it
    st.integers(-12, 14),
)
def test_moments_are_in_utc_whatever_zone_they_were_written_in(naive: datetime, hours: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(hours=hours)))
    read = reading.moment(moment.isoformat())
    assert read == moment
    assert read is not None
    assert read.tzinfo is UTC


@pytest.mark.parametrize(
    ("selector", "is_guarded"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_which_pods_a_budget_guards(selector: Any, is_guarded: bool) -> None:
    read = {"metadata": {"name": "b", "namespace": "shop"}, "spec": {"selector": selector}}
    budget = reading.budget({**read, "status": {"disruptionsAllowed": 1}})
    assert guards(budget, reading.pod(POD)) is is_guarded
    assert not guards(budget, reading.pod(changed(POD, "metadata.namespace", "other")))


def test_a_lease_is_read() -> None:
    lease = reading.lease(
        {
            "metadata": {"name": "shared-1"},
            "spec": {"holderIdentity": "shared-1", "renewTime": "2026-11-22T12:00:00.123456Z"},
        }
    )
    assert lease.renewed == datetime(2026, 11, 22, 12, 0, 0, 123456, UTC)
    assert lease.holder == "shared-1"


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2", "x"]))


@runs()
@given(LABELS, LABELS)
def test_a_node_selector_is_its_labels_each_alone(selector: dict[str, str], labels: dict[str, str]) -> None:
    pod = reading.pod(changed(changed(POD, "spec.affinity", None), "spec.nodeSelector", selector))
    assert wants(pod, "n", labels) is all(labels.get(key) == value for key, value in selector.items())
    assert selects({"matchLabels": selector}, labels) is wants(pod, "n", labels)


@runs()
@given(LABELS, st.sampled_from("abc"), st.sampled_from(["1", "2"]))
def test_what_is_in_is_never_not_in(labels: dict[str, str], key: str, value: str) -> None:
    def holds(operator: str, *values: str) -> bool:
        return selects(
            {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}, labels
        )

    assert holds("In", value) is not holds("NotIn", value)
    assert holds("Exists") is not holds("DoesNotExist")
    assert not holds("In")
    assert not (holds("Gt", value) and holds("Lt", value))


@pytest.mark.parametrize(
    ("tolerations", "taint", "is_borne"),
    [
        ([], Taint("a", "NoSchedule"), False),
        ([], Taint("a", "PreferNoSchedule"), True),
        ([{"operator": "Exists"}], Taint("a", "NoExecute", "v"), True),
        ([{"key": "a", "operator": "Exists"}], Taint("a", "NoSchedule", "v"), True),
        ([{"key": "a", "operator": "Exists", "effect": "NoExecute"}], Taint("a", "NoSchedule"), False),
        ([{"key": "a", "value": "v"}], Taint("a", "NoSchedule", "v"), True),
        ([{"key": "a", "value": "w"}], Taint("a", "NoSchedule", "v"), False),
        ([{"key": "b", "operator": "Exists"}], Taint("a", "NoSchedule"), False),
        ([{"key": "a", "operator": "Lt", "value": "3"}], Taint("a", "NoSchedule", "2"), False),
    ],
)
def test_which_taints_a_pod_bears(tolerations: list[dict[str, str]], taint: Taint, is_borne: bool) -> None:
    pod = reading.pod(changed(POD, "spec.tolerations", tolerations))
    assert bears(pod, [taint]) is is_borne


REQUEST: dict[str, Any] = {
    "metadata": {"name": "csr-1", "creationTimestamp": CREATED},
    "spec": {
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["client auth", "digital signature"],
        "username": "system:bootstrap:abc123",
        "groups": ["system:bootstrappers"],
    },
}


@runs(200)
@given(st.binary(max_size=200) | st.text(max_size=100) | st.none() | st.integers())
def test_no_junk_is_a_request_of_a_kubelet(junk: Any) -> None:
    written = base64.b64encode(junk).decode() if isinstance(junk, bytes) else junk
    try:
        assert signing_request(changed(REQUEST, "spec.request", written)).node == ""
    except ValueError:
        return


@pytest.mark.parametrize("damage", [10, 60, 200, -40])
def test_a_request_that_was_tampered_with_is_of_nobody(damage: int) -> None:
    der = bytearray(x509.load_pem_x509_csr(asked("shared-1").encode()).public_bytes(Encoding.DER))
    whole = base64.b64encode(_pem(bytes(der))).decode()
    assert signing_request(changed(REQUEST, "spec.request", whole)).node == "shared-1"
    der[damage] ^= 1
    broken = base64.b64encode(_pem(bytes(der))).decode()
    assert signing_request(changed(REQUEST, "spec.request", broken)).node == ""


def _pem(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE REQUEST-----\n%s-----END CERTIFICATE REQUEST-----\n" % base64.encodebytes(
        der
    )


@pytest.mark.parametrize(
    ("conditions", "approved", "denied"),
    [
        (None, False, False),
        ([{"type": "Approved", "status": "True"}], True, False),
        ([{"type": "Denied", "status": "True"}], False, True),
        ([{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"}], True, True),
    ],
)
def test_what_became_of_a_request(conditions: Any, approved: bool, denied: bool) -> None:
    whole = changed(REQUEST, "spec.request", base64.b64encode(asked("n").encode()).decode())
    read = signing_request(changed(whole, "status.conditions", conditions))
    assert (read.is_approved, read.is_denied) == (approved, denied)

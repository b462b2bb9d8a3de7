"""What a cluster on Kubernetes registers, applied to a real API server: server-side, each field by its name, and accepted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from tests import definitions
from tests.clients.kubernetes.applying import Applying
from tests.clients.kubernetes.real import ANY, RealKubernetes, shared
from tests.infrastructures.kubernetes.graph import BUDGET, METAL3, NAMESPACE, POD, applied, registered
from tests.infrastructures.kubernetes.specs import FIREWALL, GPUS, TUNED, of_machines, spec
from tests.whole.cluster import until
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import EvictionRefused, Forbidden, KubernetesError
from tidepool.clients.kubernetes.objects import Right
from tidepool.clients.kubernetes.requests import Requests

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def real() -> RealKubernetes:
    return shared()


@pytest.fixture(scope="module")
def applying(real: RealKubernetes) -> Iterator[Applying]:
    """One that knows what clusters name: a class of priority, and one of runtimes."""
    here = Applying.to(real)
    here.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "hpc"},
            "value": 9,
        }
    )
    here.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "runc",
        }
    )
    yield here
    here.close()


@pytest.fixture
def namespace(applying: Applying) -> Iterator[str]:
    """A name that nobody has."""
    name = f"physics-{uuid.uuid4().hex[:6]}"
    yield name
    applying.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"offering": TUNED, "gres": GPUS, "quota": {"requests.cpu": "512", "requests.nvidia.com/gpu": "16"}},
        {
            "addresses": "kube-ovn",
            "pull_secret": "site",
            "reached_from": ["192.168.0.0/24"],
            "firewall": FIREWALL,
        },
        {
            "controller": {"backup": True},
            "volumes": {"home": {"claim": "home"}, "slurmctld": "nas:/export/slurmctld"},
        },
    ],
)
def test_all_of_a_cluster_of_pods_is_accepted(
    applying: Applying, namespace: str, more: dict[str, Any]
) -> None:
    given = dict(more)
    controller = given.pop("controller", None)
    cluster = spec(
        given.pop("offering", None),
        gres=given.pop("gres", None),
        controller=controller,
        namespace=namespace,
        **given,
    )
    kept = applied(applying, registered(cluster))
    assert {"ctl", "login-1", "cpu-1", "cpu-2"} <= {
        name.partition(" ")[2] for name in kept if name.startswith(POD)
    }
    # What is asked for is what there is, to the kubelet as well.
    assert {each["status"]["qosClass"] for name, each in kept.items() if name.startswith(POD)} == {
        "Guaranteed"
    }
    # Asked again it is the same: an `up` that was cut off goes on.
    again = applied(applying, registered(cluster))
    assert {name: each["metadata"]["uid"] for name, each in again.items()} == {
        name: each["metadata"]["uid"] for name, each in kept.items()
    }


def test_a_field_of_another_name_would_be_refused(applying: Applying, namespace: str) -> None:
    graph = registered(spec(namespace=namespace))
    applied(applying, graph)
    pod = dict(graph[f"{POD} cpu-1"].inputs)
    with pytest.raises(KubernetesError, match=r"\.spec\.hostnam: field not declared in schema"):
        applying.apply({**pod, "spec": {**pod["spec"], "hostnam": "cpu-1"}}, dry=True)


def test_what_a_machine_may_not_be_its_namespace_refuses(applying: Applying, namespace: str) -> None:
    graph = registered(spec(namespace=namespace))
    applied(applying, graph)
    pod = dict(graph[f"{POD} cpu-1"].inputs)
    greedy = {
        **pod,
        "metadata": {"name": "greedy", "namespace": namespace},
        "spec": {**pod["spec"], "hostNetwork": True},
    }
    with pytest.raises(Forbidden, match='violates PodSecurity "baseline'):
        applying.apply(greedy, dry=True)


def test_the_networks_of_multus_are_accepted(applying: Applying, namespace: str) -> None:
    applying.define(definitions.multus())
    kept = applied(applying, registered(spec(namespace=namespace, addresses="multus", interface="eth1")))
    assert "kubernetes:k8s.cni.cncf.io/v1:NetworkAttachmentDefinition net" in kept


def test_machines_of_cluster_api_are_accepted(applying: Applying, namespace: str) -> None:
    applying.define(definitions.cluster_api())
    graph = registered(of_machines(namespace=namespace))
    for name in list(graph.resources):
        if "infrastructure.cluster.x-k8s.io" in name:  # held to Metal3's own definitions below
            del graph.resources[name]
    kept = applied(applying, graph)
    machine = kept["kubernetes:cluster.x-k8s.io/v1beta2:Machine metal-1"]
    assert machine["spec"]["bootstrap"] == {"dataSecretName": "boot-metal"}
    assert "kubernetes:cluster.x-k8s.io/v1beta2:Cluster machines" in kept


def test_hosts_of_metal3_are_accepted(applying: Applying, namespace: str) -> None:
    applying.define(definitions.metal3())
    applying.define(definitions.cluster_api())
    kept = applied(
        applying, registered(of_machines({"host_selector": {"site/rack": "r7"}}, namespace=namespace))
    )
    kinds = {name.partition(" ")[0].rpartition(":")[2] for name in kept if "infrastructure.cluster" in name}
    assert kinds == {"Metal3Cluster", "Metal3DataTemplate", "Metal3MachineTemplate", "Metal3Machine"}


def test_a_field_that_metal3_does_not_know_would_be_refused(applying: Applying, namespace: str) -> None:
    applying.define(definitions.metal3())
    graph = registered(of_machines(namespace=namespace))
    applying.apply(graph[f"{NAMESPACE} kubernetes"].inputs)
    machine = dict(graph[f"{METAL3.format('Metal3Machine')} metal-1"].inputs)
    applying.apply(machine, dry=True)
    image = {**machine["spec"]["image"], "checksumtype": "sha256"}
    with pytest.raises(KubernetesError, match=r"\.spec\.image\.checksumtype: field not declared in schema"):
        applying.apply({**machine, "spec": {**machine["spec"], "image": image}}, dry=True)
    lacks = {key: value for key, value in machine["spec"]["image"].items() if key != "url"}
    with pytest.raises(KubernetesError, match=r"spec\.image\.url: Required value"):
        applying.apply({**machine, "spec": {**machine["spec"], "image": lacks}}, dry=True)


def test_the_scaler_may_make_and_take_machines_and_nothing_else(
    real: RealKubernetes, applying: Applying, namespace: str
) -> None:
    graph = registered(spec(namespace=namespace, scaler="scaler-of-physics"))
    applied(applying, graph)
    kubeconfig = real.kubeconfig("scaler-of-physics")
    scaler = Applying.to(real, kubeconfig)
    pod = graph[f"{POD} cpu-2"].inputs
    scaler.delete(pod)
    with connect(kubeconfig) as client:
        names = [each.name for each in client.pods_in(namespace) if each.deleting_until is None]
        assert "cpu-1" in names
        refused = client.missing_rights(
            Right(verb, resource, group, where)
            for verb, resource, group, where in (
                ("create", "pods/exec", "", namespace),
                ("get", "secrets", "", namespace),
                ("patch", "roles", "rbac.authorization.k8s.io", namespace),
                ("patch", "networkpolicies", "networking.k8s.io", namespace),
                ("delete", "namespaces", "", namespace),
                ("list", "pods", "", "default"),
                ("list", "pods", "", ""),
            )
        )
    assert len(refused) == 7
    with pytest.raises(Forbidden):
        scaler.get(f"/api/v1/namespaces/{namespace}/secrets/boot-cpu")
    scaler.close()


def test_a_pod_is_kept_from_eviction_while_its_node_is_busy_and_no_longer(
    real: RealKubernetes, applying: Applying, namespace: str
) -> None:
    kept = applied(applying, registered(spec(namespace=namespace)))
    assert kept[f"{BUDGET} busy-cpu"]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    with connect(real.admin_kubeconfig) as client, closing(real.requests()) as asked:
        pods = {pod.name: pod for pod in client.pods_in(namespace)}
        # A job begins on cpu-1, and none is on cpu-2; the cluster's own machines have no probe.
        ready_is(asked, namespace, {"cpu-1": True, "cpu-2": False, "ctl": True, "login-1": True})
        until_counted(asked, namespace, {"busy-cpu": 1, "own": 2})
        with pytest.raises(EvictionRefused, match="busy-cpu"):
            client.evict(pods["cpu-1"])
        with pytest.raises(EvictionRefused, match="own"):
            client.evict(pods["ctl"])
        client.evict(pods["cpu-2"])
        assert {pod.name for pod in client.pods_in(namespace)} == {"cpu-1", "ctl", "login-1"}
        # The job ends.
        ready_is(asked, namespace, {"cpu-1": False})
        until_counted(asked, namespace, {"busy-cpu": 0, "own": 2})
        client.evict(pods["cpu-1"])
        assert {pod.name for pod in client.pods_in(namespace)} == {"ctl", "login-1"}


def ready_is(asked: Requests, namespace: str, ready: Mapping[str, bool]) -> None:
    """What kubelets would say: pods run, and their probes succeed or not."""
    for pod, yes in ready.items():
        conditions = [{"type": "Ready", "status": str(yes)}]
        status = {"status": {"phase": "Running", "conditions": conditions}}
        asked.patch(f"/api/v1/namespaces/{namespace}/pods/{pod}/status", status, ANY)


def until_counted(asked: Requests, namespace: str, healthy: Mapping[str, int]) -> None:
    """Until the controller of budgets has counted the pods that are ready."""

    def counted() -> Mapping[str, int | None]:
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        items = asked.get(path, ANY)["items"]
        return {each["metadata"]["name"]: each.get("status", {}).get("currentHealthy") for each in items}

    until(lambda: counted() == healthy or None, f"budgets counted {healthy}", 90, 0.1)

"""Machines of Cluster API, as a real API server keeps them by its published definitions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests import definitions
from tests.clients.kubernetes.applying import Applying
from tests.clients.kubernetes.real import ANY, RealKubernetes
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.objects import ClusterMachine

pytestmark = pytest.mark.slow


@pytest.fixture
def namespace(real: RealKubernetes) -> Iterator[str]:
    """A new one of a server that knows Machines."""
    applying = Applying.to(real)
    applying.define(definitions.cluster_api())
    thing = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n-{uuid.uuid4().hex[:6]}"}}
    applying.apply(thing)
    yield str(thing["metadata"]["name"])  # type: ignore[index]
    applying.delete(thing)
    applying.close()


def machine(namespace: str, name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "clusterName": "physics",
            "bootstrap": {"dataSecretName": "boot"},
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "Metal3Machine",
                "name": name,
            },
        },
    }


def test_machines_are_seen_by_their_labels_with_what_their_controllers_say(
    real: RealKubernetes, namespace: str
) -> None:
    applying, raw = Applying.to(real), real.requests()
    applying.apply(machine(namespace, "metal-1", **{"tidepool/stack": "dev"}))
    applying.apply(machine(namespace, "other"))
    said = {
        "phase": "Provisioning",
        "addresses": [{"type": "InternalIP", "address": "10.77.20.1"}],
        "conditions": [
            {
                "type": "InfrastructureReady",
                "status": "False",
                "reason": "NotReady",
                "message": "No available host found",
                "lastTransitionTime": "2026-11-22T14:00:00Z",
            }
        ],
    }
    path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines/metal-1/status"
    raw.patch(path, {"status": said}, ANY)
    with connect(real.admin_kubeconfig) as client:
        assert {each.name for each in client.cluster_machines(namespace)} == {"metal-1", "other"}
        (found,) = client.cluster_machines(namespace, {"tidepool/stack": "dev"})
    assert (found.phase, found.addresses, found.why_not) == (
        "Provisioning",
        ("10.77.20.1",),
        "No available host found",
    )
    applying.close()
    raw.close()


def test_a_machine_is_taken_by_its_uid_and_one_that_is_gone_is_no_error(
    real: RealKubernetes, namespace: str
) -> None:
    applying = Applying.to(real)
    applying.apply(machine(namespace, "metal-1"))
    with connect(real.admin_kubeconfig) as client:
        (found,) = client.cluster_machines(namespace)
        another = ClusterMachine(namespace, "metal-1", "0000", {}, "")
        client.delete_cluster_machine(another)
        assert len(client.cluster_machines(namespace)) == 1
        for _ in range(2):
            client.delete_cluster_machine(found)
        assert client.cluster_machines(namespace) == ()
    applying.close()


def test_a_hook_is_put_at_that_machine_alone_and_taken_away_again(
    real: RealKubernetes, namespace: str
) -> None:
    applying = Applying.to(real)
    applying.apply(machine(namespace, "metal-1"))
    with connect(real.admin_kubeconfig) as client:
        (found,) = client.cluster_machines(namespace)
        client.hold_cluster_machine(ClusterMachine(namespace, "metal-1", "0000", {}, ""))
        assert client.cluster_machines(namespace) == (found,)
        for _ in range(2):
            client.hold_cluster_machine(found)
            assert client.cluster_machines(namespace) == (replace(found, is_held=True),)
        for _ in range(2):
            client.release_cluster_machine(found)
            assert client.cluster_machines(namespace) == (found,)
        client.delete_cluster_machine(found)
        client.release_cluster_machine(found)
    applying.close()


def test_finalizers_keep_a_machine_and_are_told(real: RealKubernetes, namespace: str) -> None:
    applying, raw = Applying.to(real), real.requests()
    thing = machine(namespace, "metal-1")
    thing["metadata"]["finalizers"] = ["machine.cluster.x-k8s.io/finalizer"]
    applying.apply(thing)
    with connect(real.admin_kubeconfig) as client:
        (found,) = client.cluster_machines(namespace)
        client.delete_cluster_machine(found)
        (found,) = client.cluster_machines(namespace)
        assert (found.is_ending, found.finalizers) == (True, ("machine.cluster.x-k8s.io/finalizer",))
    path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines/metal-1"
    raw.patch(path, {"metadata": {"finalizers": None}}, ANY)
    applying.close()
    raw.close()

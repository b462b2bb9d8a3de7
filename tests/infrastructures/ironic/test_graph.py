"""What a cluster on an Ironic registers: types, inputs, parents, dependencies, secrets."""

from __future__ import annotations

import json

from tests.components import cluster_graph
from tests.infrastructures.ironic.specs import spec

OURS = "tidepool:ironic:"
BOOT = "tidepool:metal:Boot"
FLEET = "tidepool:components:ComputeFleet cpu"
CONTROLLER = "tidepool:components:SlurmController physics"
PREFLIGHT = "tidepool:infrastructure:Preflight ironic"


def test_all_of_ironic_that_a_cluster_is() -> None:
    graph = cluster_graph.registered(
        spec(
            {"resource_class": "cpu", "traits": ["CUSTOM_IB"]}, physical_network="data", gateway="10.77.255.1"
        )
    )
    ours = {name: parent for name, parent in graph.children.items() if OURS in name or BOOT in name}
    assert ours == {
        f"{BOOT} ctl": CONTROLLER,
        f"{OURS}Machine ctl": CONTROLLER,
        f"{BOOT} cpu": FLEET,
        f"{OURS}Machine cpu-1": FLEET,
        f"{OURS}Machine cpu-2": FLEET,
    }
    for name in ours:
        assert PREFLIGHT in graph[name].depends_on, name
    inputs = graph[f"{OURS}Machine cpu-1"].inputs
    assert {key: inputs[key] for key in inputs if key not in ("boot", "stack")} == {
        "ironic": {"cloud": "site", "cloudsFile": "~/.config/openstack/clouds.yaml"},
        "bootService": "http://10.9.0.5:8081",
        "network": {"prefix": 16, "physicalNetwork": "data", "gateway": "10.77.255.1"},
        "machine": "cpu-1",
        "address": "10.77.10.1",
        "cpus": 8,
        # With what the image takes, which is in memory.
        "memoryMib": 36 * 1024,
        "hosts": [],
        "resourceClass": "cpu",
        "traits": ["CUSTOM_IB"],
        "image": f"/images/{'d' * 64}/image.iso",
    }
    # A node's state is small.
    assert len(json.dumps(inputs)) < 1024
    assert "content" in graph[f"{BOOT} cpu"].secrets


def test_hosts_that_are_enrolled_are_there_before_machines_are() -> None:
    host = {"bmc": "https://10.9.1.11", "mac": "52-54-00-00-00-0B", "resource_class": "cpu"}
    graph = cluster_graph.registered(spec(enrol={"alpha": host}))
    enrolled = graph[f"{OURS}Host alpha"]
    assert {key: enrolled.inputs[key] for key in ("host", "bmc", "mac", "resourceClass", "credentials")} == {
        "host": "alpha",
        "bmc": "https://10.9.1.11",
        "mac": "52:54:00:00:00:0b",
        "resourceClass": "cpu",
        "credentials": "~/.config/tidepool/bmc",
    }
    assert f"{OURS}Host alpha" in graph[f"{OURS}Machine cpu-1"].depends_on
    assert PREFLIGHT in enrolled.depends_on

"""What a cluster on bare metal registers: types, inputs, parents, dependencies, secrets."""

from __future__ import annotations

import json

from tests.components import cluster_graph
from tests.infrastructures.metal.specs import spec
from tests.infrastructures.test_registry import ROOT
from tidepool.cluster.spec import ClusterSpec
from tidepool.testing import Graph

OURS = "tidepool:metal:"
FLEET = "tidepool:components:ComputeFleet cpu"
CONTROLLER = "tidepool:components:SlurmController physics"
PREFLIGHT = "tidepool:infrastructure:Preflight metal"


def registered(asked: ClusterSpec) -> Graph:
    return cluster_graph.registered(asked)


def test_all_of_bare_metal_that_a_cluster_is() -> None:
    graph = registered(spec({"hosts": ["alpha", "beta"], "bios": {"LogicalProc": "Disabled"}}))
    ours = {name.removeprefix(OURS): parent for name, parent in graph.children.items() if OURS in name}
    assert ours == {
        "Site metal": "",
        "Boot ctl": CONTROLLER,
        "Machine ctl": CONTROLLER,
        "Boot cpu": FLEET,
        "Machine cpu-1": FLEET,
        "Machine cpu-2": FLEET,
    }
    for name in ours:
        assert PREFLIGHT in graph[f"{OURS}{name}"].depends_on, name
    inputs = graph[f"{OURS}Machine cpu-1"].inputs
    assert {
        key: inputs[key] for key in ("machine", "address", "cpus", "memoryMib", "hosts", "bios", "image")
    } == {
        "machine": "cpu-1",
        "address": "10.77.10.1",
        "cpus": 8,
        # With what the image takes, which is in memory.
        "memoryMib": 34 * 1024,
        "hosts": ["alpha", "beta"],
        "bios": {"LogicalProc": "Disabled"},
        "image": f"/images/{'d' * 64}/image.iso",
    }
    # What all machines share stands once: a node's state is small.
    assert len(json.dumps(inputs)) < 1024
    assert "10.9.1.2" not in json.dumps(inputs)


def test_a_root_on_a_disk_is_made_of_the_image_as_a_disk_and_given_time_to_be_written_and_wiped() -> None:
    disk = {"serial": "S3Z8", "overwrite": True, "wipe": "headers"}
    on_disk = {"hosts": ["alpha", "beta"], "root": "disk", "disk": disk, "boot_timeout_s": 600}
    graph = registered(spec(on_disk))
    inputs = graph[f"{OURS}Machine cpu-1"].inputs
    assert inputs["diskImage"] == f"/images/{'d' * 64}/image.disk"
    assert inputs["disk"] == {"serial": "S3Z8", "wwn": "", "least": 0, "most": 0, "overwrite": True}
    assert (inputs["wipe"], inputs["bootTimeoutS"]) == ("headers", 600)
    # The controller's is in memory.
    assert "diskImage" not in graph[f"{OURS}Machine ctl"].inputs
    assert len(json.dumps(inputs)) < 1024


def test_a_boot_is_secret_and_credentials_are_nowhere() -> None:
    graph = registered(spec())
    assert "content" in graph[f"{OURS}Boot cpu"].secrets
    hosts = graph[f"{OURS}Site metal"].inputs["hosts"]
    assert hosts["alpha"]["location"] == {
        "address": "https://10.9.1.2",
        "credentials": "~/.config/tidepool/bmc",
    }


def test_the_image_of_the_page_has_all_that_a_seed_asks_of_it() -> None:
    """The program that a seed runs, and the unit that it changes, are the role's."""
    role = ROOT / "playbooks/roles/boot"
    assert "def do(said: dict, name: str, again: bool)" in (role / "files/nocloud").read_text()
    assert "dest: /usr/lib/tidepool/nocloud," in (role / "tasks/main.yaml").read_text()
    assert "ExecCondition=" in (role / "files/tidepool-nocloud.service").read_text()
    assert "boot" in (ROOT / "images/debian-12-metal/recipe.yaml").read_text().partition("roles:")[2]

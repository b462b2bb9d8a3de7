"""The program's part for pools: a Kubernetes, the pools that serve it, and what the stack exports; nothing of it without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi

from tests.cluster.specs import POOL, with_pool
from tests.components.stack import answers, on_first, spec_with
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import Cluster
from tidepool.testing import Graph, register

ROOT = Path(__file__).parents[2]
ROLE, BOOT = "tidepool:pool:Role", "tidepool:local:Boot"


def pooled(**changes: Any) -> ClusterSpec:
    return on_first(spec_with(**(with_pool() | changes)))


def program_of(spec: ClusterSpec, told: dict[str, Any]) -> Callable[[], None]:
    def program() -> None:
        cluster = Cluster(spec.name, spec, folder=Path("/project"), toolchain=Path("/toolchain"))
        exported = {name: cluster.outputs[name] for name in ("pools", "kubernetes")}
        pulumi.Output.from_input(exported).apply(told.update)

    return program


def registered(spec: ClusterSpec) -> tuple[Graph, dict[str, Any]]:
    told: dict[str, Any] = {}
    return register(program_of(spec, told), answers), told


def test_pools_join_the_control_plane_of_the_clusters_own() -> None:
    other = {**POOL, "name": "other", "subnet": "10.77.30.0/24", "machines": 2, "kubernetes_min": 1}
    graph, told = registered(pooled(pools=[POOL, other]))
    assert told["pools"] == {
        "shared": {"slurm": "shared-[1-4]", "kubernetes": ""},
        "other": {"slurm": "other-1", "kubernetes": "other-2"},
    }
    assert told["kubernetes"]["access"] == "kubernetes"
    assert told["kubernetes"]["server"] == "https://10.77.0.6:6443"
    role = graph[f"{ROLE} other-2"]
    # A machine joins when the API answers, which the access stands on.
    assert role.by_input["access"] == {"tidepool:kubernetes:Access kubernetes"}
    assert (
        "tidepool:kubernetes:ControlPlane physics"
        in graph["tidepool:kubernetes:Access kubernetes"].depends_on
    )
    # Pods have addresses that no other machine's have, and routes to all.
    subnets = [graph[f"{ROLE} {node}"].inputs["podSubnet"] for node in ("shared-1", "shared-4", "other-1")]
    assert subnets == ["10.240.0.0/24", "10.240.3.0/24", "10.240.16.0/24"]
    routes = str(graph[f"{BOOT} other-kubernetes"].inputs["files"])
    assert "10.240.3.0/24 via 10.77.20.4" in routes
    assert "10.240.17.0/24 via 10.77.30.2" in routes


def test_pools_of_an_image_that_must_hold_both_roles() -> None:
    graph, _ = registered(pooled())
    images = graph.of_type("tidepool:image:Image")
    assert {name: image.inputs.get("needs") for name, image in images.items()} == {
        "debian-12": None,
        "debian-12-converged": ["slurm", "kubernetes"],
    }


def test_pools_serve_a_kubernetes_that_is_there_already(tmp_path: Path) -> None:
    graph, told = registered(pooled(kubernetes={"kubeconfig": str(tmp_path / "config")}))
    assert not graph.of_type("tidepool:kubernetes:ControlPlane")
    assert "tidepool:local:Machine kube" not in graph.resources
    assert graph["tidepool:kubernetes:Access kubernetes"].inputs["path"] == str(tmp_path / "config")
    assert graph[f"{ROLE} shared-1"].inputs["access"] == told["kubernetes"]["access"] == "kubernetes"


def test_a_stack_without_pools_loads_nothing_of_kubernetes_or_of_conversions() -> None:
    said = """
import sys
from tests.components.stack import answers, program_of, spec_with
from tidepool.testing import register
from tidepool.provider.kinds import _import_all
register(program_of(spec_with()), answers)
_import_all()
others = ("tidepool.clients.kubernetes", "tidepool.conversion", "tidepool.infrastructures.kubernetes_access", "tidepool.components.converged_node_pool", "tidepool.components.kubernetes_control_plane", "kubernetes")
assert "tidepool.provider.node" in sys.modules
loaded = [name for name in sys.modules if name.startswith(others)]
assert not loaded, loaded
"""
    ran = subprocess.run(
        [sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr

"""The program's part for pools: a Kubernetes, the pools that serve it, and what the stack exports; nothing of it without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime.mocks import MockResourceArgs

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


def by_image(**changes: Any) -> Graph:
    """A pool of libvirt whose roles have an image each."""
    pool = {
        **POOL,
        "infrastructure": "libvirt",
        "image": "old",
        "images": {"kubernetes": "new"},
        "machines": 1,
        **changes,
    }
    place = {"libvirt": {"volumes": {"home": "nas:/home"}}}
    return registered(pooled(pools=[pool], infrastructures=place))[0]


def test_a_machine_whose_roles_have_an_image_each_is_made_from_slurms_and_its_role_knows_both() -> None:
    pytest.importorskip("pulumi_libvirt", reason="pulumi-libvirt is not installed: scripts/setup installs it")
    graph = by_image()
    disk, role = graph["libvirt:index/volume:Volume shared-1"], graph[f"{ROLE} shared-1"]
    names = {name: f"{name}-{'d' * 16}.qcow2" for name in ("old", "new")}
    assert disk.inputs["baseVolumeName"] == names["old"]
    # It may stand on either, and an image whose recipe has changed is another one.
    assert disk.replacement_trigger == [names["old"], names["new"]]
    assert role.inputs["imaging"] == {
        "kind": "libvirt",
        "uri": "qemu:///system",
        "domain": "dev-shared-1",
        "pool": "tidepool-dev",
        "volume": "shared-1.qcow2",
        "bytes": 16 * 1024**3,
        "images": {"slurm": names["old"], "kubernetes": names["new"]},
    }
    needs = {name: image.inputs.get("needs") for name, image in graph.of_type("tidepool:image:Image").items()}
    assert needs == {"debian-12": None, "old": ["slurm"], "new": ["kubernetes"]}
    # Neither that boots: it would be refused before one is built.
    for name in names:
        assert graph[f"tidepool:image:Image {name}"].inputs["forms"] == ["disk.qcow2"]


def test_one_image_for_both_roles_is_nothing_that_a_role_has_to_know() -> None:
    pytest.importorskip("pulumi_libvirt", reason="pulumi-libvirt is not installed: scripts/setup installs it")
    graph = by_image(images={})
    assert "imaging" not in graph[f"{ROLE} shared-1"].inputs
    assert graph["libvirt:index/volume:Volume shared-1"].replacement_trigger is None


#: What a spec says of the places of hosts, and what roles are told of them beside.
_SITE = {"boot_service": "http://10.9.0.5:8081", "volumes": {"home": "nas:/home"}}
_BMCS = {
    name: {"bmc": f"https://10.9.1.{at}", "mac": f"52:54:00:00:00:0{at}"} for at, name in enumerate("abcd", 1)
}
HOSTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "metal": ({**_SITE, "hosts": _BMCS}, {"kind": "metal"}),
    "ironic": (
        _SITE,
        {"kind": "ironic", "ironic": {"cloud": "ironic", "cloudsFile": "~/.config/openstack/clouds.yaml"}},
    ),
}


def isos(args: MockResourceArgs) -> Mapping[str, Any]:
    """The providers' answers, with the path of each image's ISO."""
    is_file = args.typ == "tidepool:image:File"
    return {"path": f"/images/{args.name}.iso"} if is_file else answers(args)


@pytest.mark.parametrize(
    ("where", "images"), [("metal", {}), ("metal", {"kubernetes": "new"}), ("ironic", {})], ids=str
)
def test_a_role_knows_how_its_host_is_booted_whether_or_not_its_roles_have_an_image_each(
    where: str, images: dict[str, str]
) -> None:
    """One that is off has no role, so that a conversion is what switches it on."""
    place, way = HOSTS[where]
    pool = {**POOL, "image": "old", "images": images, "infrastructure": where}
    spec = pooled(pools=[pool], infrastructures={where: place})
    graph = register(program_of(spec, {}), isos)
    iso, other = "/images/old.iso", f"/images/{'new' if images else 'old'}.iso"
    machine, role = graph[f"tidepool:{where}:Machine shared-1"], graph[f"{ROLE} shared-1"]
    told = dict(role.inputs["imaging"])
    assert told.pop("id")
    assert told == {
        **way,
        "stack": "dev",
        "machine": "shared-1",
        "address": "10.77.20.1",
        "images": {"slurm": iso, "kubernetes": other},
    }
    assert machine.inputs["image"] == iso
    # It may have booted either.
    assert machine.replacement_trigger == ([iso, other] if images else None)


def test_a_root_on_a_disk_is_there_again_when_its_host_is_switched_on() -> None:
    place, _ = HOSTS["metal"]
    source = {"name": "metal", "options": {"root": "disk"}}
    pool = {**POOL, "image": "old", "infrastructure": source}
    graph = registered(pooled(pools=[pool], infrastructures={"metal": place}))[0]
    assert "imaging" not in graph[f"{ROLE} shared-1"].inputs


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

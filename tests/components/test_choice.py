"""Which infrastructure it is: by its name, and nothing of any other is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pulumi
import pytest

from tests.cluster.specs import spec_mapping, with_fleet
from tests.components.stack import spec_with
from tests.infrastructures.libvirt.specs import mapping
from tests.infrastructures.libvirt.specs import spec as of_libvirt
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import Local, infrastructure_of, infrastructures_of
from tidepool.infrastructures.choice import ENTRIES
from tidepool.infrastructures.packages import PACKAGES
from tidepool.infrastructures.sides import SIDES

ROOT = Path(__file__).parents[2]
#: Imports all that the program of a stack does, and says which modules that loaded.
LOADED = """
import sys
from tidepool import components
from tidepool.cluster.spec import ClusterSpec
spec = ClusterSpec.model_validate({
    "name": "physics", "network": "10.77.0.0/16", "partitions": [{"name": "main"}],
    "fleets": [{"name": "cpu", "subnet": "10.77.1.0/24", "max_nodes": 2, "shape": {"cpus": 1, "memory": "1GiB"}}],
})
assert isinstance(components.infrastructure_of(spec, "dev"), components.Local)
sys.stdout.write("\\n".join(sorted(sys.modules)))
"""


def test_a_stack_on_local_loads_nothing_of_another_infrastructure() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(said.stdout.split())
    assert "tidepool.infrastructures.local.graph" in loaded
    assert {name for name in loaded if name.startswith("pulumi_")} == set()
    assert {
        name for name in loaded if name.partition(".")[0] in {"boto3", "nomad", "kubernetes", "paramiko"}
    } == set()
    others = {*ENTRIES.values()} - {ENTRIES["local"]}
    rooms = {side.machines.rpartition(".")[0] for name, side in SIDES.items() if name != "local"}
    assert "tidepool.infrastructures.libvirt" in rooms
    assert not loaded & {*others, *rooms}


def test_local_is_this_machine() -> None:
    only = {"fleets": spec_mapping()["fleets"][:1], "partitions": [{"name": "main"}]}
    assert infrastructure_of(spec_with(**only), "dev") == Local("dev")


def test_a_package_that_is_not_installed_is_told_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, ENTRIES["libvirt"], raising=False)
    monkeypatch.setitem(sys.modules, "pulumi_libvirt", None)
    with pytest.raises(
        pulumi.RunError,
        match=r"infrastructure libvirt: the Python package pulumi_libvirt is not installed; run: "
        r"\.venv/bin/pip install pulumi-libvirt==",
    ):
        infrastructure_of(of_libvirt(), "dev")


def test_a_package_is_asked_for_in_the_version_that_is_tested() -> None:
    pins = (ROOT / "requirements-dev.txt").read_text()
    assert set(PACKAGES) <= set(ENTRIES)
    for package in PACKAGES.values():
        assert f"\n{package.requirement} " in pins


def test_one_that_is_not_there_yet_is_told_with_those_that_are() -> None:
    elsewhere = ClusterSpec.model_validate(with_fleet(1, infrastructures=["local", "metal"]))
    with pytest.raises(
        pulumi.RunError, match=r"fleets\[1\]\.infrastructures\[1\] is metal: .* `local`, `libvirt`"
    ):
        infrastructures_of(elsewhere, "dev")


def test_a_program_of_one_infrastructure_is_told_where_a_spec_has_several() -> None:
    mixed: dict[str, Any] = mapping()
    mixed["controller"] = {}
    with pytest.raises(
        pulumi.RunError,
        match=r"controller.infrastructure is local; fleets\[0\]\.infrastructures\[0\] is libvirt: these are several",
    ):
        infrastructure_of(ClusterSpec.model_validate(mixed), "dev")


def test_nothing_in_a_component_names_an_infrastructure() -> None:
    """What is particular to one is in its own files, and the table of all is in one place."""
    folder = ROOT / "tidepool/components"
    own = {"choice.py", "libvirt_domain.py"} | {f"{name}.py" for name in ENTRIES}
    # Of pools it is the name of a role, and of the way to the Kubernetes that they serve.
    of_pools = {
        "asked.py",
        "converged.py",
        "converged_node_pool.py",
        "kubernetes_control_plane.py",
        "pools.py",
    }
    for file in folder.rglob("*.py"):
        if file.name not in own:
            text = file.read_text()
            names = {*ENTRIES} - ({"kubernetes"} if file.name in of_pools else set())
            assert not [name for name in names if f'"{name}"' in text], file

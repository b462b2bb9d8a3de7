"""The registry: infrastructures by their names, built in or brought by packages; nothing of any other is imported."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pulumi
import pytest

from tests.cluster.specs import spec_mapping, with_fleet
from tests.components.stack import spec_with
from tests.infrastructures.libvirt.specs import spec as of_libvirt
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.local.graph import Local
from tidepool.infrastructures.registry import (
    BUILT_IN,
    Descriptor,
    descriptor,
    infrastructures_of,
    resource_kind,
)

ROOT = Path(__file__).parents[2]
PAGE_ORDER = ("local", "libvirt", "aws", "cloudstack", "metal", "ironic", "kubernetes", "ssh", "nomad")
#: Imports all that the program of a stack does, and says which modules that loaded.
LOADED = """
import sys
from tidepool import components
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.registry import infrastructures_of
spec = ClusterSpec.model_validate({
    "name": "physics", "network": "10.77.0.0/16", "partitions": [{"name": "main"}],
    "fleets": [{"name": "cpu", "subnet": "10.77.1.0/24", "max_nodes": 2, "shape": {"cpus": 1, "memory": "1GiB"}}],
})
assert [type(each).__name__ for each in infrastructures_of(spec, "dev").values()] == ["Local"]
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
    assert not loaded & {package for name, package in BUILT_IN.items() if name != "local"}


def test_local_is_this_machine() -> None:
    only = {"fleets": spec_mapping()["fleets"][:1], "partitions": [{"name": "main"}]}
    assert infrastructures_of(spec_with(**only), "dev") == {"local": Local("dev")}


def test_the_page_says_of_each_what_objects_to_deletions_from_outside() -> None:
    table = "\n".join(f"| `{name}` | {descriptor(name).objects or 'nothing'} |" for name in PAGE_ORDER)
    assert table in (ROOT / "docs/infrastructures/README.md").read_text()
    assert {*PAGE_ORDER} == {*BUILT_IN}


def test_a_package_that_is_not_installed_is_told_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "tidepool.infrastructures.libvirt.graph", raising=False)
    monkeypatch.setitem(sys.modules, "pulumi_libvirt", None)
    with pytest.raises(
        pulumi.RunError,
        match=r"infrastructure libvirt: the Python package pulumi_libvirt is not installed; run: "
        r"\.venv/bin/pip install pulumi-libvirt==",
    ):
        infrastructures_of(of_libvirt(), "dev")


def test_a_package_is_asked_for_in_the_version_that_is_tested() -> None:
    pins = (ROOT / "requirements-dev.txt").read_text()
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    packages = {name: descriptor(name).package for name in BUILT_IN}
    others = {"dev", "docs", "lab", "setup", "uv"}
    assert {name for name, package in packages.items() if package} == {*groups} - others
    for name, package in packages.items():
        if package is not None:
            assert f"\n{package.requirement} " in pins
            pinned, *beside = groups[name]
            assert (pinned, tuple(each.partition(">")[0] for each in beside)) == (
                package.requirement,
                package.beside,
            )


def test_types_and_tokens_have_the_name_of_their_infrastructure() -> None:
    """By it alone is known whose they are, without importing the others."""
    with pytest.raises(ValueError, match="cloud:Machine: its type should begin with tidepool:toy: or toy:"):
        Descriptor("toy", "", "", "", types=("cloud:Machine",))
    with pytest.raises(ValueError, match="tidepool:cloud:Machine: tokens should begin with tidepool:toy:"):
        Descriptor("toy", "", "", "", types=("toy:Machine",), kinds={"tidepool:cloud:Machine": ""})


def test_a_token_that_nobody_has_is_none() -> None:
    for token in ("tidepool:local:Nothing", "tidepool:slurm:Nothing", "tidepool:openstack:Machine"):
        with pytest.raises(KeyError):
            resource_kind(token)


def test_one_that_is_not_there_yet_is_told_with_those_that_are() -> None:
    elsewhere = ClusterSpec.model_validate(with_fleet(1, infrastructures=["local", "openstack"]))
    with pytest.raises(
        pulumi.RunError, match=r"fleets\[1\]\.infrastructures\[1\] is openstack: .* `local`, `libvirt`"
    ):
        infrastructures_of(elsewhere, "dev")


def test_nothing_in_a_component_names_an_infrastructure() -> None:
    """What is particular to one is in its own files, and the table of all is in one place."""
    folder = ROOT / "tidepool/components"
    # Of pools it is the name of a role, and of the way to the Kubernetes that they serve.
    of_pools = {
        "cluster.py",
        "desired_state.py",
        "converged.py",
        "converged_node_pool.py",
        "kubernetes_control_plane.py",
    }
    for file in folder.glob("**/*.py"):
        text = file.read_text()
        names = {*BUILT_IN} - ({"kubernetes"} if file.name in of_pools else set())
        assert not [name for name in names if f'"{name}"' in text], file

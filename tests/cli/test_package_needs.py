"""What infrastructures need to be installed is told by `preview` and `up`, all of it at once, before anything is made."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.standins import Person
from tests.cluster.specs import with_pool
from tests.forking import fork_server
from tests.infrastructures.aws import specs as aws
from tests.infrastructures.cloudstack import specs as cloudstack
from tests.infrastructures.kubernetes import specs as kubernetes
from tests.infrastructures.libvirt import specs as libvirt
from tests.infrastructures.local.needs import needs_machines
from tests.infrastructures.nomad import specs as nomad
from tidepool.cli import errors, stack_spec
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures.registry import BUILT_IN, descriptor

ROOT = Path(__file__).parents[2]
#: A cluster on each of those that need a plugin of Pulumi's.
MAPPINGS = {
    "aws": aws.mapping(),
    "kubernetes": kubernetes.mapping(),
    "libvirt": libvirt.mapping(),
    "nomad": nomad.mapping(),
}


def project(folder: Path, stack: str, described: dict[str, Any]) -> Path:
    """A project like the repository's, with that stack."""
    folder.mkdir()
    for name in (".venv", "__main__.py", "Pulumi.yaml", "images", "playbooks", "provider"):
        (folder / name).symlink_to(ROOT / name)
    (folder / f"Pulumi.{stack}.yaml").write_text(json.dumps({"config": {"cluster:spec": described}}))
    return folder


def test_each_infrastructure_that_needs_a_plugin_is_tried_here() -> None:
    packages = {name: descriptor(name).package for name in BUILT_IN}
    assert set(MAPPINGS) == {name for name, package in packages.items() if package and package.plugin}


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_a_plugin_that_is_nowhere_is_told_with_the_command_that_installs_it(
    tmp_path: Path, name: str
) -> None:
    needs_machines(tmp_path / "data")  # `preview` looks first at what makes them
    pytest.importorskip(f"pulumi_{name}", reason=f"pulumi-{name} is not installed: scripts/setup installs it")
    said = fork_server().run(
        ["-m", "tidepool.cli", "--stack", name, "preview"],
        project(tmp_path / "project", name, MAPPINGS[name]),
        {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(tmp_path),
            "TIDEPOOL_DATA": str(tmp_path / "data"),
            "TIDEPOOL_ENGINE": "embedded",
        },
        timeout_s=120,
    )
    package = descriptor(name).package
    assert package is not None
    assert said.returncode == errors.LACKS, said.stdout + said.stderr
    assert (
        f"infrastructure {name}: the plugin pulumi-resource-{name} {package.version} is neither on PATH"
        in said.stderr
    )
    assert (
        f"-> pulumi plugin install resource {name} {package.version}; without the Pulumi CLI put"
        in said.stderr
    )
    assert "nothing was changed" in said.stderr
    assert "Traceback" not in said.stderr + said.stdout
    assert not list((tmp_path / "data").rglob("*.json")), "there is no stack"


def test_a_package_without_a_plugin_is_told_with_the_command_that_installs_it(
    somebody: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_spec, "preflight", lambda _data, _plans: ())
    monkeypatch.setattr(stack_spec, "installed", lambda _package: "")
    somebody.write(**cloudstack.mapping())
    said = somebody.runs("preview")
    assert said.exit_code == errors.LACKS
    told = " ".join(said.output.split())
    assert "the Python package cs is not installed -> .venv/bin/pip install cs==5.2.0" in told
    assert "plugin" not in told


@pytest.fixture
def aware(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Of a cluster on two infrastructures, on a machine that lacks nothing but what they need."""
    monkeypatch.setattr(stack_spec, "preflight", lambda _data, _plans: ())
    both = aws.mapping()
    both["fleets"][0]["infrastructures"].append({"name": "libvirt"})
    somebody.write(**both)
    return somebody


def test_all_that_is_missing_of_all_infrastructures_is_told_at_once(
    aware: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_spec, "installed", lambda package: "0.5.4" if "libvirt" in package else "")
    said = aware.runs("preview")
    assert said.exit_code == errors.LACKS
    told = " ".join(said.output.split())
    assert (
        "the Python packages pulumi-aws, boto3 are not installed -> .venv/bin/pip install pulumi-aws=="
        in told
    )
    assert "pulumi-resource-aws 7.51.1 is neither" in told
    assert "pulumi-resource-libvirt 0.5.4 is neither" in told
    assert "the Python package pulumi-libvirt" not in told
    assert aware.engine.ran == []


def test_a_plugin_is_found_on_path_or_in_the_cache_in_the_version_of_its_package(
    aware: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_spec, "installed", lambda _package: "0.5.9")
    on_path = tmp_path / "bin/pulumi-resource-aws"
    cached = tmp_path / "pulumi/plugins/resource-libvirt-v0.5.9/pulumi-resource-libvirt"
    for program in (on_path, cached):
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    env = {**aware.context.env, "PATH": str(on_path.parent), "PULUMI_HOME": str(tmp_path / "pulumi")}
    said = aware.runs("preview", env=env)
    assert said.exit_code == 0, said.output
    monkeypatch.setattr(stack_spec, "installed", lambda _package: "0.5.4")
    assert "pulumi-resource-libvirt 0.5.4 is neither" in " ".join(
        aware.runs("preview", env=env).output.split()
    )


def test_the_pulumi_cli_may_be_let_download_them(aware: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_spec, "installed", lambda _package: "1.0.0")
    aware.engine.name = "pulumi"
    assert aware.runs("preview").exit_code == errors.LACKS
    allowed = {**aware.context.env, "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "false"}
    assert aware.runs("preview", env=allowed).exit_code == 0


def test_a_cluster_of_this_machine_needs_none(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_spec, "preflight", lambda _data, _plans: ())
    bare = replace(somebody.context, env={**somebody.context.env, "PATH": "/nowhere"})
    assert somebody.runs("preview", env=bare.env).exit_code == 0


def test_a_home_on_lustre_is_refused_until_the_image_has_its_client(tmp_path: Path) -> None:
    described = yaml.safe_load((ROOT / "Pulumi.aws.yaml").read_text())["config"]["cluster:spec"]
    described["controller"]["infrastructure"]["options"]["home"] = "lustre"
    spec = read_spec(described)
    (said,) = stack_spec.packages_not_held(spec, "aws", tmp_path)
    assert "home: lustre: the image debian-12-cloud has no package lustre-client-*" in said
    assert "of your site's repository, and could not mount it: name another home, or add it to" in said
    shutil.copytree(ROOT / "images/debian-12-cloud", tmp_path / "images/debian-12-cloud")
    lock = tmp_path / "images/debian-12-cloud/packages.lock"
    package = next(line for line in lock.read_text().splitlines() if line.startswith("munge "))
    lock.write_text(lock.read_text() + package.replace("munge", "lustre-client-utils", 1) + "\n")
    assert list(stack_spec.packages_not_held(spec, "aws", tmp_path)) == []


def test_an_image_that_would_never_learn_what_it_is_for_is_refused_at_aws(tmp_path: Path) -> None:
    described = yaml.safe_load((ROOT / "Pulumi.aws.yaml").read_text())["config"]["cluster:spec"]
    pool = {
        "name": "shared",
        "machines": 1,
        "shape": {"cpus": 1, "memory": "1GiB"},
        "subnet": "10.80.90.0/24",
    }
    there = {"name": "aws", "options": {"instance_type": "c7i.large"}}
    described["pools"] = [{**pool, "image": "debian-12-vm-converged", "infrastructure": there}]
    described["kubernetes"] = {"kubeconfig": "/etc/kubeconfig"}
    described["controller"]["infrastructure"]["options"]["kubernetes"] = ["192.0.2.0/24"]
    (said,) = stack_spec.packages_not_held(read_spec(described), "aws", tmp_path)
    assert "pools[0].image: the image debian-12-vm-converged has no package cloud-init*" in said
    assert "for pools debian-12-cloud-converged" in said


def test_images_hold_the_release_of_slurm_that_is_said(tmp_path: Path) -> None:
    described = nodes_of({"image": "debian-13"})
    (said,) = stack_spec.releases_not_held(read_spec(described), tmp_path)
    assert said.startswith(
        "fleets[0].slurm_version: it is 22.05, and the image debian-13 holds slurmd of 24.11: name an image with 22.05"
    )
    described = nodes_of({"image": "debian-13-slurm-22.05"})
    assert list(stack_spec.releases_not_held(read_spec(described), tmp_path)) == []
    described = nodes_of(
        {"image": "debian-13", "slurm_version": "24.11"}, image="debian-14", slurm_version="26.05"
    )
    assert list(stack_spec.releases_not_held(read_spec(described), tmp_path)) == []
    described |= {"slurm_version": "24.11"}
    (said,) = stack_spec.releases_not_held(read_spec(described), tmp_path)
    assert said.startswith("slurm_version: it is 24.11, and the image debian-14 holds slurmctld of 26.05: ")


def test_all_that_images_of_roles_lack_is_told_at_once() -> None:
    images = {"slurm": "debian-13-vm-kubernetes", "kubernetes": "debian-12"}
    spec = read_spec(with_pool(infrastructure="libvirt", images=images))
    said = [line.partition("; name one")[0] for line in stack_spec.roles_not_held(spec, ROOT)]
    assert said == [
        (
            "pool shared: its image debian-13-vm-kubernetes does not hold the role slurm, as it has no package munge, no package "
            "slurmd"
        ),
        (
            "pool shared: its image debian-12 does not hold the role kubernetes, as it has no package containerd, no package "
            "containernetworking-plugins, no package runc, no tool kubelet, no tool pause"
        ),
        "pool shared: its image debian-12 has no kernel, by which machines of libvirt boot",
    ]
    images = {"slurm": "debian-12-vm", "kubernetes": "debian-13-vm-kubernetes"}
    fit = read_spec(with_pool(infrastructure="libvirt", images=images))
    assert list(stack_spec.roles_not_held(fit, ROOT)) == []


@pytest.mark.parametrize("place", ["local", "ssh"])
def test_an_image_without_a_kernel_is_well_where_machines_have_one_already(place: str) -> None:
    spec = read_spec(with_pool(infrastructure=place))
    assert list(stack_spec.roles_not_held(spec, ROOT)) == []


def nodes_of(keys: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A cluster whose fleet says ``keys`` as well."""
    described = nomad.mapping()
    described["fleets"][0] |= keys
    return described | more

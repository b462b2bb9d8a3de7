"""The stacks that come with the project are clusters, each on what it is there to show; a page shows where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import yaml

import tidepool.infrastructures.aws.reading
import tidepool.infrastructures.cloudstack.demands
import tidepool.infrastructures.cloudstack.reading
import tidepool.infrastructures.ironic.reading
import tidepool.infrastructures.kubernetes.reading
import tidepool.infrastructures.libvirt.preflight
import tidepool.infrastructures.libvirt.reading
import tidepool.infrastructures.metal.reading
import tidepool.infrastructures.nomad.reading
import tidepool.infrastructures.ssh.reading
from tests.infrastructures.libvirt.hosts import host
from tests.repository import ROOT, tracked
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec


def aws(spec: ClusterSpec) -> None:
    options = tidepool.infrastructures.aws.reading.read_options(spec, "aws")
    assert [claim.offering.market for claim in options.claims] == ["on-demand", "spot", "on-demand"]


def cloudstack(spec: ClusterSpec) -> None:
    options = tidepool.infrastructures.cloudstack.reading.read_options(spec)
    asked = tidepool.infrastructures.cloudstack.demands.demanded(spec, options)
    assert [(each.cpus, each.memory_mib, each.machines) for each in asked] == [(2, 4096, 2), (8, 16384, 0)]
    # As its offerings say.
    assert options.offerings["cpu", "cloudstack/large"].disk_gib == 32


def ironic(spec: ClusterSpec) -> None:
    found = tidepool.infrastructures.ironic.reading.read_options(spec)
    assert found.place.machines.resource_class == "head"
    assert found.offerings["cpu", "ironic"].traits == ("CUSTOM_INFINIBAND",)


def kubernetes(spec: ClusterSpec) -> None:
    assert tidepool.infrastructures.kubernetes.reading.read_options(spec).namespace == "hpc"


def libvirt(spec: ClusterSpec) -> None:
    """A host has all that its machines need, one that only emulates too, and one with nothing set aside for them."""
    asked = tidepool.infrastructures.libvirt.preflight.demands(
        spec, tidepool.infrastructures.libvirt.reading.read_options(spec), "here"
    )
    assert [each.machines for each in asked] == [1, 2]
    assert (
        tidepool.infrastructures.libvirt.preflight.lacks(
            host(kvm=False, iommu="<iommu support='no'/>", pages={}), asked
        )
        == ()
    )


def metal(spec: ClusterSpec) -> None:
    found = tidepool.infrastructures.metal.reading.read_options(spec)
    assert found.place.machines.hosts == ("head",)
    assert found.offerings["cpu", "metal"].hosts == ("alpha", "beta")


def nomad(spec: ClusterSpec) -> None:
    found = tidepool.infrastructures.nomad.reading.read_options(spec)
    assert found.offerings["cpu", "nomad"].attributes == {"image": ("debian-12",)}


def ssh(spec: ClusterSpec) -> None:
    found = tidepool.infrastructures.ssh.reading.read_options(spec)
    assert (found.own, found.fleets) == (("head",), {"cpu": ("alpha", "beta")})


#: What its options come to, by the name of its stack.
READ: Final[dict[str, Callable[[ClusterSpec], None]]] = {
    each.__name__: each for each in (aws, cloudstack, ironic, kubernetes, libvirt, metal, nomad, ssh)
}
LOCAL: Final = {"dev", "converged", "lab", "lab-noise", "schedulers"}


def test_each_stack_of_the_project_has_its_test() -> None:
    assert {file.name.split(".")[1] for file in tracked("Pulumi.*.yaml")} == READ.keys() | LOCAL


@pytest.mark.parametrize("stack", [*READ, *sorted(LOCAL)])
def test_a_stack_of_the_project_is_a_cluster_on_its_infrastructure(stack: str) -> None:
    file = f"Pulumi.{stack}.yaml"
    spec = read_spec(yaml.safe_load((ROOT / file).read_text())["config"]["cluster:spec"])
    assert spec.name == stack
    of_fleets = {entry.name for fleet in spec.fleets for entry in fleet.infrastructures}
    if stack in LOCAL:
        assert {spec.controller.infrastructure.name, *of_fleets} == {"local"}
        return
    assert {spec.controller.infrastructure.name, *of_fleets} == {stack}
    READ[stack](spec)
    assert f"(../../{file})" in (ROOT / f"docs/infrastructures/{stack}.md").read_text()

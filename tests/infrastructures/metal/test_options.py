"""Mistakes in the options of bare metal: all at once, each with where it stands and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infrastructures.metal.specs import HOSTS, mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.metal.reading import read_options
from tidepool.infrastructures.reading import addresses_of

POOL = {
    "name": "shared",
    "subnet": "10.77.20.0/24",
    "machines": 2,
    "shape": {"cpus": 2, "memory": "4GiB"},
    "image": "debian-12-metal-converged",
}


def with_pool(options: dict[str, Any], **more: Any) -> ClusterSpec:
    """The same cluster with a pool, whose machines are of these options."""
    pools = [{**POOL, "infrastructure": {"name": "metal", "options": options}, **more}]
    described = {**mapping(), "pools": pools, "kubernetes": {"kubeconfig": "/etc/kubeconfig"}}
    return ClusterSpec.model_validate(described)


TWIN = {**HOSTS, "twin": HOSTS["alpha"]}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"hosts": {}}, "hosts"),
        ({"hosts": TWIN}, "alpha is the same host"),
        ({"hosts": {"a": {**HOSTS["alpha"], "bmc": "https://root:calvin@10.9.1.1"}}}, "bmc"),
        ({"hosts": {"a": {**HOSTS["alpha"], "mac": "01:00:5e:00:00:01"}}}, "mac"),
        ({"hosts": {**HOSTS, "a": {**HOSTS["alpha"], "password": "calvin"}}}, "password"),
        ({"boot_service": "10.9.0.5"}, "boot_service"),
        ({"verify": False, "ca": "/etc/ca.pem"}, "leave one of them out"),
        ({"volumes": {}}, "volumes.home: it is missing"),
        ({"machines": {"hosts": ["tail"]}}, "hosts are alpha, beta, head"),
        ({"fleet": {"min_nodes": 2}, "hosts": {"head": HOSTS["head"], "alpha": HOSTS["alpha"]}}, "hosts[1]"),
    ],
)
def test_mistakes_of_the_place_are_told_with_where_they_stand(place: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        read_options(spec(**place))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("offering", "said"),
    [
        ({"disk": {"serial": "S1"}}, "write root: disk, or leave it out"),
        ({"root": "disk", "disk": {"overwrite": True}}, "overwrite is for one disk: name its serial or wwn"),
        ({"root": "disk", "disk": {"least": "2TiB", "most": "1TiB"}}, "most is less than least"),
        ({"root": "disk", "disk": {"wwn": "S1"}}, "disk.wwn"),
        ({"root": "tape"}, "root"),
    ],
)
def test_mistakes_of_a_disk_are_told_with_where_they_stand(offering: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=r"options.*") as raised:
        read_options(spec({"hosts": ["alpha"], **offering}))
    assert said in str(raised.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(SpecError) as raised:
        read_options(spec({"hosts": ["gamma"], "boot_timeout_s": 60}, hosts=TWIN, volumes={}))
    said = str(raised.value)
    for where in (
        "options.hosts[0]",
        "hosts.twin.bmc",
        "hosts.twin.mac",
        "volumes.home",
        "volumes.slurmctld",
    ):
        assert where in said


def test_more_nodes_than_hosts_at_least_are_a_mistake() -> None:
    with pytest.raises(SpecError, match="min_nodes are 2, and there are 1 hosts"):
        read_options(spec({"hosts": ["alpha"]}, fleet={"min_nodes": 2}))


def test_a_pool_is_of_hosts_and_has_as_many_as_it_says() -> None:
    asked = with_pool({"hosts": ["alpha", "beta"]})
    assert read_options(asked).offerings["shared", "metal"].hosts == ("alpha", "beta")
    assert str(addresses_of(asked)("shared-2")) == "10.77.20.2"
    with pytest.raises(
        SpecError, match=r"pools\[0\].*: machines are 2, and there are 1 hosts: name more, or lower it"
    ):
        read_options(with_pool({"hosts": ["alpha"]}))


def test_roles_have_images_of_their_own_where_roots_are_in_memory() -> None:
    images = {"kubernetes": "debian-13-vm-kubernetes"}
    assert read_options(with_pool({"hosts": ["alpha", "beta"]}, images=images)).offerings
    on_disk = {"hosts": ["alpha", "beta"], "root": "disk"}
    assert read_options(with_pool(on_disk)).offerings
    with pytest.raises(
        SpecError, match=r"pools\[0\].images: .* name one that holds both roles, or write root: memory"
    ):
        read_options(with_pool(on_disk, images=images))


def test_a_node_has_its_address() -> None:
    asked = spec()
    address = addresses_of(asked)
    assert [str(address(node)) for node in ("ctl", "cpu-2", "cpu-999", "gpu-1", "")] == [
        "10.77.0.2", "10.77.10.2", "None", "None", "None"
    ]  # fmt: skip

"""Mistakes in the options of Ironic: all at once, each with where it stands and the remedy; and the page has them all."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.infrastructures.ironic.specs import mapping, spec
from tests.infrastructures.nomad.test_page import options
from tests.repository import ROOT
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.ironic.options import Enrolment, Offering, SiteOptions
from tidepool.infrastructures.ironic.reading import read_options

POOL = {
    "name": "shared",
    "subnet": "10.77.20.0/24",
    "machines": 2,
    "shape": {"cpus": 2, "memory": "4GiB"},
    "image": "debian-12-metal-converged",
}
HOST = {"bmc": "https://10.9.1.11", "mac": "52:54:00:00:00:0b"}
PAGE = (ROOT / "docs/infrastructures/ironic.md").read_text()


def test_a_pool_is_of_hosts_and_has_as_many_as_it_says() -> None:
    def with_hosts(*hosts: str) -> ClusterSpec:
        source = {"name": "ironic", "options": {"hosts": hosts}}
        pools = [{**POOL, "infrastructure": source}]
        kubernetes = {"kubeconfig": "/etc/kubeconfig"}
        return ClusterSpec.model_validate({**mapping(), "pools": pools, "kubernetes": kubernetes})

    assert read_options(with_hosts("alpha", "beta")).offerings["shared", "ironic"].hosts == ("alpha", "beta")
    with pytest.raises(
        SpecError, match=r"pools\[0\].*: machines are 2, and there are 1 hosts: name more, or lower it"
    ):
        read_options(with_hosts("alpha"))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"boot_service": "10.9.0.5"}, "boot_service"),
        ({"boot_service": "http://root:calvin@10.9.0.5"}, "boot_service"),
        ({"password": "calvin"}, "password"),
        ({"clouds_file": "clouds.yaml"}, "clouds_file"),
        ({"volumes": {}}, "volumes.home: it is missing"),
        ({"gateway": "10.78.0.1"}, "it is not in the cluster's network, 10.77.0.0/16"),
        ({"enrol": {"a": {**HOST, "bmc": "https://root:calvin@10.9.1.11"}}}, "bmc"),
        ({"enrol": {"a": HOST, "b": HOST}}, "a is the same host"),
        (
            {"machines": {"hosts": ["head"]}, "controller": {"login_machines": 2}},
            "the cluster's own machines are 3, and there are fewer hosts",
        ),
    ],
)
def test_mistakes_of_the_place_are_told_with_where_they_stand(place: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        read_options(spec(**place))
    assert said in str(raised.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(SpecError) as raised:
        read_options(
            spec(
                {"hosts": ["a b"], "traits": ["infiniband"], "boot_timeout_s": 0},
                volumes={},
                gateway="10.1.0.1",
            )
        )
    said = str(raised.value)
    for where in (
        "options.hosts[0]",
        "options.traits[0]",
        "options.boot_timeout_s",
        "volumes.home",
        "gateway",
    ):
        assert where in said


def test_more_nodes_than_hosts_at_least_are_a_mistake() -> None:
    with pytest.raises(SpecError, match="min_nodes are 2, and there are 1 hosts"):
        read_options(spec({"hosts": ["alpha"]}, fleet={"min_nodes": 2}))


@pytest.mark.parametrize(
    ("heading", "part"),
    [
        ("| of the place |", SiteOptions),
        ("| of a host to enrol |", Enrolment),
        ("| of an offering |", Offering),
    ],
)
def test_every_option_is_in_its_table_and_no_other(heading: str, part: type) -> None:
    lines = PAGE.partition(heading)[2].partition("\n\n")[0].splitlines()[2:]
    assert {name for line in lines for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])} == options(
        part
    )


def test_passwords_are_no_option() -> None:
    every = {name for part in (SiteOptions, Enrolment, Offering) for name in part.model_fields}
    assert not every & {"password", "user"}

"""Mistakes in the options of bare metal: all at once, each with where it stands and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infrastructures.metal.specs import HOSTS, spec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.metal.reading import addresses_of, read_options

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


def test_a_node_has_its_address() -> None:
    asked = spec()
    address = addresses_of(asked)
    assert [str(address(node)) for node in ("ctl", "cpu-2", "cpu-999", "gpu-1", "")] == [
        "10.77.0.2", "10.77.10.2", "None", "None", "None"
    ]  # fmt: skip

"""A network for a cluster beside others: none that is taken here, by whomever; and where a site gives networks, the site's."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.standins import SPEC, Person
from tidepool.cli import free_networks
from tidepool.cli.errors import Failure
from tidepool.cli.free_networks import choosing_network, in_free_network
from tidepool.cli.stack import Stack, find_stack
from tidepool.cluster.spec_reading import read_spec

Chosen = Callable[..., dict[str, Any]]


@pytest.fixture
def chosen(somebody: Person) -> Chosen:
    def choose(*others: str, **changes: Any) -> dict[str, Any]:
        mapping = {**SPEC, **changes}
        stack: Stack = find_stack(somebody.context, "dev", None)
        return in_free_network(read_spec(mapping), mapping, stack, [IPv4Network(each) for each in others])

    return choose


def described(somebody: Person, name: str, network: str) -> None:
    document = {"config": {"cluster:spec": {**SPEC, "network": network}}}
    (somebody.folder / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump(document))


def test_it_is_none_of_those_that_are_taken(
    somebody: Person, chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_networks, "host_networks", lambda: {IPv4Network("10.255.0.0/16")})
    monkeypatch.setattr(free_networks, "_made", lambda data: [IPv4Network("10.254.0.0/24")])
    described(somebody, "other", "10.253.0.0/16")
    (somebody.folder / "Pulumi.broken.yaml").write_text("config: [")
    found = chosen("10.252.0.0/16")
    assert found["network"] == "10.251.0.0/16"
    assert found["fleets"][0]["subnet"] == "10.251.1.0/24"
    assert read_spec(found).fleets[0].max_nodes == 4


def test_in_a_cloud_it_stays_as_it_is(chosen: Chosen) -> None:
    fleets = [{**SPEC["fleets"][0], "infrastructures": ["local", "nomad"]}]
    assert chosen(fleets=fleets)["network"] == "10.99.0.0/16"


def test_where_none_is_free_it_is_told(chosen: Chosen) -> None:
    with pytest.raises(
        Failure, match=r"no private network is free for another cluster here: [0-9]+ are taken"
    ):
        chosen("10.0.0.0/8", "172.16.0.0/12")


def test_one_chooses_at_a_time(tmp_path: Path) -> None:
    with choosing_network(tmp_path):
        assert (tmp_path / "networks.lock").exists()

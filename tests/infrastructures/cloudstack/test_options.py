"""Mistakes in the options of CloudStack: all at once, each with where it stands and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infrastructures.cloudstack.specs import spec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.cloudstack.reading import read_options
from tidepool.infrastructures.cloudstack.rules import Rule, rules


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"template": "debian", "images": "http://images"}, "write images or template, and not both"),
        ({"project": "physics", "account": "lab"}, "a project has its own account"),
        ({"domain": "ROOT/science"}, "a domain is one's of an account"),
        ({"endpoint": "cloud.site"}, "endpoint"),
        ({"images": "http://images.site/~lab"}, "images"),
        ({"volumes": {}}, "volumes.home: it is missing"),
        ({"machines": {"affinity": "together"}}, "machines.affinity"),
        (
            {"machines": {"details": {"vgpuType": "passthrough"}}},
            "there is vgpuType alone: CloudStack knows a GPU by",
        ),
        ({"machines": {"extra_config": "<hostdev>"}}, "machines.extra_config = '<hostdev>': it is no XML"),
        (
            {"machines": {"extra_config": "<hostdev/>"}, "hypervisor": "VMware"},
            "machines.extra_config: it is of hosts with KVM, and controller.infrastructure.options.hypervisor is VMware",
        ),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_mistakes_of_the_place_are_told_with_where_they_stand(place: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        read_options(spec(**place))
    assert said in str(raised.value)


def test_all_mistakes_are_told_at_once() -> None:
    firewall = {"logins": {"ingress": [{"from": ["198.51.100.0/24"]}]}}
    with pytest.raises(SpecError) as raised:
        read_options(spec({"disk": "1GiB"}, vpc="science", volumes={}, firewall=firewall))
    said = str(raised.value)
    for where in ("disk", "volumes.home", "volumes.slurmctld", "firewall.logins.ingress"):
        assert where in said


def test_rules_are_of_those_who_may_and_of_file_servers() -> None:
    firewall = {
        "nodes": {"egress": [{"to": ["192.0.2.7"], "ports": [443, "27000-27010"]}]},
        "logins": {"egress": [{"to": ["0.0.0.0/0"], "protocol": "udp"}]},
    }
    asked = spec(firewall=firewall)
    place = read_options(asked).place
    login = f"{asked.own_addresses.login(1)}/32"
    assert rules(asked, place, "cloudstack") == (
        Rule("tcp", ("10.77.0.0/16",), ("10.9.0.1/32",), 2049, 2049),
        Rule("tcp", ("10.77.10.0/24",), ("192.0.2.7/32",), 443, 443),
        Rule("tcp", ("10.77.10.0/24",), ("192.0.2.7/32",), 27000, 27010),
        Rule("udp", (login,), ("0.0.0.0/0",)),
    )


def test_a_file_server_that_has_a_name_may_be_anywhere() -> None:
    asked = spec(volumes={"home": "files.site:/home", "slurmctld": "files.site:/ctl"})
    (rule,) = rules(asked, read_options(asked).place, "cloudstack")
    assert (rule.to, rule.first) == (("0.0.0.0/0",), 2049)

"""Rules of security groups: who is let in, and that AWS, which takes none twice, is asked for none twice."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.infrastructures.aws.specs import GIVEN, REGION
from tests.properties import runs
from tidepool.cluster.firewall import Firewall
from tidepool.infrastructures.aws.groups import Groups, Rule, part_of
from tidepool.infrastructures.aws.options import SiteOptions


def test_every_machine_is_of_a_part_of_the_cluster() -> None:
    parts = {
        name: part_of(name) for name in ("ctl", "ctlbackup", "dbd", "login", "login-2", "cpu-1", "cpu-spot")
    }
    assert parts == {
        "ctl": "controller",
        "ctlbackup": "controller",
        "dbd": "accounting",
        "login": "login",
        "login-2": "login",
        "cpu-1": "node",
        "cpu-spot": "node",
    }


@pytest.mark.parametrize(
    "name", ["login-gpu", "login-gpu-1", "login-gpu.spot", "logins", "login-", "ctl-big"]
)
def test_a_fleet_may_be_called_nearly_as_the_clusters_own_machines_and_its_nodes_are_nodes(name: str) -> None:
    assert part_of(name) == "node"


def groups(
    firewall: dict[str, Any] | None = None, *, has_own: bool = True, pods: str = "", **place: Any
) -> Groups:
    return Groups(
        IPv4Network("10.77.0.0/16"),
        SiteOptions.model_validate({"region": REGION, **place}),
        Firewall.model_validate(firewall or {}),
        has_own,
        IPv4Network(pods) if pods else None,
    )


def said(rule: Rule) -> tuple[object, ...]:
    """What AWS compares: not what a rule is called, nor why it is there."""
    return rule.part, rule.way, rule.other, rule.protocol if rule.ports else "-1", rule.ports


def test_nobody_is_let_in_who_need_not() -> None:
    into = [rule for rule in groups(home="lustre").rules() if rule.way == "from"]
    assert {rule.other for rule in into if rule.part == "accounting"} == {"controller", "login", "files"}
    assert {(rule.part, rule.other) for rule in into if rule.ports is None} == {("node", "node")}


NETWORKS = ("0.0.0.0/0", "192.168.7.0/24", "192.0.2.7/32", "10.77.0.0/16")
PLACES: tuple[dict[str, Any], ...] = ({}, {"given": GIVEN}, {"given": {**GIVEN, "endpoint_group": "sg-0a"}}, {"given": GIVEN, "home": "nas:/home"}, {"home": "lustre"})  # fmt: skip
networks = st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=3)
egress = st.lists(
    st.fixed_dictionaries(
        {"to": networks, "ports": st.lists(st.sampled_from(["22", "443", "2049", "1-65535"]), max_size=3)}
    ),
    max_size=3,
)


@runs(200)
@given(
    st.sampled_from(PLACES),
    st.lists(st.sampled_from(NETWORKS), max_size=4),
    st.lists(networks, max_size=3),
    egress,
    st.booleans(),
    st.sampled_from(["", *NETWORKS[1:]]),
    st.lists(st.sampled_from(NETWORKS), max_size=2),
)
def test_whoever_asks_for_a_rule_or_a_route_it_is_there_once(
    place: dict[str, Any],
    administrators: list[str],
    sources: list[list[str]],
    rules: list[dict[str, Any]],
    has_own: bool,
    pods: str,
    kubernetes: list[str],
) -> None:
    firewall = {
        "logins": {"ingress": [{"from": each} for each in sources], "egress": rules},
        "nodes": {"egress": rules},
    }
    asked = groups(
        firewall, has_own=has_own, pods=pods, kubernetes=kubernetes, administrators=administrators, **place
    )
    found = asked.rules()
    assert max(Counter(map(said, found)).values()) == 1
    assert max(Counter(rule.name for rule in found).values()) == 1
    ways = asked.ways()
    assert len(set(ways.values())) == len(ways)
    # Nor does one that is there already, under a name of before, become two.
    former = [name for rule in found for name in asked.former_names(rule)]
    assert len(set(former)) == len(former)
    former = [name for network in ways.values() for name in asked.former_ways(network)]
    assert len(set(former)) == len(former)
    # And nothing that was asked for is missing.
    assert {str(rule.other) for rule in found if rule.part == "controller" and rule.ports == (22, 22)} >= {
        *administrators
    }
    if has_own:
        logs_in = {str(rule.other) for rule in found if rule.part == "login" and rule.ports == (22, 22)}
        assert logs_in >= {each for some in sources for each in some}
        assert {str(each) for each in ways.values()} == {
            *administrators,
            *kubernetes,
            *(e for some in sources for e in some),
        }
    reached = {str(rule.other) for rule in found if rule.part == "node" and rule.way == "to"}
    assert reached >= {to for rule in rules for to in rule["to"]}


def test_what_a_person_says_of_a_rule_stands_there() -> None:
    firewall = {"logins": {"ingress": [{"from": ["192.168.7.0/24"], "description": "the institute"}]}}
    found = groups(firewall, administrators=["192.168.7.0/24"]).rules()
    assert {rule.part: rule.why for rule in found if str(rule.other) == "192.168.7.0/24"} == {
        "login": "the institute",
        "controller": "SSH",
        "accounting": "SSH",
        "node": "SSH",
    }


def test_rules_are_known_by_the_names_that_states_have() -> None:
    site = ["192.168.7.0/24"]
    firewall = {"logins": {"ingress": [{"from": ["192.0.2.0/24"]}]}}
    given = groups(firewall, given=GIVEN, home="nas:/home", administrators=site)
    elsewhere, lustre = groups(has_own=False), groups(home="lustre")
    endpoint = groups(given={**GIVEN, "endpoint_group": "sg-0a"})
    for asked, names in (
        (given, {"login-from-192.0.2.0-24", "node-from-administrators-0", "controller-from-node-6817", "node-from-node-all"}),
        (given, {"node-to-cluster", "node-to-files", "login-to-endpoints", "node-to-node", "node-to-secrets", "node-to-home"}),
        (elsewhere, {"node-from-elsewhere-22", "node-from-elsewhere-6818", "node-from-elsewhere-1024"}),
        (lustre, {"files-from-node-988", "files-to-node-1018", "node-from-files-988"}),
        (endpoint, {"node-to-secrets"}),
    ):  # fmt: skip
        assert names <= {name for rule in asked.rules() for name in asked.former_names(rule)}
    assert [list(given.former_ways(each)) for each in given.ways().values()] == [
        ["logins-192.0.2.0-24"],
        ["logins-192.168.7.0-24", "administrators-0"],
    ]


def test_who_logs_in_elsewhere_is_let_in_nowhere_here() -> None:
    firewall = {"logins": {"ingress": [{"from": ["192.0.2.0/24"]}], "egress": [{"to": ["192.0.2.7"]}]}}
    here, there = (groups(firewall, has_own=each) for each in (True, False))
    assert len(here.ways()) == 1
    assert not there.ways()
    assert not [rule for rule in there.rules() if rule.part == "login" and "192.0.2." in str(rule.other)]

"""The firewall of a spec: its mistakes, each with key and remedy, and that all who read it let the same packets through."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.components.cluster_graph import registered
from tests.properties import runs
from tidepool.cluster.firewall import Firewall
from tidepool.cluster.flows import LINK_LOCAL, flows, forwards, port_range
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.infrastructures.aws.groups import Groups, Rule
from tidepool.infrastructures.aws.options import SiteOptions
from tidepool.infrastructures.kubernetes.namespace import firewall_policies
from tidepool.infrastructures.libvirt.filter import filter_xml
from tidepool.infrastructures.local.kernel.ruleset import Link, Rules, host_ruleset, switch_ruleset

CLUSTER, NODES = IPv4Network("10.80.0.0/16"), IPv4Network("10.80.1.0/24")
LOGIN, CONTROLLER = IPv4Address("10.80.0.16"), IPv4Address("10.80.0.2")


def spec(firewall: Mapping[str, Any], **more: Any) -> ClusterSpec:
    fleet = {"name": "cpu", "subnet": str(NODES), "max_nodes": 4, "shape": {"cpus": 1, "memory": "1GiB"}}
    mapping = {
        "name": "physics",
        "network": str(CLUSTER),
        "fleets": [fleet],
        "partitions": [{"name": "main"}],
    }
    return read_spec({**mapping, "firewall": firewall, **more})


def egress(**rule: Any) -> dict[str, Any]:
    return {"nodes": {"egress": [rule]}}


def ssh(options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"infrastructure": {"name": "ssh", "options": options or {}}}


@pytest.mark.parametrize(
    ("firewall", "more", "key", "words"),
    [
        (egress(to=["licences.site"]), {}, "nodes.egress[0].to[0]", "names are not looked up"),
        (egress(to=["192.0.2.7/24"]), {}, "nodes.egress[0].to[0]", "write 192.0.2.0/24"),
        (egress(to=["169.254.169.254"]), {}, "nodes.egress[0].to[0]", "networks of other hosts"),
        (egress(to=["10.80.1.0/24"]), {}, "nodes.egress[0].to[0]", "within the cluster's own network"),
        (egress(to=[]), {}, "nodes.egress[0].to", "at least one is needed"),
        (egress(to=["192.0.2.7"], ports=["9-2"]), {}, "nodes.egress[0].ports[0]", "27000-27010"),
        (egress(to=["192.0.2.7"], ports=[True]), {}, "nodes.egress[0].ports[0]", "from 1 to 65535"),
        (egress(to=["192.0.2.7"], protocol="icmp"), {}, "nodes.egress[0].protocol", "'tcp' or 'udp'"),
        ({"nodes": {"ingress": []}}, {}, "nodes.ingress", "no such key"),
        ({"logins": {"port": 65530}}, {}, "logins.port", "less than or equal to 65519"),
        (
            {"logins": {"ingress": [{"from": ["192.0.2.7"]}]}},
            {"controller": {"login_machines": 0}},
            "logins",
            "there are no login machines",
        ),
        (
            {"logins": {"ingress": [{"from": ["192.0.2.7"]}]}},
            {"controller": ssh()},
            "logins",
            "nothing here would hold machines to it",
        ),
    ],
)
def test_a_mistake_is_told_with_its_key_and_the_remedy(
    firewall: Mapping[str, Any], more: Mapping[str, Any], key: str, words: str
) -> None:
    with pytest.raises(SpecError) as raised:
        spec(firewall, **more)
    (found,) = raised.value.mistakes
    assert found.path == f"firewall.{key}"
    assert words in found.message


def test_nodes_of_somebody_elses_hosts_are_told_of() -> None:
    fleet = {
        "name": "old",
        "subnet": "10.80.2.0/24",
        "max_nodes": 4,
        "shape": {"cpus": 1, "memory": "1GiB"},
        "infrastructures": ["local", "nomad"],
    }
    with pytest.raises(SpecError, match=r"fleets\[0\]\.infrastructures\[1\] is nomad, whose hosts"):
        spec(egress(to=["192.0.2.7"]), fleets=[fleet])
    assert spec({}, fleets=[fleet]).flows == ()


def test_nothing_is_let_through_by_default_and_a_spec_is_read_again_as_it_was_written() -> None:
    nothing = spec({})
    assert (nothing.flows, nothing.forwards) == ((), ())
    rules = {"logins": {"ingress": [{"from": ["192.0.2.0/24"]}]}, **egress(to=["192.0.2.7"], ports=[443])}
    assert read_spec(spec(rules).model_dump(mode="json")) == spec(rules)


def test_on_this_machine_the_network_has_the_rules_and_says_nothing_where_there_are_none() -> None:
    rules = {"logins": {"ingress": [{"from": ["192.0.2.0/24"]}]}, **egress(to=["192.0.2.7"], ports=[443])}
    nothing, some = (registered(spec(each))["tidepool:local:Network net"].inputs for each in ({}, rules))
    # As states of before have it, so that nothing changes of stacks that ask for nothing.
    assert nothing == {"stack": "dev", "network": "net", "cidr": str(CLUSTER)}
    assert some == {
        **nothing,
        "egress": [{"sources": [str(NODES)], "to": ["192.0.2.7/32"], "protocol": "tcp", "ports": ["443"]}],
        "ingress": [{"port": 2222, "address": str(LOGIN), "sources": ["192.0.2.0/24"]}],
    }


#: Few of each, so that rules meet each other and packets meet rules.
NETWORKS = ("192.0.2.7", "192.0.2.0/24", "198.51.100.0/25", "198.51.100.9", "0.0.0.0/0")
PORTS = ("443", "440-450", "27000-27010", "27005", "1-65535")
rules_of = st.lists(
    st.fixed_dictionaries(
        {
            "to": st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=3),
            "ports": st.lists(st.sampled_from(PORTS), max_size=3),
            "protocol": st.sampled_from(["tcp", "udp"]),
        }
    ),
    max_size=3,
)
packets = st.tuples(
    st.sampled_from(["192.0.2.7", "192.0.2.8", "198.51.100.9", "203.0.113.5", "169.254.169.254"]).map(
        IPv4Address
    ),
    st.sampled_from(["tcp", "udp"]),
    st.sampled_from([1, 22, 443, 451, 27000, 27010, 27011, 65535]),
)


@runs(300)
@given(st.sampled_from(["nodes", "controller"]), rules_of, packets)
def test_whoever_reads_the_rules_lets_the_same_packets_through(
    part: Literal["nodes", "controller"],
    rules: list[dict[str, Any]],
    packet: tuple[IPv4Address, str, int],
) -> None:
    address, protocol, port = packet
    firewall = Firewall.model_validate({part: {"egress": rules}})
    said = firewall.nodes.egress or firewall.controller.egress
    meant = address not in LINK_LOCAL and any(
        any(address in network for network in rule.to)
        and rule.protocol == protocol
        and (not rule.ports or any(_holds(ports, port) for ports in rule.ports))
        for rule in said
    )
    found = flows(firewall, [NODES], [LOGIN], [CONTROLLER])
    assert {each.sources for each in found} <= {(str(NODES if part == "nodes" else IPv4Network(CONTROLLER)),)}
    assert meant == (address not in LINK_LOCAL and any(_by_flow(each, packet) for each in found))
    assert meant == _by_policy(firewall_policies("dev", firewall, (), ("ctl",)).get(part, {}), packet)
    groups = Groups(CLUSTER, SiteOptions(region="eu-central-1"), firewall)
    assert meant == any(
        _by_group(each, "node" if part == "nodes" else "controller", packet) for each in groups.rules()
    )
    # Answers of an sshd are no such packets.
    definition = filter_xml("dev", "nodes" if part == "nodes" else "own", CLUSTER, firewall, mounts=False)
    assert meant == _by_filter(ET.fromstring(definition), packet)


@runs(30)
@given(rules_of, st.lists(st.sampled_from(NETWORKS), max_size=4))
def test_nftables_takes_whatever_can_be_written(rules: list[dict[str, Any]], sources: list[str]) -> None:
    ingress = [{"from": sources}] if sources else []
    said = {"logins": {"ingress": ingress, "egress": rules}, "nodes": {"egress": rules}}
    firewall = Firewall.model_validate(said)
    found = Rules(flows(firewall, [NODES], [LOGIN]), forwards(firewall, [LOGIN]))
    link = Link("tidepool-0f3a6b1c-physics-net", "tide0f3a6b1c", "169.254.64.0", "169.254.64.1")
    text = switch_ruleset(found) + host_ruleset(found, link)
    command = ["unshare", "--net", "nft", "--check", "--file", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{text}"


def _holds(ports: str, port: int) -> bool:
    first, last = port_range(ports)
    return first <= port <= last


def _by_flow(flow: Any, packet: tuple[IPv4Address, str, int]) -> bool:
    address, protocol, port = packet
    return (
        any(address in IPv4Network(to) for to in flow.to)
        and flow.protocol == protocol
        and (not flow.ports or any(_holds(ports, port) for ports in flow.ports))
    )


def _by_group(rule: Rule, part: str, packet: tuple[IPv4Address, str, int]) -> bool:
    """As AWS means it, which lets nobody keep machines from 169.254.0.0/16."""
    address, protocol, port = packet
    if (rule.part, rule.way) != (part, "to") or isinstance(rule.other, str) or address in LINK_LOCAL:
        return False
    first, last = rule.ports or (0, 65535)
    return address in rule.other and (not rule.ports or rule.protocol == protocol) and first <= port <= last


def _by_policy(policy: Mapping[str, Any], packet: tuple[IPv4Address, str, int]) -> bool:
    """As Kubernetes means it: what one rule of one policy allows."""
    address, protocol, port = packet
    rules: Iterable[Mapping[str, Any]] = policy.get("egress", ())
    return any(
        any(
            address in IPv4Network(block["ipBlock"]["cidr"])
            and not any(address in IPv4Network(each) for each in block["ipBlock"].get("except", ()))
            for block in rule["to"]
        )
        and any(
            each["protocol"].lower() == protocol and each["port"] <= port <= each.get("endPort", each["port"])
            for each in rule["ports"]
        )
        for rule in rules
    )


def _by_filter(root: ET.Element, packet: tuple[IPv4Address, str, int]) -> bool:
    """As libvirt means it: what the first rule that fits says."""
    address, protocol, port = packet
    for rule in sorted(root.iterfind("rule"), key=lambda each: int(each.get("priority", ""))):
        told = rule.find("ip")
        if rule.get("direction") != "out" or rule.find("arp") is not None:
            continue
        if told is None:
            return rule.get("action") == "accept"
        network = IPv4Network((told.get("dstipaddr", "0.0.0.0"), int(told.get("dstipmask", "0"))))
        first, last = int(told.get("dstportstart", "0")), int(told.get("dstportend", "65535"))
        fits = address in network and told.get("protocol", protocol) == protocol and first <= port <= last
        if fits and told.get("srcportstart") is None:
            return rule.get("action") == "accept"
    return True

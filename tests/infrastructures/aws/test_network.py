"""The network of a cluster at AWS: its own VPC or a given one, ways out and in, and who speaks to whom."""

from __future__ import annotations

from tests.infrastructures.aws.graph import (
    ARRIVES,
    ENDPOINT,
    GROUP,
    INSTANCE,
    LEAVES,
    REGION,
    ROUTE,
    SUBNET,
    VPC,
    of_aws,
    registered,
)
from tests.infrastructures.aws.specs import GIVEN, OTHER_ZONE, RULES, ZONE, mapping, spec
from tests.infrastructures.aws.specs import REGION as REGION_NAME
from tidepool.cluster.spec import ClusterSpec


def test_a_vpc_of_the_stacks_own_has_a_subnet_for_each_zone_and_no_way_out() -> None:
    graph = registered(spec())
    assert graph[f"{VPC} vpc"].inputs["cidrBlock"] == "172.30.0.0/16"
    assert {name: each.inputs["cidrBlock"] for name, each in graph.of_type(SUBNET).items()} == {
        ZONE: "172.30.0.0/20",
        OTHER_ZONE: "172.30.16.0/20",
    }
    assert not {each.type for each in of_aws(graph).values()} & {
        "aws:ec2/internetGateway:InternetGateway",
        "aws:ec2/natGateway:NatGateway",
    }
    endpoint = graph[f"{ENDPOINT} secrets"].inputs
    assert endpoint["serviceName"] == "com.amazonaws.eu-central-1.secretsmanager"
    assert endpoint["privateDnsEnabled"] is True
    assert endpoint["securityGroupIds"] == ["endpoints-id"]


def test_another_zone_moves_no_subnet() -> None:
    one, two = registered(spec(zones=[OTHER_ZONE])), registered(spec(zones=[ZONE, OTHER_ZONE]))
    name = f"{SUBNET} {OTHER_ZONE}"
    assert one[name].inputs == two[name].inputs


def test_a_way_out_is_a_nat_gateway_and_rules_say_who_may_use_it() -> None:
    graph = registered(spec(outside=True, firewall=RULES))
    gateway = graph["aws:ec2/natGateway:NatGateway outside"]
    assert gateway.depends_on >= {f"{ROUTE} internet"}
    assert graph[f"{ROUTE} outside"].inputs["natGatewayId"] == "outside-id"
    # No machine has an address that the world knows.
    assert "mapPublicIpOnLaunch" not in graph[f"{SUBNET} {ZONE}"].inputs
    beyond = {
        name: {key: each.inputs[key] for key in ("cidrIpv4", "ipProtocol", "fromPort", "toPort")}
        for name, each in graph.of_type(LEAVES).items()
        if each.inputs.get("cidrIpv4", "10.77.0.0/16") != "10.77.0.0/16"
    }
    assert beyond == {
        "node-to-198.51.100.7-32-tcp-27000-27010": {
            "cidrIpv4": "198.51.100.7/32",
            "ipProtocol": "tcp",
            "fromPort": 27000,
            "toPort": 27010,
        },
        "node-to-0.0.0.0-0-tcp-443-443": {
            "cidrIpv4": "0.0.0.0/0",
            "ipProtocol": "tcp",
            "fromPort": 443,
            "toPort": 443,
        },
    }
    # In another order they are the same.
    turned = {"nodes": {"egress": RULES["nodes"]["egress"][::-1]}}
    other = registered(spec(outside=True, firewall=turned)).of_type(LEAVES)
    assert {name: each.inputs for name, each in graph.of_type(LEAVES).items()} == {
        name: each.inputs for name, each in other.items()
    }


def test_who_logs_in_comes_by_a_transit_gateway_and_to_login_machines_alone() -> None:
    rules = {"logins": {"ingress": [{"from": ["198.51.100.0/24"]}]}}
    graph = registered(spec(transit_gateway="tgw-0a", firewall=rules))
    assert graph[f"{ROUTE} to-198.51.100.0-24"].inputs["transitGatewayId"] == "tgw-0a"
    arrives = {
        name: each.inputs["securityGroupId"]
        for name, each in graph.of_type(ARRIVES).items()
        if each.inputs.get("cidrIpv4") == "198.51.100.0/24"
    }
    assert arrives == {"login-from-198.51.100.0-24-tcp-22-22": "login-id"}


def test_of_a_vpc_that_is_given_machines_reach_what_they_boot_by() -> None:
    group = "sg-0a"
    for given, where, secrets in (
        (GIVEN, "0.0.0.0-0", {"cidrIpv4": "0.0.0.0/0"}),
        ({**GIVEN, "endpoint_group": group}, group, {"referencedSecurityGroupId": group}),
    ):
        leaves = registered(spec(given=given, home="nas:/home")).of_type(LEAVES)
        told = leaves[f"node-to-{where}-tcp-443-443"].inputs
        assert {**told, **secrets, "fromPort": 443, "toPort": 443, "ipProtocol": "tcp"} == told
        anywhere = {name for name, each in leaves.items() if each.inputs.get("cidrIpv4") == "0.0.0.0/0"}
        ports = {int(name.rpartition("-")[2]) for name in anywhere if name.startswith("node-")}
        assert ports == ({443, 2049} if given is GIVEN else {2049})


def test_what_several_ask_for_is_one_rule_and_one_route() -> None:
    """AWS answers the second with InvalidPermission.Duplicate, or RouteAlreadyExists, in the middle of an `up`."""
    site = "192.168.7.0/24"
    rules = {
        "logins": {"ingress": [{"from": [site]}]},
        "nodes": {"egress": [{"to": ["0.0.0.0/0"], "ports": [443, 2049]}]},
    }
    own = registered(
        spec(outside=True, administrators=[site, site], transit_gateway="tgw-0a", firewall=rules)
    )
    given = registered(spec(given=GIVEN, home="nas:/home", administrators=[site], firewall=rules))
    for graph in (own, given):
        for kind in (ARRIVES, LEAVES):
            told = [
                tuple(
                    each.inputs.get(key)
                    for key in ("securityGroupId", "ipProtocol", "fromPort", "toPort", "cidrIpv4", "referencedSecurityGroupId")
                )
                for each in graph.of_type(kind).values()
            ]  # fmt: skip
            assert len(set(told)) == len(told)
        ways = [
            (each.inputs["routeTableId"], each.inputs["destinationCidrBlock"])
            for each in graph.of_type(ROUTE).values()
        ]
        assert len(set(ways)) == len(ways)


def test_parts_of_a_cluster_speak_to_each_other_alone() -> None:
    graph = registered(spec(administrators=["192.168.7.0/24"], transit_gateway="tgw-0a"))
    assert set(graph.of_type(GROUP)) == {"controller", "accounting", "login", "node", "files", "endpoints"}
    arrives, leaves = graph.of_type(ARRIVES), graph.of_type(LEAVES)
    from_outside = {name: each for name, each in arrives.items() if "cidrIpv4" in each.inputs}
    assert {each.inputs["cidrIpv4"] for each in from_outside.values()} == {"192.168.7.0/24"}
    assert {each.inputs["fromPort"] for each in from_outside.values()} == {22}
    assert {each.inputs["cidrIpv4"] for each in leaves.values() if "cidrIpv4" in each.inputs} == {
        "10.77.0.0/16"
    }
    slurmctld = arrives["controller-from-node-tcp-6817-6817"].inputs
    assert (slurmctld["securityGroupId"], slurmctld["referencedSecurityGroupId"]) == (
        "controller-id",
        "node-id",
    )
    # EFA lets nothing through but to its own group, both ways.
    for rule in (arrives["node-from-node-all"], leaves["node-to-node-all"]):
        assert (rule.inputs["ipProtocol"], rule.inputs["referencedSecurityGroupId"]) == ("-1", "node-id")
    assert "accounting-from-node-tcp-6819-6819" not in arrives


def test_nodes_of_a_cluster_that_is_elsewhere_let_in_what_comes_from_its_network() -> None:
    """As in the first example of docs/scaling.md: here first, then at AWS."""
    described = mapping(controller={"infrastructure": {"name": "local"}})
    described["infrastructures"] = {"aws": {"region": REGION_NAME, "zones": [ZONE]}}
    described["fleets"][0]["infrastructures"].insert(0, {"name": "local"})
    graph = registered(
        ClusterSpec.model_validate(described), places={"cpu": {"cpu-1": "local", "cpu-2": "aws"}}
    )
    assert set(graph.of_type(INSTANCE)) == {"cpu-2"}
    arrives = {name: each.inputs for name, each in graph.of_type(ARRIVES).items()}
    from_network = {name: each for name, each in arrives.items() if "cidrIpv4" in each}
    assert {each["cidrIpv4"] for each in from_network.values()} == {"10.77.0.0/16"}
    assert {
        name: (
            each["securityGroupId"],
            each["ipProtocol"],
            each["fromPort"],
            each["toPort"],
            each["description"],
        )
        for name, each in from_network.items()
    } == {
        "node-from-10.77.0.0-16-tcp-6818-6818": ("node-id", "tcp", 6818, 6818, "slurmd"),
        "node-from-10.77.0.0-16-tcp-22-22": ("node-id", "tcp", 22, 22, "SSH"),
        "node-from-10.77.0.0-16-tcp-1024-65535": ("node-id", "tcp", 1024, 65535, "srun"),
    }
    # Nodes answer and ask there: the way out is to the whole network.
    assert graph.of_type(LEAVES)["node-to-10.77.0.0-16-all"].inputs["cidrIpv4"] == "10.77.0.0/16"
    # Where the cluster's own machines are at AWS, their groups are named, and no address is.
    assert not [name for name in registered(spec()).of_type(ARRIVES) if "from-10.77" in name]


def test_administrators_come_by_a_transit_gateway() -> None:
    graph = registered(spec(administrators=["192.168.7.0/24"], transit_gateway="tgw-0a"))
    attachment = "aws:ec2transitgateway/vpcAttachment:VpcAttachment administrators"
    assert graph[attachment].inputs["subnetIds"] == [f"{ZONE}-id", f"{OTHER_ZONE}-id"]
    route = graph[f"{ROUTE} to-192.168.7.0-24"]
    assert (route.inputs["destinationCidrBlock"], route.inputs["transitGatewayId"]) == (
        "192.168.7.0/24",
        "tgw-0a",
    )
    assert attachment in route.depends_on


def test_in_a_given_vpc_there_are_groups_and_routes_and_no_network() -> None:
    graph = registered(spec(given=GIVEN))
    made = {each.type for each in of_aws(graph).values()}
    assert not made & {VPC, SUBNET, ENDPOINT, "aws:ec2/routeTable:RouteTable"}
    assert {each.inputs["vpcId"] for each in graph.of_type(GROUP).values()} == {"vpc-0123"}
    assert graph[f"{INSTANCE} cpu-1"].inputs["subnetId"] == "subnet-0a"
    assert graph[f"{ROUTE} cpu-1"].inputs["routeTableId"] == "rtb-0a"
    asked = graph[f"{REGION} aws"].inputs["demands"]
    assert (asked["vpc"], asked["subnets"]) == ("vpc-0123", GIVEN["subnets"])

"""Tightly coupled fleets at AWS: placement groups, and adapters of EFA, one or several."""

from __future__ import annotations

from tests.infrastructures.aws.graph import (
    FLEET,
    FORWARDING,
    INSTANCE,
    MACHINE,
    PLACEMENT,
    REGION,
    ROUTE,
    TEMPLATE,
    of_aws,
    plain,
    registered,
)
from tests.infrastructures.aws.specs import COUPLED, ZONE, spec

SEVERAL = {**COUPLED, "efa": 4}


def test_a_tightly_coupled_fleet_is_in_a_placement_group_with_an_adapter_each() -> None:
    graph = registered(spec(COUPLED))
    assert graph[f"{PLACEMENT} mpi"].inputs == {
        "name": "tidepool-dev-mpi",
        "strategy": "cluster",
        "tags": {"tidepool:stack": "dev"},
    }
    template = graph[f"{TEMPLATE} cpu"].inputs
    assert template["placement"] == {"groupName": "tidepool-dev-mpi"}
    assert template["networkInterfaces"] == [
        {
            "deviceIndex": 0,
            "interfaceType": "efa",
            "subnetId": f"{ZONE}-id",
            "securityGroups": ["node-id"],
            "deleteOnTermination": "true",
            "associatePublicIpAddress": "false",
        }
    ]
    # EC2 takes the network from one of them.
    assert "vpcSecurityGroupIds" not in template
    assert "subnetId" not in graph[f"{INSTANCE} cpu-1"].inputs
    assert "placement" not in graph[f"{TEMPLATE} ctl"].inputs


def test_several_adapters_are_one_on_each_network_card_and_the_first_alone_has_an_address() -> None:
    interfaces = registered(spec(SEVERAL))[f"{TEMPLATE} cpu"].inputs["networkInterfaces"]
    placed = [
        (each.get("networkCardIndex", 0), each["deviceIndex"], each["interfaceType"]) for each in interfaces
    ]
    assert placed == [(0, 0, "efa"), (1, 1, "efa-only"), (2, 1, "efa-only"), (3, 1, "efa-only")]
    # An adapter speaks to its own group; and the zone is one.
    assert {tuple(each["securityGroups"]) for each in interfaces} == {("node-id",)}
    assert {each["subnetId"] for each in interfaces} == {f"{ZONE}-id"}
    assert all(each["deleteOnTermination"] == "true" for each in interfaces)
    # EC2 refuses it beside several interfaces.
    assert not [each for each in interfaces if "associatePublicIpAddress" in each]


def test_of_several_interfaces_the_one_with_the_address_is_told_to_forward_before_a_machine_answers() -> None:
    graph = registered(spec(SEVERAL))
    forwarding = graph[f"{FORWARDING} cpu-1"]
    assert forwarding.inputs == {"region": "eu-central-1", "interface": "eni-cpu-1"}
    assert forwarding.parent == FLEET
    assert forwarding.by_input["interface"] == {f"{INSTANCE} cpu-1"}
    assert graph[f"{MACHINE} cpu-1"].depends_on >= {f"{FORWARDING} cpu-1", f"{ROUTE} cpu-1"}
    instance = graph[f"{INSTANCE} cpu-1"]
    # By the instance EC2 takes it no more, and a refresh finds what is not the plugin's.
    assert "sourceDestCheck" not in instance.inputs
    assert "sourceDestCheck" in instance.ignore_changes
    assert set(graph.of_type(FORWARDING)) == {"cpu-1", "cpu-2"}


def test_machines_without_an_adapter_need_no_resource_for_it() -> None:
    graph = registered(spec())
    assert not graph.of_type(FORWARDING)
    assert graph[f"{INSTANCE} cpu-1"].inputs["sourceDestCheck"] is False
    assert "sourceDestCheck" not in graph[f"{INSTANCE} cpu-1"].ignore_changes


def test_another_number_of_adapters_is_a_new_version_of_the_template_and_no_machine_is_touched() -> None:
    before, after = registered(spec(SEVERAL)), registered(spec(COUPLED))
    assert set(before.resources) == set(after.resources)
    changed = {name for name in of_aws(before) if plain(before, name) != plain(after, name)}
    assert changed == {f"{TEMPLATE} cpu"}
    assert [
        each["efa"] for each in before[f"{REGION} aws"].inputs["demands"]["demands"] if "efa" in each
    ] == [4]

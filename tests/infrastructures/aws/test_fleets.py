"""Machines of fleets at AWS: instances, addresses, markets, adapters, and what a change comes to."""

from __future__ import annotations

import json

from tests.infrastructures.aws.graph import (
    ACCESS,
    AMI,
    INSTANCE,
    MACHINE,
    POLICY,
    PROFILE,
    ROUTE,
    TEMPLATE,
    VERSION,
    changed,
    connection,
    registered,
    told,
)
from tests.infrastructures.aws.specs import COUPLED, OTHER_ZONE, ZONE, mapping, spec
from tidepool.cluster.spec import ClusterSpec


def test_a_machine_is_an_instance_with_its_key_in_tags_and_little_else() -> None:
    instance = registered(spec())[f"{INSTANCE} cpu-2"]
    assert instance.inputs == {
        "ami": "debian-12-cloud-id",
        "instanceType": "c7i.2xlarge",
        "launchTemplate": {"id": "cpu-id", "version": "$Default"},
        "subnetId": f"{ZONE}-id",
        "sourceDestCheck": False,
        # Nobody else ends it by mistake; this stack may.
        "disableApiTermination": True,
        "forceDestroy": True,
        "tags": {
            "Name": "dev-cpu-2",
            "tidepool:stack": "dev",
            "tidepool:fleet": "cpu",
            "tidepool:node": "cpu-2",
            "tidepool:generation": "1",
            "tidepool:address": "10.77.10.2",
        },
    }
    # At ten thousand of them, each byte is one too many.
    assert len(json.dumps(instance.inputs)) < 512


def test_a_machine_keeps_its_address_wherever_it_is_by_a_route_to_it() -> None:
    graph = registered(spec())
    route = graph[f"{ROUTE} cpu-2"]
    assert route.inputs == {
        "routeTableId": "machines-id",
        "destinationCidrBlock": "10.77.10.2/32",
        "networkInterfaceId": "eni-cpu-2",
    }
    assert route.by_input["networkInterfaceId"] == {f"{INSTANCE} cpu-2"}
    # Only then it can answer.
    answers = graph[f"{MACHINE} cpu-2"]
    assert f"{ROUTE} cpu-2" in answers.depends_on
    assert answers.by_input["machine"] == {f"{INSTANCE} cpu-2"}
    assert answers.by_input["access"] == {f"{ACCESS} ssh@machines"}
    assert graph["tidepool:slurm:Node cpu-2"].inputs["machine"] == connection("10.77.10.2")


def test_a_machine_comes_after_all_that_it_reads_and_waits_for_no_other() -> None:
    graph = registered(spec())
    instance = graph[f"{INSTANCE} cpu-1"]
    assert instance.by_input["launchTemplate"] == {f"{TEMPLATE} cpu"}
    assert instance.by_input["ami"] == {f"{AMI} debian-12-cloud"}
    assert {f"{VERSION} cpu", f"{POLICY} cpu", f"{PROFILE} cpu"} <= graph[f"{TEMPLATE} cpu"].depends_on
    assert instance.replace_with == {"tidepool:slurm:Slots cpu"}
    others = {name for name in instance.depends_on if name.startswith(INSTANCE)}
    assert not others - {f"{INSTANCE} ctl", f"{INSTANCE} login-1"}
    # Another type or zone is another machine, and the old one goes first: it has the name.
    assert instance.replace_on_changes == {"instanceType", "subnetId"}
    assert instance.delete_before_replace


def test_another_shape_changes_the_slots_and_no_template() -> None:
    larger = mapping()
    larger["fleets"][0]["shape"]["memory"] = "8GiB"
    assert changed(spec(), ClusterSpec.model_validate(larger)) == set()
    # The machines go with them.
    assert registered(spec())[f"{INSTANCE} cpu-1"].replace_with == {"tidepool:slurm:Slots cpu"}


def test_another_type_changes_the_machines_of_one_fleet() -> None:
    names = changed(spec(), spec({"instance_type": "c7i.4xlarge"}))
    assert names == {f"{TEMPLATE} cpu", f"{INSTANCE} cpu-1", f"{INSTANCE} cpu-2"}


def test_another_version_of_a_launch_template_touches_no_machine_that_runs() -> None:
    """The plugin reads `$Default` back as a number when it is the default no more, and makes another machine for that."""
    assert changed(spec(), spec({"disk": "32GiB"})) == {f"{TEMPLATE} cpu"}
    for described in (spec(), spec(COUPLED)):
        for name, instance in registered(described).of_type(INSTANCE).items():
            assert instance.inputs["launchTemplate"]["version"] == "$Default", name
            assert "launchTemplate.version" in instance.ignore_changes, name


def test_a_fleet_in_another_zone_has_its_machines_there() -> None:
    graph = registered(spec({"zone": OTHER_ZONE}))
    assert graph[f"{INSTANCE} cpu-1"].inputs["subnetId"] == f"{OTHER_ZONE}-id"
    assert graph[f"{INSTANCE} ctl"].inputs["subnetId"] == f"{ZONE}-id"


def test_spot_machines_are_asked_for_once_and_watch_for_their_end() -> None:
    graph = registered(spec({"market": "spot", "max_price_usd_per_hour": 0.25}))
    assert graph[f"{TEMPLATE} cpu"].inputs["instanceMarketOptions"] == {
        "marketType": "spot",
        "spotOptions": {
            "spotInstanceType": "one-time",
            "instanceInterruptionBehavior": "terminate",
            "maxPrice": "0.25",
        },
    }
    assert "/usr/local/lib/tidepool/spot" in {file["path"] for file in told(graph, "cpu")["write_files"]}
    assert "tidepool-spot.service" in json.dumps(told(graph, "cpu"))
    on_demand = registered(spec())
    assert "instanceMarketOptions" not in on_demand[f"{TEMPLATE} cpu"].inputs
    assert "tidepool-spot.service" not in json.dumps(told(on_demand, "cpu"))
    assert "tidepool-spot.service" not in json.dumps(told(graph, "ctl"))


def test_a_fleet_moves_on_over_types_zones_and_markets_by_its_entries() -> None:
    described = mapping()
    described["fleets"][0]["infrastructures"] = [
        {"name": "aws", "offering": "spot", "options": {"instance_type": "c7i.2xlarge", "market": "spot"}},
        {"name": "aws", "offering": "other", "options": {"instance_type": "c6i.2xlarge", "zone": OTHER_ZONE}},
    ]
    places = {"cpu": {"cpu-1": "aws/spot", "cpu-2": "aws/other"}}
    graph = registered(ClusterSpec.model_validate(described), places=places)
    assert {"cpu.spot", "cpu.other"} <= set(graph.of_type(TEMPLATE))
    one, two = (graph[f"{INSTANCE} cpu-{number}"].inputs for number in (1, 2))
    assert (one["instanceType"], one["subnetId"]) == ("c7i.2xlarge", f"{ZONE}-id")
    assert (two["instanceType"], two["subnetId"]) == ("c6i.2xlarge", f"{OTHER_ZONE}-id")
    assert one["launchTemplate"]["id"] == "cpu.spot-id"
    # Wherever it is, it has its address, and is of the same part of the cluster.
    assert graph[f"{ROUTE} cpu-2"].inputs["destinationCidrBlock"] == "10.77.10.2/32"
    assert graph[f"{TEMPLATE} cpu.other"].inputs["vpcSecurityGroupIds"] == ["node-id"]

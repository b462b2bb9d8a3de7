"""A fleet over several infrastructures, as a user's program registers it: each node where it is decided, and there for ever."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from tests.cluster.specs import with_fleet
from tests.components.spanning import registered
from tests.components.stack import spec_with
from tidepool.cluster.spec import ClusterSpec

LOCAL, AWS = "tidepool:local:Machine", "aws:index:Machine"
SPOT = {"name": "aws", "offering": "spot", "options": {"instance_type": "c7i.large"}, "image": "cloud"}
DEAR = {"name": "aws", "options": {"instance_type": "c7i.metal"}}


def only_cpu(*infrastructures: Any) -> ClusterSpec:
    mapping = with_fleet(0, infrastructures=list(infrastructures))
    return spec_with(**mapping | {"fleets": mapping["fleets"][:1], "partitions": [{"name": "main"}]})


THREE = only_cpu({"name": "local", "max_nodes": 2}, SPOT, DEAR)


def test_nodes_are_on_the_first_that_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = registered(only_cpu({"name": "local", "max_nodes": 2}, "aws"), {"cpu": "cpu-[1-3]"}, monkeypatch)
    assert set(graph.of_type(LOCAL)) == {"ctl", "login-1", "cpu-1", "cpu-2"}
    assert set(graph.of_type(AWS)) == {"cpu-3"}


def test_a_node_stays_where_it_was_made_whatever_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"cpu": {"cpu-1": "aws", "cpu-2": "aws/spot", "cpu-3": "local"}}
    graph = registered(THREE, {"cpu": "cpu-[1-4]"}, monkeypatch, places)
    assert {name for name in graph.of_type(LOCAL) if name.startswith("cpu")} == {"cpu-3", "cpu-4"}
    machines = graph.of_type(AWS)
    assert {name: each.inputs["options"] for name, each in machines.items()} == {
        "cpu-1": "c7i.metal",
        "cpu-2": "c7i.large",
    }


def test_each_infrastructure_has_its_network_its_images_and_a_boot_for_each_offering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = registered(THREE, {}, monkeypatch)
    assert set(graph.of_type("aws:index:Network")) == set(graph.of_type("tidepool:local:Network")) == {"net"}
    assert set(graph.of_type("aws:index:Image")) == {"cloud", "debian-12"}
    assert set(graph.of_type("aws:index:Boot")) == {"cpu", "cpu.spot"}
    boots = {name for name in graph.of_type("tidepool:local:Boot") if name == "cpu"}
    assert boots == {"cpu"}
    image = graph["tidepool:image:Image debian-12"]
    assert image.inputs["forms"] == ["aws"], "made once, in the forms that are needed"
    assert len(graph.of_type("tidepool:slurm:Slots")) == 1, "to Slurm it is one fleet"


def test_a_machine_has_the_network_the_image_the_boot_and_the_home_of_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {"cpu": {"cpu-1": "local", "cpu-2": "aws/spot", "cpu-3": "aws"}}
    graph = registered(THREE, {"cpu": "cpu-[1-3]"}, monkeypatch, places)
    spot, dear = graph[f"{AWS} cpu-2"].inputs, graph[f"{AWS} cpu-3"].inputs
    assert (spot["network"], spot["image"], spot["boot"]) == ("aws-net", "aws-cloud", "aws-cpu.spot")
    assert (dear["network"], dear["image"], dear["boot"]) == ("aws-net", "aws-debian-12", "aws-cpu")
    assert (spot["address"], dear["address"]) == ("10.77.10.2", "10.77.10.3")
    assert graph["aws:index:Boot cpu"].inputs["mounts"] == ["aws-home"]
    local = graph["tidepool:local:Boot cpu"].inputs["mounts"]
    assert [mount["source"] for mount in local] == ["/volumes/home"]
    assert graph[f"{LOCAL} cpu-1"].inputs["boot"] != spot["boot"]


def test_every_node_is_a_member_by_its_machine_and_waits_for_the_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = registered(THREE, {"cpu": "cpu-[1-3]"}, monkeypatch)
    slots = "tidepool:slurm:Slots cpu"
    for machine in (f"{LOCAL} cpu-1", f"{AWS} cpu-3"):
        each = graph[machine]
        assert each.parent == "tidepool:components:ComputeFleet cpu"
        assert slots in each.depends_on
        assert each.replace_with == {slots}
    node = graph["tidepool:slurm:Node cpu-3"]
    assert node.inputs["machine"] == {"kind": "aws", "machine": "cpu-3"}
    assert f"{AWS} cpu-3" in node.depends_on


def test_secrets_of_a_boot_stay_secret_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = registered(THREE, {}, monkeypatch)
    for boot in ("aws:index:Boot cpu", "aws:index:Boot cpu.spot", "tidepool:local:Boot cpu"):
        assert "files" in graph[boot].secrets


def test_a_node_of_an_infrastructure_that_was_taken_away_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {"cpu": {"cpu-1": "aws/spot", "cpu-2": "local"}}
    with pytest.raises(
        pulumi.RunError,
        match=r"cpu-1 of fleet cpu is on aws/spot, and .* local, aws: .*last and with max_nodes: 0",
    ):
        registered(only_cpu("local", "aws"), {"cpu": "cpu-[1-2]"}, monkeypatch, places)


def test_more_nodes_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    few = only_cpu({"name": "local", "max_nodes": 1}, {"name": "aws", "max_nodes": 1})
    with pytest.raises(pulumi.RunError, match=r"no room for cpu-3 on any infrastructure of fleet cpu: raise"):
        registered(few, {"cpu": "cpu-[1-3]"}, monkeypatch)


def test_the_order_of_the_list_moves_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"cpu": {"cpu-1": "local", "cpu-2": "aws"}}
    for spec in (only_cpu("local", "aws"), only_cpu("aws", "local")):
        graph = registered(spec, {"cpu": "cpu-[1-2]"}, monkeypatch, places)
        assert "cpu-1" in graph.of_type(LOCAL)
        assert set(graph.of_type(AWS)) == {"cpu-2"}

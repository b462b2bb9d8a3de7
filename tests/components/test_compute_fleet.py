"""What ComputeFleet and GoldenImage register: a machine and a membership for each node, by name."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest

from tests.cluster.specs import of_release, with_fleet
from tests.components.stack import connection, registered, spec_with
from tidepool.cluster.spec import ClusterSpec

COMPONENT = "tidepool:components:ComputeFleet cpu"
BOOT, MACHINE = "tidepool:local:Boot", "tidepool:local:Machine"
NODE, SLOTS = "tidepool:slurm:Node", "tidepool:slurm:Slots"


def changed(spec: ClusterSpec, other: ClusterSpec) -> set[str]:
    """What an `up` from one to the other would look at again, beside slurm.conf."""
    before, after = registered(spec), registered(other)
    assert set(before.resources) == set(after.resources)
    found = {name for name in before.resources if before[name].inputs != after[name].inputs}
    return found - {"tidepool:slurm:Configuration physics"}


def with_cpu(**changes: object) -> ClusterSpec:
    return ClusterSpec.model_validate(with_fleet(0, **changes))


def test_a_fleet_is_a_boot_slots_and_two_resources_for_each_node() -> None:
    graph = registered(spec_with())
    assert {name for name, parent in graph.children.items() if parent == COMPONENT} == {
        f"{BOOT} cpu",
        f"{SLOTS} cpu",
        f"{MACHINE} cpu-1",
        f"{MACHINE} cpu-2",
        f"{NODE} cpu-1",
        f"{NODE} cpu-2",
    }
    assert graph.outputs[COMPONENT] == {"nodes": "cpu-[1-2]"}


def test_urns_are_what_they_were() -> None:
    """Another name or type here is a new node for everybody who has one: give it an alias."""
    graph = registered(spec_with())
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet"
    assert graph[COMPONENT].urn == f"{above}::cpu"
    assert graph[f"{MACHINE} cpu-1"].urn == f"{above}$tidepool:local:Machine::cpu-1"
    assert graph[f"{NODE} cpu-1"].urn == f"{above}$tidepool:slurm:Node::cpu-1"
    assert graph[f"{SLOTS} cpu"].urn == f"{above}$tidepool:slurm:Slots::cpu"
    assert graph[f"{BOOT} cpu"].urn == f"{above}$tidepool:local:Boot::cpu"


def test_a_node_goes_before_its_machine_and_the_machine_comes_after_its_slot() -> None:
    graph = registered(spec_with())
    assert f"{SLOTS} cpu" in graph[f"{MACHINE} cpu-1"].depends_on
    assert graph[f"{MACHINE} cpu-1"].replace_with == {f"{SLOTS} cpu"}
    assert graph[f"{NODE} cpu-1"].by_input == {
        "controller": {f"{MACHINE} ctl"},
        "machine": {f"{MACHINE} cpu-1"},
        "slots": {f"{SLOTS} cpu"},
    }
    assert "tidepool:slurm:Configuration physics" in graph[f"{SLOTS} cpu"].depends_on
    # Nodes wait for no other node, so that one which does not come holds nobody back.
    for name in ("cpu-1", "cpu-2"):
        others = {f"{kind} {other}" for kind in (MACHINE, NODE) for other in {"cpu-1", "cpu-2"} - {name}}
        assert not graph[f"{NODE} {name}"].depends_on & others


def test_a_machine_and_a_node_name_what_they_need_and_hold_none_of_it() -> None:
    graph = registered(spec_with())
    machine, node = graph[f"{MACHINE} cpu-2"], graph[f"{NODE} cpu-2"]
    assert {key: machine.inputs[key] for key in ("machine", "address", "mac", "boot", "memoryMib")} == {
        "machine": "cpu-2",
        "address": "10.77.10.2",
        "mac": "02:74:0a:4d:0a:02",
        "boot": "cpu",
        "memoryMib": 4096,
    }
    assert node.inputs == {
        "controller": connection("ctl"),
        "node": "cpu-2",
        "machine": connection("cpu-2"),
        "slots": "cpu-id",
    }
    assert not machine.secrets | node.secrets
    assert len(str(machine.inputs)) + len(str(node.inputs)) < 1024


def test_slots_are_all_that_the_fleet_may_have() -> None:
    slots = registered(spec_with())[f"{SLOTS} gpu"].inputs
    assert slots["names"] == "gpu-[1-300]"
    assert slots["addresses"] == "10.77.12.[1-255],10.77.13.[0-44]"
    assert (slots["cpus"], slots["sockets"], slots["coresPerSocket"], slots["threadsPerCore"]) == (8, 2, 4, 1)
    assert (slots["features"], slots["gres"]) == (["gpu"], "gpu:a100:2,lic:3")


def test_a_node_has_the_device_files_of_its_gres() -> None:
    boot = registered(spec_with())[f"{BOOT} gpu"].inputs
    # By their numbers Slurm tells them apart.
    assert boot["devices"] == [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidia1", "minor": 1}]
    assert [each["name"] for each in boot["services"]] == ["munged", "slurmd", "node-access", "sshd"]


@pytest.mark.parametrize(
    ("fleet", "said", "capabilities"),
    [
        ("gpu", {}, ["sys_ptrace", "sys_admin"]),
        ("cpu", {}, ["sys_ptrace"]),
        ("gpu", {"process_tracking": "linuxproc"}, ["sys_ptrace"]),
    ],
)
def test_slurmd_may_close_devices_where_jobs_are_confined(
    fleet: str, said: dict[str, str], capabilities: list[str]
) -> None:
    slurmd = registered(spec_with(**said))[f"{BOOT} {fleet}"].inputs["services"][1]
    assert slurmd["capabilities"] == capabilities


@pytest.mark.parametrize(("controller", "asked"), [({}, "ctl"), ({"backup": True}, "ctl,ctlbackup")])
def test_slurmd_asks_all_controllers(controller: dict[str, bool], asked: str) -> None:
    slurmd = registered(spec_with(controller=controller))[f"{BOOT} cpu"].inputs["services"][1]
    assert slurmd["argv"][slurmd["argv"].index("--conf-server") + 1] == asked


def test_a_hook_comes_before_slurmd_and_is_root_s() -> None:
    boot = registered(spec_with(first_boot="#!/bin/sh\ntrue\n"))[f"{BOOT} cpu"].inputs
    hook = boot["services"][0]
    assert (hook["name"], hook["once"], hook["readyTimeoutS"]) == ("first-boot", True, 0)
    file = boot["files"]["/etc/tidepool/first-boot"]
    assert (file["content"], file["mode"]) == ("#!/bin/sh\ntrue\n", "0700")


def test_slurmd_says_its_shape_unless_slurm_conf_does() -> None:
    """Else it would end."""
    created, named = registered(of_release(spec_with(), "24.11")), registered(spec_with())
    told = {"-Z", "--conf", "CPUs=4 Sockets=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4096"}
    assert told <= set(created[f"{BOOT} cpu"].inputs["services"][1]["argv"])
    assert not told & set(named[f"{BOOT} cpu"].inputs["services"][1]["argv"])
    # slurmctld is told by slurm.conf, as that is when it starts.
    assert created[f"{BOOT} ctl"].inputs["services"] == named[f"{BOOT} ctl"].inputs["services"]


def test_other_features_change_slots_alone() -> None:
    assert changed(with_cpu(), with_cpu(features=["std", "fast"])) == {f"{SLOTS} cpu"}


def test_a_higher_maximum_changes_slots_alone() -> None:
    assert changed(with_cpu(), with_cpu(max_nodes=200)) == {f"{SLOTS} cpu"}


def test_another_shape_changes_one_fleet() -> None:
    names = {f"{SLOTS} cpu", f"{MACHINE} cpu-1", f"{MACHINE} cpu-2"}
    assert changed(with_cpu(), with_cpu(shape={"cpus": 4, "memory": "8GiB"})) == names


def test_nodes_are_names_whatever_their_order() -> None:
    one = registered(spec_with(), {"cpu": "cpu-3,cpu-1"})
    other = registered(spec_with(), {"cpu": ["cpu-1", "cpu-3"]})
    assert one.children == other.children
    assert set(one.of_type(NODE)) == {"cpu-1", "cpu-3"}
    assert one.outputs[COMPONENT] == {"nodes": "cpu-[1,3]"}


def test_a_fleet_may_be_empty() -> None:
    graph = registered(spec_with(), {})
    assert graph.of_type(NODE) == {}
    assert set(graph.of_type(SLOTS)) == {"cpu", "gpu"}
    assert graph.outputs[COMPONENT] == {"nodes": ""}


def test_a_node_above_the_maximum_stays_until_it_is_drained() -> None:
    spec = with_cpu(max_nodes=2)
    graph = registered(spec, {"cpu": "cpu-[1-2,7]"})
    assert set(graph.of_type(NODE)) == {"cpu-1", "cpu-2", "cpu-7"}
    assert graph[f"{SLOTS} cpu"].inputs["names"] == "cpu-[1-2,7]"
    assert graph[f"{SLOTS} cpu"].inputs["addresses"] == "10.77.10.[1-2,7]"


@pytest.mark.parametrize("node", ["cpu-0", "cpu-255", "gpu-1", "cpu", "ctl"])
def test_a_node_of_no_slot_is_refused_with_what_is_allowed(node: str) -> None:
    with pytest.raises(pulumi.RunError, match=rf"{node} is no node of fleet cpu: .* cpu-\[1-16\]; raise"):
        registered(spec_with(), {"cpu": node})


def test_an_image_is_named_by_its_folders_and_its_digest_is_an_output() -> None:
    graph = registered(spec_with())
    image = graph["tidepool:image:Image slurm"]
    assert image.parent == "tidepool:components:GoldenImage slurm"
    assert image.inputs == {
        "recipe": str(Path("/images/debian-12")),
        "playbooks": str(Path("/playbooks")),
    }
    assert graph.outputs[image.parent] == {"digest": "d" * 64}


def test_slots_are_in_the_cloud_where_power_saving_asks_for_nodes_and_say_nothing_of_it_elsewhere() -> None:
    assert registered(spec_with())[f"{SLOTS} cpu"].inputs["state"] == "FUTURE"
    power = registered(spec_with(scaling={"mode": "power_save"}))
    assert power[f"{SLOTS} cpu"].inputs["state"] == "CLOUD"

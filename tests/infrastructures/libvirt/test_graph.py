"""What a cluster on libvirt registers: types, inputs, parents, dependencies, secrets, and what a change comes to."""

from __future__ import annotations

import json
import re
from typing import Any

import pulumi
import pytest

from tests.infrastructures.libvirt.graph import (
    ACCESS,
    DOMAIN,
    FILE,
    HOST,
    MACHINE,
    NETWORK,
    POOL,
    PROVIDER,
    SEED,
    VOLUME,
    connection,
    registered,
)
from tests.infrastructures.libvirt.specs import TO_LICENCES, TUNED, TWO_HOSTS, mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.registry import infrastructures_of
from tidepool.testing import Graph

FLEET = "tidepool:components:ComputeFleet cpu"
CONTROLLER = "tidepool:components:SlurmController physics"
CONFIGURATION = "tidepool:slurm:Configuration physics"


def changed(before: ClusterSpec, after: ClusterSpec, **more: Any) -> set[str]:
    """What an `up` from one to the other would look at again."""
    old, new = registered(before), registered(after, **more)
    assert set(old.resources) == set(new.resources)
    return {name for name in old.resources if old[name].inputs != new[name].inputs}


def test_all_of_libvirt_that_a_cluster_is() -> None:
    graph = registered(spec())
    of_libvirt = {name: parent for name, parent in graph.children.items() if "libvirt" in name}
    assert of_libvirt == {
        f"{HOST} libvirt@here": "",
        f"{PROVIDER} libvirt@here": "",
        f"{POOL} pool@here": "",
        f"{NETWORK} net@here": "",
        f"{VOLUME} debian-12-cloud@here": "",
        f"{SEED} ctl@here": CONTROLLER,
        f"{VOLUME} ctl": CONTROLLER,
        f"{DOMAIN} ctl": CONTROLLER,
        f"{SEED} login@here": CONTROLLER,
        f"{VOLUME} login-1": CONTROLLER,
        f"{DOMAIN} login-1": CONTROLLER,
        f"{SEED} cpu@here": FLEET,
        f"{VOLUME} cpu-1": FLEET,
        f"{DOMAIN} cpu-1": FLEET,
        f"{VOLUME} cpu-2": FLEET,
        f"{DOMAIN} cpu-2": FLEET,
    }
    assert graph[f"{FILE} debian-12-cloud"].inputs == {"image": "d" * 64, "form": "disk.qcow2"}
    # An image that does not boot is refused before one is built.
    assert graph["tidepool:image:Image debian-12-cloud"].inputs["forms"] == ["disk.qcow2"]


def test_urns_are_what_they_were() -> None:
    """Another name or type here is a new machine for everybody who has one: give it an alias."""
    graph = registered(spec())
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet"
    assert graph[f"{DOMAIN} cpu-1"].urn == f"{above}${DOMAIN}::cpu-1"
    assert graph[f"{VOLUME} cpu-1"].urn == f"{above}${VOLUME}::cpu-1"
    assert graph[f"{SEED} cpu@here"].urn == f"{above}${SEED}::cpu@here"
    assert graph[f"{NETWORK} net@here"].urn == f"urn:pulumi:dev::cluster::{NETWORK}::net@here"


def test_nothing_is_made_before_the_host_is_known_to_have_what_is_asked_of_it() -> None:
    graph = registered(spec(TUNED))
    host = graph[f"{HOST} libvirt@here"]
    assert graph[f"{PROVIDER} libvirt@here"].depends_on == {f"{HOST} libvirt@here"}
    assert (host.inputs["infrastructure"], host.inputs["path"]) == (
        "libvirt",
        "controller.infrastructure.options.hosts.here",
    )
    assert host.inputs["demands"]["uri"] == "qemu:///system"
    assert host.inputs["demands"]["demands"][1] == {
        "path": "fleets[0].infrastructures[0].options",
        "machines": 4,
        "cpus": 4,
        "memoryMib": 4352,
        "cells": {"0": [*range(4, 12)], "1": [*range(16, 24)]},
        "emulatorCpus": [0, 1],
        "pageKib": 2048,
        "pci": ["0000:3b:00.0", "0000:3b:00.1", "0000:af:00.0", "0000:af:00.1"],
    }


def test_a_machine_is_a_thin_disk_and_a_domain_with_its_place_in_the_network() -> None:
    graph = registered(spec())
    disk, domain = graph[f"{VOLUME} cpu-2"], graph[f"{DOMAIN} cpu-2"]
    assert disk.inputs == {
        "name": "cpu-2.qcow2",
        "pool": "tidepool-dev",
        "baseVolumeName": f"debian-12-cloud-{'d' * 16}.qcow2",
        "baseVolumePool": "tidepool-dev",
        "size": 16 * 1024**3,
    }
    inputs = dict(domain.inputs)
    inputs.pop("xml")
    assert inputs == {
        "name": "dev-cpu-2",
        "description": "tidepool stack=dev machine=cpu-2",
        "type": "kvm",
        "arch": "x86_64",
        "machine": "q35",
        "cpu": {"mode": "host-passthrough"},
        "vcpu": 4,
        "memory": 4352,
        "disks": [{"volumeId": "cpu-2-id"}],
        "cloudinit": "/var/lib/libvirt/tidepool/dev/cpu-seed.iso;seed",
        "networkInterfaces": [
            {
                "networkName": "tidepool-dev",
                "mac": "02:74:0A:4D:0A:02",
                "addresses": ["10.77.10.2"],
                "hostname": "cpu-2",
            }
        ],
        "consoles": [{"type": "pty", "targetPort": "0", "targetType": "serial"}],
        "autostart": True,
    }


def test_a_machine_comes_after_all_that_it_needs_and_a_node_after_its_machine() -> None:
    graph = registered(spec())
    domain = graph[f"{DOMAIN} cpu-1"]
    assert domain.by_input["disks"] == {f"{VOLUME} cpu-1"}
    assert domain.by_input["cloudinit"] == {f"{SEED} cpu@here"}
    assert domain.by_input["networkInterfaces"] == {f"{NETWORK} net@here"}
    assert domain.replace_with == {"tidepool:slurm:Slots cpu"}
    assert graph[f"{VOLUME} cpu-1"].by_input["baseVolumeName"] == {f"{VOLUME} debian-12-cloud@here"}
    assert f"{POOL} pool@here" in graph[f"{VOLUME} debian-12-cloud@here"].depends_on
    node = graph["tidepool:slurm:Node cpu-1"]
    assert node.by_input["machine"] == {f"{MACHINE} cpu-1"}
    assert node.inputs["machine"] == connection("10.77.10.1")
    assert graph[CONFIGURATION].by_input["hosts"] == {f"{MACHINE} ctl", f"{MACHINE} login-1"}
    # It is there when it answers, with the keys that its seed brought.
    answers = graph[f"{MACHINE} cpu-1"]
    assert answers.by_input == {"machine": {f"{DOMAIN} cpu-1"}, "access": {f"{ACCESS} ssh@machines"}}
    assert answers.inputs["address"] == "10.77.10.1"
    # Machines wait for no other machine, so that one which does not come holds nobody back.
    assert not {name for name in domain.depends_on if name.startswith(DOMAIN)} - {
        f"{DOMAIN} ctl",
        f"{DOMAIN} login-1",
    }


def test_machines_have_the_time_to_boot_that_their_offering_says() -> None:
    graph = registered(spec({"virtualization": "qemu"}))
    assert {name: each.create_timeout for name, each in graph.of_type(MACHINE).items()} == {
        "ctl": "600s",
        "login-1": "600s",
        "cpu-1": "1200s",
        "cpu-2": "1200s",
    }
    impatient = registered(spec({"boot_timeout_s": 90}))
    assert impatient[f"{MACHINE} cpu-1"].create_timeout == "90s"


def test_machines_are_reached_by_a_key_of_the_stack_and_known_by_theirs() -> None:
    access = registered(spec())[f"{ACCESS} ssh@machines"]
    assert access.by_input == {
        "privateKey": {"tidepool:keys:SshKey ssh@administrator"},
        "hostKey": {"tidepool:keys:SshKey ssh@machines"},
    }
    assert access.secrets == {"privateKey"}
    assert access.inputs["addresses"] == "10.77.0.[2-4,16],10.77.10.[1-4]"
    seed = json.loads(registered(spec())[f"{SEED} cpu@here"].inputs["userData"].partition("\n")[2])
    paths = {file["path"] for file in seed["write_files"]}
    assert {
        "/root/.ssh/authorized_keys",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssh/ssh_host_ed25519_key.pub",
    } <= paths


def test_a_network_of_the_stack_has_reservations_alone_and_no_way_out() -> None:
    network = registered(spec())[f"{NETWORK} net@here"].inputs
    assert {key: network[key] for key in ("name", "mode", "addresses", "dhcp", "autostart")} == {
        "name": "tidepool-dev",
        "mode": "none",
        "addresses": ["10.77.0.0/16"],
        "dhcp": {"enabled": True},
        "autostart": True,
    }
    outside = registered(spec(outside=True, firewall=TO_LICENCES))
    assert outside[f"{NETWORK} net@here"].inputs["mode"] == "nat"


def test_keys_are_in_seeds_alone_and_secret_there() -> None:
    graph = registered(spec(), munge_key="bXkgc2VjcmV0")
    for name, each in graph.resources.items():
        if "libvirt" not in name:
            continue
        if each.type == SEED:
            assert each.secrets == {"userData"}
            assert "bXkgc2VjcmV0" in each.inputs["userData"]
        else:
            assert not each.secrets
            assert "bXkgc2VjcmV0" not in str(each.inputs)


def test_a_machine_says_little_of_itself() -> None:
    """At ten thousand of them, each byte is one too many."""
    graph = registered(spec())
    plain = {key: value for key, value in graph[f"{DOMAIN} cpu-1"].inputs.items() if key != "xml"}
    assert len(json.dumps(plain)) + len(json.dumps(graph[f"{VOLUME} cpu-1"].inputs)) < 1024
    assert len(graph[f"{DOMAIN} cpu-1"].inputs["xml"]["xslt"]) < 2048


def test_another_image_is_another_base_and_with_it_other_disks() -> None:
    names = changed(spec(), spec(), digest="e" * 64)
    assert names == {
        f"{FILE} debian-12-cloud",
        f"{VOLUME} debian-12-cloud@here",
        f"{VOLUME} ctl",
        f"{VOLUME} login-1",
        f"{VOLUME} cpu-1",
        f"{VOLUME} cpu-2",
    }


def test_another_boot_changes_seeds_and_no_machine() -> None:
    names = changed(spec(), spec(), munge_key="YW5vdGhlcg==")
    assert {name for name in names if "libvirt" in name} == {
        f"{SEED} {kind}@here" for kind in ("ctl", "login", "cpu")
    }


def test_another_shape_changes_the_machines_of_one_fleet() -> None:
    larger = mapping()
    larger["fleets"][0]["shape"]["memory"] = "8GiB"
    names = changed(spec(), ClusterSpec.model_validate(larger))
    assert {name for name in names if "libvirt" in name} == {
        f"{HOST} libvirt@here",
        f"{DOMAIN} cpu-1",
        f"{DOMAIN} cpu-2",
    }


def test_another_offering_changes_the_machines_of_one_fleet() -> None:
    names = changed(spec(), spec({"cells": TUNED["cells"]}))
    assert names == {f"{HOST} libvirt@here", f"{DOMAIN} cpu-1", f"{DOMAIN} cpu-2"}


def test_each_host_has_a_provider_and_all_that_its_machines_need() -> None:
    graph = registered(spec(hosts=TWO_HOSTS, bridge="br0", controller={"backup": True}))
    assert {name: each.inputs["uri"] for name, each in graph.of_type(PROVIDER).items()} == {
        f"libvirt@{host}": uri for host, uri in TWO_HOSTS.items()
    }
    for type, name in ((POOL, "pool"), (NETWORK, "net"), (VOLUME, "debian-12-cloud"), (SEED, "cpu")):
        assert {f"{name}@alpha", f"{name}@beta"} <= set(graph.of_type(type))
    # One file is written, and uploaded to both.
    assert set(graph.of_type(FILE)) == {"debian-12-cloud"}
    assert graph[f"{NETWORK} net@beta"].inputs == {
        "name": "tidepool-dev",
        "mode": "bridge",
        "bridge": "br0",
        "autostart": True,
    }


def host_of(graph: Graph, machine: str) -> str:
    """By the provider of its domain and its disk."""
    (provider,) = {graph[f"{type} {machine}"].provider for type in (DOMAIN, VOLUME)}
    return provider.partition("@")[2]


def test_names_that_a_host_has_once_are_free_before_they_are_taken_again() -> None:
    graph = registered(spec())
    first = {each.type for each in graph.resources.values() if each.delete_before_replace}
    assert first == {POOL, NETWORK, SEED, DOMAIN, VOLUME}
    # The base of disks stays until no disk is over it; its name is of its digest.
    assert not graph[f"{VOLUME} debian-12-cloud@here"].delete_before_replace


def test_controllers_are_apart_and_nodes_in_turns() -> None:
    graph = registered(spec(hosts=TWO_HOSTS, bridge="br0", controller={"backup": True}), {"cpu": "cpu-[1-4]"})
    assert host_of(graph, "ctl") == "alpha"
    assert host_of(graph, "ctlbackup") == "beta"
    assert [host_of(graph, f"cpu-{number}") for number in range(1, 5)] == ["alpha", "beta"] * 2


def test_the_clusters_own_machines_are_pinned_where_they_were_counted() -> None:
    """One controller and one login machine with processors for two: the backup and accounting are not there."""
    own = {"cells": [{"node": 0, "cpus": "2-5"}]}
    graph = registered(spec(machines=own))
    sheets = [graph[f"{DOMAIN} {name}"].inputs["xml"]["xslt"] for name in ("ctl", "login-1")]
    pins = [re.findall(r'vcpupin vcpu="\d+" cpuset="(\d+)"', sheet) for sheet in sheets]
    assert pins == [["2", "3"], ["4", "5"]]


def test_where_an_own_machine_is_does_not_follow_from_others() -> None:
    """Else a login machine would be made anew on another host when a backup controller comes."""
    two: dict[str, Any] = {"hosts": TWO_HOSTS, "bridge": "br0"}
    alone, with_backup = (registered(spec(**two, controller={"backup": backup})) for backup in (False, True))
    assert host_of(alone, "login-1") == host_of(with_backup, "login-1") == "beta"


def test_a_fleet_may_be_on_some_of_the_hosts() -> None:
    graph = registered(spec({"hosts": ["beta"]}, hosts=TWO_HOSTS, bridge="br0"))
    assert {host_of(graph, name) for name in ("cpu-1", "cpu-2")} == {"beta"}


def test_a_virtual_function_is_a_second_interface_with_an_address_of_its_own() -> None:
    first, second = registered(spec({"sriov_network": "vfs"}))[f"{DOMAIN} cpu-1"].inputs["networkInterfaces"]
    assert second == {"networkName": "vfs", "mac": "06:74:0A:4D:0A:01"}
    assert first["mac"] != second["mac"]


def test_a_preview_of_nothing_yet_shows_all_of_it() -> None:
    assert set(registered(spec(), preview=True).resources) == set(registered(spec()).resources)


def test_mistakes_in_options_end_the_program_with_all_of_them_and_register_nothing() -> None:
    with pytest.raises(pulumi.RunError) as raised:
        infrastructures_of(spec({"cpu": "fast"}, pool="here"), "dev")
    assert "2 mistakes" in str(raised.value)
    assert "controller.infrastructure.options.pool = 'here'" in str(raised.value)
    assert "fleets[0].infrastructures[0].options.cpu = 'fast'" in str(raised.value)


def test_a_machine_that_is_suspended_is_no_node_and_stays_as_it_was_made() -> None:
    graph = registered(spec(), {"cpu": "cpu-1"}, suspended="cpu-[1-2]")
    node, kept = (graph[f"tidepool:slurm:Node cpu-{number}"].inputs for number in (1, 2))
    # One that runs is registered as ever: no state is changed by what is new.
    assert not {"power", "suspension"} & {*node}
    assert kept["power"] == "suspended"
    assert kept["suspension"] == {"kind": "libvirt", "uri": "qemu:///system", "domain": "dev-cpu-2"}
    runs, is_suspended = (graph[f"{DOMAIN} cpu-{number}"].inputs for number in (1, 2))
    assert (runs["autostart"], "running" in runs) == (True, False)
    assert (is_suspended["autostart"], is_suspended["running"]) == (False, False)
    # Other slots make no machine anew that could not answer.
    for kind in (DOMAIN, MACHINE):
        assert graph[f"{kind} cpu-1"].replace_with == {"tidepool:slurm:Slots cpu"}
        assert graph[f"{kind} cpu-2"].replace_with == set()

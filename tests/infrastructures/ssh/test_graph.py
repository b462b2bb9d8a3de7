"""What a cluster of existing hosts registers: types, inputs, parents, dependencies, secrets, and what a change comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime.mocks import MockResourceArgs

from tests.components.stack import answers
from tests.infrastructures.ssh.specs import HOSTS, mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import ComputeFleet, SlurmController
from tidepool.infrastructures.registry import infrastructures_of
from tidepool.infrastructures.ssh.machines import nodes_of_hosts
from tidepool.infrastructures.ssh.reading import read_options
from tidepool.testing import Graph, register

INVENTORY, HOST, PLAYBOOK = "tidepool:infrastructure:Preflight", "tidepool:ssh:Host", "tidepool:ssh:Playbook"
BOOT = "tidepool:local:Boot"
FLEET = "tidepool:components:ComputeFleet cpu"
CONTROLLER = "tidepool:components:SlurmController physics"


def registered(given: ClusterSpec, *, munge_key: str = "bXVuZ2U=", preview: bool = False) -> Graph:
    """The graph of a stack with two nodes."""

    def program() -> None:
        controller = SlurmController(given.name, given, folder=Path("/project"))
        for fleet in given.fleets:
            ComputeFleet(fleet.name, controller=controller, nodes="cpu-[1-2]")

    def answer(args: MockResourceArgs) -> Mapping[str, Any]:
        node = args.inputs.get("node")
        more: Mapping[str, Mapping[str, Any]] = {
            "tidepool:keys:MungeKey": {"key": munge_key},
            HOST: {
                "claim": {"stack": "dev", "fleet": "cpu", "node": node, "generation": 1},
                "machine": f"{args.inputs.get('host')}/1",
            },
        }
        return more.get(args.typ, answers(args))

    return register(program, answer, preview=preview)


def changed(before: ClusterSpec, after: ClusterSpec, **more: Any) -> set[str]:
    """What an `up` from one to the other would look at again."""
    old, new = registered(before), registered(after, **more)
    assert set(old.resources) == set(new.resources)
    return {name for name in old.resources if old[name].inputs != new[name].inputs}


def test_a_machine_is_a_claim_and_a_play_and_nothing_is_made_besides() -> None:
    graph = registered(spec())
    mine = {
        name: parent
        for name, parent in graph.children.items()
        if "ssh:" in name or name.startswith((BOOT, INVENTORY))
    }
    assert mine == {
        f"{INVENTORY} ssh@hosts": "",
        f"{BOOT} ctl-hosts": CONTROLLER,
        f"{HOST} ctl": CONTROLLER,
        f"{PLAYBOOK} ctl": CONTROLLER,
        f"{BOOT} login-hosts": CONTROLLER,
        f"{HOST} login-1": CONTROLLER,
        f"{PLAYBOOK} login-1": CONTROLLER,
        f"{BOOT} cpu-hosts": FLEET,
        f"{HOST} cpu-1": FLEET,
        f"{PLAYBOOK} cpu-1": FLEET,
        f"{HOST} cpu-2": FLEET,
        f"{PLAYBOOK} cpu-2": FLEET,
    }
    assert not [name for name in graph.resources if "local:" in name and not name.startswith(BOOT)]


def test_urns_are_what_they_were() -> None:
    """Another name or type here gives a host back and claims it again, for everybody who has one: give it an alias."""
    graph = registered(spec())
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet"
    assert graph[f"{HOST} cpu-1"].urn == f"{above}${HOST}::cpu-1"
    assert graph[f"{PLAYBOOK} cpu-1"].urn == f"{above}${PLAYBOOK}::cpu-1"
    assert graph[f"{INVENTORY} ssh@hosts"].urn == f"urn:pulumi:dev::cluster::{INVENTORY}::ssh@hosts"


def test_the_nodes_that_a_silent_host_may_be_are_those_that_it_is_claimed_for() -> None:
    both = spec(controller={"backup": True, "login_machines": 1})
    claims = [each.inputs for name, each in registered(both).resources.items() if name.startswith(HOST)]
    assert nodes_of_hosts(both, read_options(both)) == {each["host"]: [each["node"]] for each in claims}


def test_a_claim_says_which_node_of_which_stack_the_host_is() -> None:
    assert registered(spec())[f"{HOST} cpu-2"].inputs == {
        "stack": "dev",
        "node": "cpu-2",
        "host": "beta",
        "address": "10.77.10.2",
        "connection": {
            "kind": "host",
            "address": "192.0.2.12",
            "port": 2222,
            "user": "admin",
            "key": "/keys/id",
            "known_hosts": "/keys/known_hosts",
        },
    }


def test_a_play_is_told_which_node_it_makes() -> None:
    inputs = registered(spec())[f"{PLAYBOOK} cpu-1"].inputs
    assert inputs["roles"] == ["users", "at_rest", "slurm_node", "nfs_client", "mpi", "services"]
    assert inputs["boot"] == "cpu-hosts"
    assert inputs["claim"]["node"] == "cpu-1"
    variables = inputs["variables"]
    assert variables["tidepool_node"] == "cpu-1"
    assert variables["tidepool_address"] == "10.77.10.1/16"
    assert variables["tidepool_hosts"] == {"ctl": "10.77.0.2", "login-1": "10.77.0.16"}
    assert variables["tidepool_mounts"] == [{"source": "nas:/home", "target": "/home", "read_only": False}]
    assert variables["tidepool_daemon_packages"] == ["munge", "slurm-client", "slurmd"]
    assert {"name": "slurm", "uid": 64030, "gid": 64030}.items() <= variables["tidepool_users"][2].items()


def test_the_clusters_own_machines_get_its_daemons_as_well() -> None:
    inputs = registered(spec())[f"{PLAYBOOK} ctl"].inputs
    assert "slurm_controller" in inputs["roles"]
    assert "slurmctld" in inputs["variables"]["tidepool_daemons"]
    assert {mount["source"] for mount in inputs["variables"]["tidepool_mounts"]} == {
        "nas:/home",
        "/srv/slurmctld",
    }


def test_roles_and_variables_of_a_persons_own_come_before_what_runs() -> None:
    given = spec(
        roles=["chrony", "firewall"],
        variables={"tidepool_time_servers": ["ntp"]},
        volumes={"home": "10.0.0.1@tcp:/fast", "slurmctld": "/s"},
    )
    inputs = registered(given)[f"{PLAYBOOK} cpu-1"].inputs
    assert inputs["roles"] == [
        "users",
        "at_rest",
        "slurm_node",
        "lustre_client",
        "chrony",
        "firewall",
        "services",
    ]
    assert inputs["variables"]["tidepool_time_servers"] == ["ntp"]
    assert inputs["variables"]["tidepool_firewall_cluster"] == ["10.77.0.0/16"]


def test_hosts_are_asked_before_anything_is_done_on_one() -> None:
    graph = registered(spec())
    for name in ("ctl", "login-1", "cpu-1", "cpu-2"):
        assert f"{INVENTORY} ssh@hosts" in graph[f"{HOST} {name}"].depends_on
    asked = graph[f"{INVENTORY} ssh@hosts"].inputs["demands"]
    assert [each["host"] for each in asked["hosts"]] == ["head", "head2", "head3", "head4", "alpha", "beta"]
    assert asked["hosts"][4] == {
        "path": "fleets[0].infrastructures[0].options.hosts",
        "host": "alpha",
        "cpus": 4,
        "memoryMib": 4096,
        "connection": graph[f"{HOST} cpu-1"].inputs["connection"],
    }
    assert asked["stack"] == "dev"


def test_a_play_comes_after_its_claim_and_a_node_after_its_play() -> None:
    graph = registered(spec())
    play = graph[f"{PLAYBOOK} cpu-1"]
    assert play.by_input["claim"] == play.by_input["host"] == {f"{HOST} cpu-1"}
    assert play.by_input["boot"] == {f"{BOOT} cpu-hosts"}
    node = graph["tidepool:slurm:Node cpu-1"]
    assert node.inputs["machine"] == graph[f"{HOST} cpu-1"].inputs["connection"]
    # A play may take longer than a node is waited for.
    assert f"{PLAYBOOK} cpu-1" in node.by_input["machine"]
    # Its host is given back when it is no node any more, and no sooner.
    assert "tidepool:slurm:Slots cpu" in graph[f"{HOST} cpu-1"].depends_on
    assert graph[f"{HOST} cpu-1"].replace_with == {"tidepool:slurm:Slots cpu"}
    assert graph[f"{HOST} cpu-1"].delete_before_replace


def test_keys_are_in_boots_alone_and_secret_there() -> None:
    graph = registered(spec(), munge_key="bXkgc2VjcmV0")
    assert graph[f"{BOOT} cpu-hosts"].secrets
    for name, each in graph.resources.items():
        if "ssh:" in name:
            assert not each.secrets
            assert "bXkgc2VjcmV0" not in json.dumps(each.inputs)


def test_another_boot_changes_boots_and_no_host() -> None:
    names = changed(spec(), spec(), munge_key="YW5vdGhlcg==")
    assert not {name for name in names if "ssh:" in name}
    assert f"{BOOT} cpu-hosts" in names


def test_another_shape_asks_hosts_anew_and_claims_none() -> None:
    larger = mapping()
    larger["fleets"][0]["shape"]["memory"] = "2GiB"
    names = changed(spec(), ClusterSpec.model_validate(larger))
    assert {name for name in names if "ssh" in name} == {f"{INVENTORY} ssh@hosts"}


def test_another_order_of_hosts_is_another_host_for_each_node() -> None:
    names = changed(spec(), spec({"hosts": ["beta", "alpha"]}))
    assert {name for name in names if name.startswith(HOST)} == {f"{HOST} cpu-1", f"{HOST} cpu-2"}


def test_a_host_more_changes_no_other() -> None:
    names = changed(
        spec(), spec({"hosts": ["alpha", "beta", "gamma"]}, hosts={**HOSTS, "gamma": "192.0.2.13"})
    )
    assert names == set()


def test_a_preview_of_nothing_yet_shows_all_of_it() -> None:
    assert set(registered(spec(), preview=True).resources) == set(registered(spec()).resources)


def test_mistakes_in_options_end_the_program_with_all_of_them_and_register_nothing() -> None:
    with pytest.raises(pulumi.RunError) as raised:
        infrastructures_of(spec({"hosts": ["gamma"]}, key="here", user="No One"), "dev")
    assert "controller.infrastructure.options.key = 'here'" in str(raised.value)
    assert "controller.infrastructure.options.user = 'No One'" in str(raised.value)

"""Cluster, and components of programs that have no spec: small arguments, several clusters, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pulumi
import pytest

from tests.cluster.specs import POOL
from tests.components.stack import answers
from tests.infrastructures.libvirt.specs import spec as libvirt_spec
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec_reading import read_spec
from tidepool.cluster.users import UserList
from tidepool.components import (
    Cluster,
    ClusterSpec,
    ComputeFleet,
    ConvergedNodePool,
    DesiredState,
    FleetArgs,
    Kubernetes,
    KubernetesAccess,
    Partition,
    PoolArgs,
    Shape,
    SlurmController,
    cluster_spec,
)
from tidepool.components.slurm_controller import ClusterKeys, default_subnet
from tidepool.testing import Graph, register

RECORDED = json.loads((Path(__file__).parent / "urns_of_the_program_before.json").read_text())
SMALL = {"cpus": 2, "memory": "1GiB"}
SPECS: dict[str, dict[str, Any]] = {
    "whole": {
        "name": "physics",
        "network": "10.77.0.0/16",
        "controller": {"shape": SMALL, "backup": True, "accounting": {}, "login_machines": 2},
        "fleets": [
            {"name": "cpu", "subnet": "10.77.1.0/24", "min_nodes": 2, "max_nodes": 16, "shape": SMALL},
            {
                "name": "gpu",
                "subnet": "10.77.2.0/24",
                "max_nodes": 4,
                "image": "debian-13",
                "shape": {**SMALL, "gres": [{"name": "gpu", "count": 2, "files": "/dev/nvidia[0-1]"}]},
            },
        ],
        "partitions": [{"name": "main"}],
    },
    "pools": {
        "name": "converged",
        "network": "10.83.0.0/16",
        "controller": {"shape": SMALL, "runs_on": "shared-1"},
        "kubernetes": {},
        "pools": [
            {"name": "shared", "subnet": "10.83.1.0/24", "machines": 3, "shape": SMALL},
            {
                "name": "other",
                "subnet": "10.83.2.0/24",
                "machines": 2,
                "kubernetes_min": 1,
                "shape": SMALL,
            },
        ],
        "fleets": [
            {"name": "cpu", "subnet": "10.83.9.0/24", "min_nodes": 1, "max_nodes": 16, "shape": SMALL}
        ],
        "partitions": [{"name": "main"}],
    },
}
NODE, MACHINE = "tidepool:slurm:Node", "tidepool:local:Machine"
CPU = FleetArgs(name="cpu", min_nodes=1, max_nodes=8, shape=Shape(cpus=4, memory_mib=8192))


def graph_of(program: Callable[[], object]) -> Graph:
    return register(program, answers)


@pytest.mark.parametrize("name", [*SPECS])
def test_a_stack_of_the_program_before_has_the_same_urns_and_outputs(name: str) -> None:
    """Recorded with the program that put components together itself: another URN is another machine."""
    outputs: list[str] = []
    spec = read_spec(SPECS[name])
    nodes = {fleet.name: HostSet("cpu-[1-3]" if fleet.name == "cpu" else "") for fleet in spec.fleets}
    first = DesiredState.at_first(spec)
    placements = {fleet: dict.fromkeys(of, "local") for fleet, of in nodes.items()}
    desired = DesiredState(spec, nodes, placements, first.roles, {}, None, UserList(), {"spec": SPECS[name]})

    def program() -> None:
        outputs.extend(Cluster(spec.name, desired, toolchain=Path("/toolchain")).outputs)

    graph = graph_of(program)
    urns = {each.urn for each in graph.resources.values()}
    # Users are a resource since; before, they were the image's.
    assert urns - {*RECORDED[name]["urns"]} == {urn for urn in urns if "tidepool:slurm:Users" in urn}
    assert {*RECORDED[name]["urns"]} <= urns
    assert sorted(outputs) == RECORDED[name]["outputs"]


def test_a_cluster_of_a_spec_alone_has_the_least_nodes() -> None:
    spec = read_spec(SPECS["whole"])
    graph = graph_of(lambda: Cluster("physics", spec))
    assert sorted(graph.of_type(NODE)) == ["cpu-1", "cpu-2"]


def test_a_fleet_has_the_rest_from_its_controller() -> None:
    def program() -> None:
        controller = SlurmController("physics", network="10.80.0.0/16", fleets=[CPU])
        assert controller.spec.partitions == (Partition(name="main"),)
        ComputeFleet("cpu", controller=controller)

    graph = graph_of(program)
    assert graph[f"{NODE} cpu-1"].parent == "tidepool:components:ComputeFleet cpu"
    machine = graph[f"{MACHINE} cpu-1"].inputs
    assert (machine["cpus"], machine["memoryMib"]) == (4, 8192)
    assert (
        IPv4Network(default_subnet(IPv4Network("10.80.0.0/16"), "cpu"))[1]
        == IPv4Network(machine["address"]).network_address
    )


def test_a_fleet_that_the_controller_does_not_know_is_refused() -> None:
    def program() -> None:
        controller = SlurmController("physics", network="10.80.0.0/16", fleets=[CPU])
        ComputeFleet("gpu", controller=controller)

    with pytest.raises(
        pulumi.RunError,
        match=r"controller physics has no such fleet; its fleets are: cpu\. Give it to the controller: "
        r'SlurmController\("physics", fleets=\[FleetArgs\(name="gpu"',
    ):
        graph_of(program)


def test_a_pool_that_the_controller_does_not_know_is_refused() -> None:
    def program() -> None:
        controller = SlurmController("physics", network="10.80.0.0/16", fleets=[CPU])
        kubernetes = KubernetesAccess(
            "physics", locations=controller.locations, kubeconfig=Path("/home/she/.kube/config")
        )
        ConvergedNodePool("shared", controller=controller, kubernetes=kubernetes)

    with pytest.raises(pulumi.RunError, match="no such pool; its pools are: none"):
        graph_of(program)


def test_the_default_subnet_stays_whatever_other_fleets_there_are() -> None:
    def subnets(*names: str, network: str = "10.80.0.0/16") -> dict[str, IPv4Network]:
        fleets = [FleetArgs(name=name, max_nodes=2, shape=CPU.shape) for name in names]
        return {
            fleet.name: fleet.subnet
            for fleet in cluster_spec("physics", network=network, fleets=fleets).fleets
        }

    all_of_them = subnets("cpu", "gpu", "large")
    assert len({*all_of_them.values()}) == 3
    assert subnets("large", "cpu") == {name: all_of_them[name] for name in ("large", "cpu")}
    assert {each.prefixlen for each in all_of_them.values()} == {24}
    (small,) = subnets("cpu", network="10.80.0.0/22").values()
    assert small.prefixlen == 26
    first, same = (
        "a",
        next(
            name
            for name in (f"f{i}" for i in range(10_000))
            if default_subnet(IPv4Network("10.80.0.0/16"), name)
            == default_subnet(IPv4Network("10.80.0.0/16"), "a")
        ),
    )
    with pytest.raises(
        pulumi.RunError, match=f"{first} and {same} have the same default subnet, .* `subnet`"
    ):
        subnets(first, same)


def test_a_pool_of_a_program_has_a_default_subnet_too() -> None:
    pool = {key: value for key, value in POOL.items() if key != "subnet"}
    spec = cluster_spec(
        "physics",
        network="10.80.0.0/16",
        kubernetes=Kubernetes(),
        pools=[PoolArgs.model_validate(pool)],
        limits={"max_nodes": 3},  # type: ignore[arg-type]  # as YAML has it
    )
    assert spec.pools[0].subnet == default_subnet(spec.network, POOL["name"])
    assert spec.limits.max_nodes == 3


def test_mistakes_are_told_with_their_remedies() -> None:
    with pytest.raises(pulumi.RunError, match=r"cluster physics: one mistake .*\n  limits.max_nodes = 0"):
        cluster_spec("physics", network="10.80.0.0/16", fleets=[CPU], limits={"max_nodes": 0})  # type: ignore[arg-type]
    with pytest.raises(pulumi.RunError, match="cluster physics: "):
        cluster_spec("physics", fleets=[CPU])
    spec = cluster_spec("physics", network="10.80.0.0/16")
    with pytest.raises(pulumi.RunError, match="it has a spec, and image besides; write them into the spec"):
        graph_of(lambda: SlurmController("physics", spec, image="debian-13"))


def test_programs_write_all_keys_of_a_spec() -> None:
    assert {*ClusterKeys.__annotations__} == {*ClusterSpec.model_fields} - {"name"}


def two(second_scope: str = "chemistry", second_network: str = "10.81.0.0/16") -> Callable[[], None]:
    def program() -> None:
        for name, network, scope in (
            ("physics", "10.80.0.0/16", ""),
            ("chemistry", second_network, second_scope),
        ):
            Cluster(name, cluster_spec(name, network=network, fleets=[CPU]), scope=scope)

    return program


def test_several_clusters_of_a_program_have_nothing_in_common() -> None:
    alone = graph_of(
        lambda: Cluster("physics", cluster_spec("physics", network="10.80.0.0/16", fleets=[CPU]))
    )
    graph = register(two(), answers, by_urn=True)
    urns = [each.urn for each in graph.resources.values()]
    of_physics = {each.urn for each in alone.resources.values()}
    assert len(urns) == len({*urns}) == 2 * len(of_physics) + 1
    assert of_physics <= {*urns}
    theirs = [each for each in graph.resources.values() if each.urn not in of_physics]
    scope = "tidepool:components:Cluster.chemistry"
    assert all(f"::{scope}" in each.urn for each in theirs)
    assert {each.inputs["stack"] for each in theirs if "stack" in each.inputs} == {"dev-chemistry"}
    machines = [each for each in graph.resources.values() if each.type == MACHINE]
    addresses = [each.inputs["address"] for each in machines]
    assert len(addresses) == len({*addresses}) == 6
    assert sorted(each.name for each in machines) == sorted(2 * ["ctl", "login-1", "cpu-1"])


def test_clusters_without_a_scope_of_their_own_are_refused() -> None:
    with pytest.raises(
        pulumi.RunError, match=r'physics has no scope already, .* a scope of its own: scope="chemistry"'
    ):
        graph_of(two(second_scope=""))


def test_clusters_with_the_same_addresses_are_refused() -> None:
    with pytest.raises(pulumi.RunError, match=r"10\.80\.128\.0/17 overlaps that of physics, 10\.80\.0\.0/16"):
        graph_of(two(second_network="10.80.128.0/17"))


def test_the_outputs_say_by_which_keys_machines_are_reached_by_ssh_and_not_the_keys() -> None:
    pytest.importorskip("pulumi_libvirt", reason="pulumi-libvirt is not installed: scripts/setup installs it")
    found: list[dict[str, Any]] = []

    def program() -> None:
        cluster = Cluster("physics", libvirt_spec())
        pulumi.Output.from_input(cluster.outputs["sshAccess"]).apply(found.append)

    graph = register(program, answers)
    (told,) = found
    access = graph["tidepool:ssh:Access ssh@machines"].inputs
    assert told == {
        "publicKey": "ssh-ed25519 PUBLIC",
        "hostKey": access["hostKey"],
        "addresses": access["addresses"],
    }
    assert "sshAccess" not in graph_outputs(SPECS["whole"])


def graph_outputs(spec: dict[str, Any]) -> list[str]:
    """The names of the outputs of a cluster of a spec."""
    found: list[str] = []
    graph_of(lambda: found.extend(Cluster("physics", read_spec(spec)).outputs))
    return found

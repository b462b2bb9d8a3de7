"""Pools at AWS: the way to pods, who speaks to whom, what such a pool cannot be, and what of it a region has to have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime.mocks import MockResourceArgs

from tests.components import cluster_graph
from tests.components.stack import answers
from tests.infrastructures.aws.graph import (
    ARRIVES,
    INSTANCE,
    LEAVES,
    MACHINE,
    ROUTE,
    TEMPLATE,
    outputs_of,
    told,
    user_data,
)
from tests.infrastructures.aws.regions import FACTS, asked, demand
from tests.infrastructures.aws.specs import GIVEN, REGION, ZONE, mapping
from tidepool import resources
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.components import ConvergedNodePool, SlurmController
from tidepool.infrastructures.aws.demands import lacks, wanted
from tidepool.infrastructures.aws.guest import MOST_SECRET_BYTES
from tidepool.infrastructures.aws.reading import read_options
from tidepool.testing import Graph, register

COMPONENT = "tidepool:components:ConvergedNodePool shared"
BOOT, ROLE = "tidepool:local:Boot", "tidepool:pool:Role"
OWN, POOL = "controller.infrastructure.options", "pools[0].infrastructure.options"
PODS = "10.88.0.0/24"


def pooled(
    offering: Mapping[str, Any] | None = None, *, image: str = "debian-12-cloud-converged", **place: Any
) -> dict[str, Any]:
    """A cluster at AWS with a pool of two, whose Kubernetes is there already."""
    described = mapping(**{"given": GIVEN, "kubernetes": ["192.0.2.0/24"], **place})
    described["kubernetes"] = {"kubeconfig": "/etc/kubeconfig", "pod_network": "10.88.0.0/16"}
    described["pools"] = [
        {
            "name": "shared",
            "subnet": "10.77.20.0/24",
            "machines": 2,
            "shape": {"cpus": 8, "memory": "14GiB", "threads_per_core": 2},
            "image": image,
            "infrastructure": {
                "name": "aws",
                "options": {"instance_type": "c7i.2xlarge", **(offering or {})},
            },
        }
    ]
    return described


def hybrid() -> dict[str, Any]:
    """The same pool of a cluster of this machine, with a Kubernetes of its own."""
    described = pooled()
    described["controller"] = {}
    described["kubernetes"] = {"pod_network": "10.88.0.0/16"}
    described["image"] = "debian-12"
    described["fleets"] = []
    described["infrastructures"] = {"aws": {"region": REGION, "given": GIVEN}}
    return described


def registered(described: Mapping[str, Any]) -> Graph:
    spec = ClusterSpec.model_validate(described)

    def program() -> None:
        controller = SlurmController(spec.name, spec, folder=Path("/project"))
        access = resources.Access("kubernetes", stack="dev", access="kubernetes", kubeconfig="{}")

        class Reached:
            access: pulumi.Output[str]
            authority_certificate = pulumi.Output.from_input("AUTHORITY")

        Reached.access = access.access
        for pool in spec.pools:
            ConvergedNodePool(pool.name, controller=controller, kubernetes=Reached())

    def answer(args: MockResourceArgs) -> Mapping[str, Any]:
        found: cluster_graph.Outputs = {
            "tidepool:image:Image": {"digest": "d" * 64},
            "tidepool:keys:MungeKey": {"key": "bXVuZ2U="},
            cluster_graph.FILE: {"path": "/images/image.disk"},
            cluster_graph.MACHINE: {"connection": cluster_graph.connection(args.inputs.get("address", ""))},
            **outputs_of(args),
        }
        return found.get(args.typ, answers(args))

    return register(program, answer)


def mistakes_of(described: Mapping[str, Any]) -> dict[str, str]:
    """By path."""
    with pytest.raises(SpecError) as raised:
        read_options(ClusterSpec.model_validate(described), "dev")
    return {mistake.path: mistake.message for mistake in raised.value.mistakes}


def test_a_machine_of_a_pool_is_an_instance_with_a_route_to_it_and_one_to_its_pods() -> None:
    graph = registered(pooled())
    mine = {
        name for name, each in graph.resources.items() if each.parent == COMPONENT and each.name != "shared"
    }
    assert mine == {
        f"{BOOT} shared-slurm",
        f"{BOOT} shared-kubernetes",
        f"{ROUTE} pods-{PODS.replace('/', '-')}",
        f"{ROUTE} pods-10.88.1.0-24",
        *(f"{kind} shared-{n}" for kind in (INSTANCE, ROUTE, MACHINE, ROLE) for n in (1, 2)),
    }
    assert graph[f"{ROUTE} shared-1"].inputs["destinationCidrBlock"] == "10.77.20.1/32"
    pods = graph[f"{ROUTE} pods-10.88.0.0-24"]
    assert pods.inputs == {
        "routeTableId": GIVEN["route_table"],
        "destinationCidrBlock": PODS,
        "networkInterfaceId": "eni-shared-1",
    }
    # What is let through at a machine that is on the way: packets that are neither from nor for it.
    assert graph[f"{INSTANCE} shared-1"].inputs["sourceDestCheck"] is False
    # A machine takes a role when its pods can be reached.
    assert f"{ROUTE} pods-10.88.0.0-24" in graph[f"{MACHINE} shared-1"].depends_on
    assert graph[f"{ROLE} shared-1"].by_input["machine"] == {f"{MACHINE} shared-1"}
    assert graph[f"{ROLE} shared-1"].inputs["podSubnet"] == PODS


def test_pods_that_move_to_other_machines_are_a_change_of_their_route_for_no_table_has_two_to_them() -> None:
    described = pooled()
    first = registered(described)[f"{ROUTE} pods-10.88.0.0-24"]
    (shared,) = described["pools"]
    described["pools"].insert(0, {**shared, "name": "before", "subnet": "10.77.21.0/24"})
    then = registered(described)[f"{ROUTE} pods-10.88.0.0-24"]
    assert then.urn == first.urn
    assert first.inputs["networkInterfaceId"] == "eni-shared-1"
    assert then.inputs == {**first.inputs, "networkInterfaceId": "eni-before-1"}


def test_a_role_is_with_the_machine_and_never_in_what_makes_it() -> None:
    graph = registered(pooled())
    said = told(graph, "shared")
    paths = {file["path"] for file in said["write_files"]}
    units = "/etc/systemd/system/tidepool"
    assert {f"{units}-slurm.target", f"{units}-kubernetes.target", f"{units}-kubelet.service"} <= paths
    assert "/etc/munge/munge.key" not in paths
    assert len(graph["aws:secretsmanager/secretVersion:SecretVersion shared"].inputs["secretString"]) < (
        MOST_SECRET_BYTES
    )
    assert "munge" not in user_data(graph, "shared")
    # Pods are a hop further from the metadata than answers go.
    assert graph[f"{TEMPLATE} shared"].inputs["metadataOptions"]["httpPutResponseHopLimit"] == 1
    assert graph[f"{TEMPLATE} shared"].inputs["vpcSecurityGroupIds"] == ["node-id"]


def test_a_machine_whose_roles_have_an_image_each_is_replaced_by_either_and_by_none_that_it_has_become() -> (
    None
):
    described = pooled()
    described["pools"][0] |= {
        "image": "debian-12-cloud",
        "images": {"kubernetes": "debian-12-cloud-converged"},
    }
    graph = registered(described)
    images = {"slurm": "debian-12-cloud-id", "kubernetes": "debian-12-cloud-converged-id"}
    instance = graph[f"{INSTANCE} shared-1"]
    # It is made from Slurm's; a conversion and a refresh may find it to be of the other.
    assert instance.inputs["ami"] == images["slurm"]
    assert "ami" in instance.ignore_changes
    assert instance.replacement_trigger == [*images.values()]
    assert graph[f"{ROLE} shared-1"].inputs["imaging"] == {
        "kind": "aws",
        "region": REGION,
        "instance": "shared-1-id",
        "images": images,
    }
    # Of one image it is that image's.
    plain = registered(pooled())
    assert "imaging" not in plain[f"{ROLE} shared-1"].inputs
    assert "ami" not in plain[f"{INSTANCE} shared-1"].ignore_changes
    assert plain[f"{INSTANCE} shared-1"].replacement_trigger is None


def test_machines_whose_next_hop_is_a_router_are_told_no_routes() -> None:
    """`ip` refuses a next hop that is on no link, and the VPC's router leads to all pods."""
    kept = registered(pooled())[f"{BOOT} shared-kubernetes"].inputs["files"]["/etc/kubernetes/routes"]
    assert "via" not in str(kept)


@pytest.mark.parametrize(
    ("described", "other"),
    [(pooled(), "192.0.2.0/24"), (hybrid(), "10.77.0.6/32")],
    ids=["a Kubernetes that is there", "the cluster's own"],
)
def test_pods_the_api_server_and_kubelets_reach_each_other(described: dict[str, Any], other: str) -> None:
    graph = registered(described)
    # Pods have addresses of no group.
    for kind in (ARRIVES, LEAVES):
        anything = {
            each.inputs.get("cidrIpv4")
            for each in graph.of_type(kind).values()
            if each.inputs["securityGroupId"] == "node-id" and each.inputs["ipProtocol"] == "-1"
        }
        assert {"10.88.0.0/16", other} <= anything
    # No other part of the cluster has them.
    assert not [
        each
        for each in graph.of_type(ARRIVES).values()
        if each.inputs["securityGroupId"] != "node-id" and each.inputs.get("cidrIpv4") == "10.88.0.0/16"
    ]


@pytest.mark.parametrize(
    ("changes", "offering", "key", "words"),
    [
        ({}, {"market": "spot"}, f"{POOL}.market", "AWS would take one back that serves Kubernetes"),
        (
            {"kubernetes": []},
            {},
            f"{OWN}.kubernetes",
            "name those of its API server, its nodes and their pods",
        ),
        (
            {"kubernetes": ["10.88.7.0/24"]},
            {},
            "kubernetes.pod_network",
            f"10.88.7.0/24 of {OWN}.kubernetes overlaps it",
        ),
        (
            {"administrators": ["10.88.0.0/15"]},
            {},
            "kubernetes.pod_network",
            f"10.88.0.0/15 of {OWN}.administrators overlaps it",
        ),
    ],
)
def test_what_such_a_pool_cannot_be_is_told_with_its_key_and_the_remedy(
    changes: dict[str, Any], offering: dict[str, Any], key: str, words: str
) -> None:
    found = mistakes_of(pooled(offering, **changes))
    assert set(found) == {key}
    assert words in found[key]


def test_slurmctld_on_a_machine_of_such_a_pool_is_refused() -> None:
    described = pooled()
    described["controller"]["runs_on"] = "shared-1"
    found = mistakes_of(described)
    assert set(found) == {"controller.runs_on"}
    assert "backup: true" in found["controller.runs_on"]


def test_a_vpc_of_the_stacks_own_has_a_way_to_that_kubernetes_and_none_that_is_pods() -> None:
    own: dict[str, Any] = {"given": None, "zones": [ZONE]}
    found = mistakes_of(pooled(**own, cidr="10.88.0.0/16"))
    assert "nothing leads from a VPC of the stack's own to that Kubernetes" in found[f"{OWN}.transit_gateway"]
    assert f"10.88.0.0/16 of {OWN}.cidr overlaps it" in found["kubernetes.pod_network"]
    graph = registered(pooled(**own, transit_gateway="tgw-0"))
    assert graph[f"{ROUTE} to-192.0.2.0-24"].inputs["transitGatewayId"] == "tgw-0"


def test_a_network_of_kubernetes_that_no_machine_here_serves_is_refused() -> None:
    described = hybrid()
    described["infrastructures"]["aws"]["kubernetes"] = ["192.0.2.0/24"]
    found = mistakes_of(described)
    assert set(found) == {"infrastructures.aws.kubernetes"}
    assert "leave it out" in found["infrastructures.aws.kubernetes"]
    without = mapping(kubernetes=["192.0.2.0/24"], given=GIVEN)
    assert set(mistakes_of(without)) == {f"{OWN}.kubernetes"}


def test_a_control_plane_of_the_clusters_own_is_refused_where_its_machines_are_at_aws() -> None:
    described = pooled()
    described["kubernetes"] = {}
    assert "name the kubeconfig" in mistakes_of(described)["kubernetes.kubeconfig"]


def test_a_machine_with_pods_is_two_routes_and_a_table_has_only_so_many() -> None:
    described = ClusterSpec.model_validate(pooled())
    demands = wanted(described, read_options(described, "dev"))
    assert [(each.machines, each.routes) for each in demands.demands] == [(2, 2), (4, 4), (2, 4)]
    assert demands.pods == IPv4Network("10.88.0.0/16")
    (lack,) = lacks(FACTS, asked(demand(machines=251, has_pods=True)))
    assert "251 machines, each with a route of its own, those of pools with another one to their pods" in lack


def test_a_given_vpc_is_apart_from_the_network_of_pods() -> None:
    given = replace(asked(vpc="vpc-1"), pods=IPv4Network("10.88.0.0/16"))
    facts = replace(FACTS, vpc=(IPv4Network("10.88.128.0/20"),))
    (lack,) = lacks(facts, given)
    assert lack.startswith("kubernetes.pod_network: vpc-1 of ")
    assert "has the addresses 10.88.128.0/20" in lack

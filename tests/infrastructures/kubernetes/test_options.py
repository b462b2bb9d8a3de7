"""What a person may say of Kubernetes, and how mistakes in it are told: all at once, each with its key and its remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infrastructures.kubernetes.specs import (
    CLUSTER_API,
    FIREWALL,
    GPUS,
    TUNED,
    VOLUMES,
    mapping,
    of_machines,
    spec,
)
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.kubernetes.preflight import demands
from tidepool.infrastructures.kubernetes.reading import read_options

PLACE = "controller.infrastructure.options"
OFFERING = "fleets[0].infrastructures[0].options"


def mistakes(said: ClusterSpec) -> list[str]:
    with pytest.raises(SpecError) as raised:
        read_options(said)
    return [str(mistake) for mistake in raised.value.mistakes]


def test_little_has_to_be_said() -> None:
    options = read_options(spec())
    assert (options.namespace, options.place.kubeconfig) == ("physics", "/etc/tidepool/kubeconfig")
    assert options.offerings["cpu", "kubernetes"].kind == "pods"
    assert (options.fleets_of_pods, options.has_machines) == (("cpu",), False)


def test_all_that_can_be_said_is_taken() -> None:
    offering = read_options(spec(TUNED, gres=GPUS)).offerings["cpu", "kubernetes"]
    assert offering.overhead_mib == 512
    assert offering.spread[0].max_skew == 1


def test_a_fleet_may_have_several_offerings() -> None:
    said = mapping()
    said["fleets"][0]["infrastructures"] = [
        {"name": "kubernetes", "offering": "spot", "options": {"node_selector": {"site/spot": "yes"}}},
        {"name": "kubernetes", "options": {"kind": "machines"}},
    ]
    said["controller"]["infrastructure"]["options"]["cluster_api"] = CLUSTER_API
    options = read_options(ClusterSpec.model_validate(said))
    assert {key: offering.kind for (_, key), offering in options.offerings.items()} == {
        "kubernetes/spot": "pods",
        "kubernetes": "machines",
    }


@pytest.mark.parametrize(
    ("offering", "more", "told"),
    [
        (
            {},
            {"gres": GPUS},
            (
                f"{OFFERING}.gres.gpu: it is missing: fleets[0].shape.gres[0] is gpu, which is an extended resource of "
                "Kubernetes' nodes; name it, such as gpu: nvidia.com/gpu"
            ),
        ),
        (
            {"gres": {"fpga": "xilinx.com/fpga"}},
            {},
            f"{OFFERING}.gres.fpga = 'xilinx.com/fpga': the fleet's shape has no such gres; leave it out",
        ),
        (
            {"kind": "machines"},
            {},
            f"{PLACE}.cluster_api: it is missing: a fleet has kind: machines; write image_url, checksum_url and interface",
        ),
        (
            {"kind": "machines", "node_selector": {"a": "b"}},
            {"cluster_api": CLUSTER_API},
            f"{OFFERING}: node_selector: of kind: pods alone; leave it out",
        ),
        (
            {"host_selector": {"a": "b"}},
            {},
            f"{OFFERING}: host_selector: of kind: machines alone; leave it out",
        ),
        (
            {"kind": "machines"},
            {"cluster_api": CLUSTER_API, "firewall": FIREWALL},
            (
                f"firewall.nodes.egress: {OFFERING}.kind is machines: hosts that Cluster API provisions are beyond Kubernetes' "
                "network policies, and nothing here would hold them to it; leave it out"
            ),
        ),
        ({}, {"cluster_api": CLUSTER_API}, f"{PLACE}.cluster_api: no fleet has kind: machines; leave it out"),
        (
            {"kind": "machines"},
            {"cluster_api": CLUSTER_API, "volumes": {**VOLUMES, "home": {"claim": "home"}}},
            f"{PLACE}.volumes.home: a fleet has kind: machines, which know no claims; write an NFS export, SERVER:/PATH",
        ),
        (
            {},
            {"volumes": {"home": "nas:/export/home"}},
            (
                f"{PLACE}.volumes.slurmctld: it is missing: pods keep nothing themselves; write an NFS export, SERVER:/PATH, "
                "{claim: NAME}, or {storage_class: NAME, size: 100Gi}"
            ),
        ),
        (
            {},
            {"volumes": {**VOLUMES, "home": "export"}},
            (
                f"{PLACE}.volumes.home = 'export': write an NFS export, SERVER:/PATH; or {{claim: NAME}}; or "
                "{storage_class: NAME, size: 100Gi}"
            ),
        ),
        (
            {},
            {"volumes": {**VOLUMES, "home": {"storage_class": "nfs"}}},
            f"{PLACE}.volumes.home: write one of nfs, claim, and storage_class with size",
        ),
        (
            {},
            {"volumes": {**VOLUMES, "scratch": "nas:/scratch"}},
            f"{PLACE}.volumes.scratch: this cluster mounts home, slurmctld; leave it out",
        ),
        (
            {},
            {"addresses": "multus"},
            f"{PLACE}: interface: multus needs it, and nobody else; write both, or neither",
        ),
        (
            {},
            {"own_namespace": False, "quota": {"requests.cpu": "4"}},
            f"{PLACE}.quota: with own_namespace: false it is the administrator's; leave it out",
        ),
        (
            {},
            {"machines": {"kind": "machines"}},
            f"{PLACE}.machines.kind = 'machines': the cluster's own machines are pods; leave it out",
        ),
    ],
)
def test_what_cannot_be_is_told_with_its_key_and_the_remedy(
    offering: dict[str, Any], more: dict[str, Any], told: str
) -> None:
    assert mistakes(spec(offering, **more)) == [told]


def test_a_cluster_whose_name_is_no_namespaces_names_one() -> None:
    said = {**mapping(), "name": "physics_lab"}
    assert mistakes(ClusterSpec.model_validate(said)) == [
        (
            f"{PLACE}.namespace: it is missing: the cluster's name, physics_lab, is no namespace's; name one of small letters, "
            "digits and '-'"
        )
    ]


def test_pods_follow_jobs_without_control_groups_of_their_own() -> None:
    said = {**mapping(), "process_tracking": "cgroup"}
    assert mistakes(ClusterSpec.model_validate(said)) == [
        "process_tracking = 'cgroup': pods see their control groups, and change none; write linuxproc"
    ]


def test_all_mistakes_are_told_at_once() -> None:
    found = mistakes(spec({"colour": "red", "overhead": "much"}, gres=GPUS, volumes={}, pull="Sometimes"))
    assert {each.partition(":")[0].partition(" ")[0] for each in found} == {
        f"{PLACE}.pull",
        f"{OFFERING}.colour",
        f"{OFFERING}.overhead",
    }
    assert any("no such key; known here: kind, node_selector" in each for each in found)
    found = mistakes(spec({"gres": {}}, gres=GPUS, volumes={}))
    assert len(found) == 3


def test_an_unknown_key_of_the_place_is_told_with_those_that_there_are() -> None:
    (told,) = mistakes(spec(storage="fast"))
    assert told.startswith(f"{PLACE}.storage = 'fast': no such key; known here: kubeconfig, namespace,")


def test_demands_are_those_of_all_slots() -> None:
    said = of_machines()
    own, pods, machines = demands(said, read_options(said), "dev", "amd64").demands
    assert own.names == "ctl,login-1"
    assert (pods.names, pods.cpu_milli, pods.memory_mib) == (
        "cpu-[1-4]",
        4000,
        4352,
    )
    assert (machines.kind, machines.path) == ("machines", "fleets[1].infrastructures[0].options")

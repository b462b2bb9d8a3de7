"""Pools in a spec: what is read, each mistake with its place and remedy, and what Slurm is told of them."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.cluster.specs import POOL, slots_line, spec_mapping, with_pool
from tidepool.cluster import addresses
from tidepool.cluster.pool import ConvergedPool, Kubernetes
from tidepool.cluster.shape import Shape
from tidepool.cluster.slurm_conf import (
    fleets_and_pools,
    gres_conf,
    slot_state,
    slurm_conf,
    topology_conf,
)
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, concerns, read_spec

ONE_KIND = {"partitions": [{"name": "main"}]}


def said(mapping: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as refused:
        read_spec(mapping)
    return [str(mistake) for mistake in refused.value.mistakes]


def test_a_pool_is_read_with_its_defaults() -> None:
    spec = read_spec(with_pool(labels={"example.org/zone": "a", "disk": ""}))
    pool = spec.pool("shared")
    assert (pool.image, pool.prefers, pool.at_deadline) == ("debian-12-converged", "slurm", "stop")
    assert [pool.least(role) for role in ("slurm", "kubernetes")] == [0, 0]
    assert [pool.most(role) for role in ("slurm", "kubernetes")] == [4, 4]
    assert [slot.node_name for slot in pool.slots()] == [f"shared-{n}" for n in range(1, 5)]
    assert str(pool.slots()[2].address) == "10.77.20.3"
    assert spec.kubernetes == Kubernetes()
    assert "debian-12-converged" in spec.images
    assert ClusterSpec.model_validate(spec.model_dump()) == spec
    assert hash(spec) == hash(read_spec(with_pool(labels={"disk": "", "example.org/zone": "a"})))
    with pytest.raises(KeyError):
        spec.pool("cpu")


def test_an_image_for_each_role() -> None:
    spec = read_spec(with_pool(image="old", images={"kubernetes": "new"}, infrastructure="libvirt"))
    pool = spec.pool("shared")
    assert pool.role_images == {"slurm": "old", "kubernetes": "new"}
    assert spec.images_on("libvirt") == ("new", "old")
    assert (spec.roles_of("old"), spec.roles_of("new")) == (("slurm",), ("kubernetes",))
    assert spec.pool_fleet(pool).image == "old"
    # One that both roles have, said twice, is one for both, wherever it is.
    same = read_spec(with_pool(images={"slurm": "debian-12-converged"})).pool("shared")
    assert same.role_images == {}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a minimum over the machines": (
        with_pool(kubernetes_min=5),
        "pools[0].kubernetes_min = 5: more than the 4 machines; lower it, or raise machines",
    ),
    "minimums over the machines": (
        with_pool(slurm_min=3, kubernetes_min=2),
        "pools[0].kubernetes_min = 2: with slurm_min, which is 3, more than the 4 machines; lower one of them, or raise",
    ),
    "a maximum below its minimum": (
        with_pool(slurm_min=3, slurm_max=2),
        "pools[0].slurm_max = 2: less than slurm_min, which is 3; raise it, or lower that",
    ),
    "machines without a role": (
        with_pool(slurm_max=1, kubernetes_max=1),
        "pools[0].kubernetes_max = 1: with slurm_max, which is 1, it leaves 2 of the 4 machines without a role; raise",
    ),
    "more machines than addresses": (
        with_pool(subnet="10.77.20.0/30"),
        "pools[0].machines = 4: the subnet 10.77.20.0/30 has addresses for 2 machines; lower machines, or take a larger",
    ),
    "too many machines": (
        with_pool(machines=251),
        "pools[0].machines = 251: it should be less than or equal to 250. How many machines it has, all the time.",
    ),
    "a fleet's name": (
        with_pool(name="cpu"),
        "pools[0].name = 'cpu': fleets[0] has this name already; give each its own",
    ),
    "another pool's name": (
        with_pool() | {"pools": [POOL, {**POOL, "subnet": "10.77.21.0/24"}]},
        "pools[1].name = 'shared': pools[0] has this name already; give each its own",
    ),
    "the name of a role's files": (
        with_pool() | {"pools": [POOL, {**POOL, "name": "shared-slurm", "subnet": "10.77.21.0/24"}]},
        "pools[1].name = 'shared-slurm': under this name the files of a role of pools[0] (shared) are kept; take another",
    ),
    "like a node": (
        with_pool(name="shared-1"),
        "pools[0].name = 'shared-1': a fleet's name must not look like a node's, which end",
    ),
    "a subnet that a fleet has": (
        with_pool(subnet="10.77.10.128/25"),
        "pools[0].subnet = '10.77.10.128/25': overlaps 10.77.10.0/24 of fleets[0] (cpu); 10.77.1.0/24 is free",
    ),
    "a machine in two pools": (
        with_pool() | {"pools": [POOL, {**POOL, "name": "other"}]},
        "pools[1].subnet = '10.77.20.0/24': overlaps 10.77.20.0/24 of pools[0] (shared); 10.77.1.0/24 is free",
    ),
    "a subnet of the cluster's own": (
        with_pool(subnet="10.77.0.0/24"),
        "pools[0].subnet = '10.77.0.0/24': overlaps 10.77.0.0/26, where the cluster's own machines are; 10.77.1.0/24",
    ),
    "a subnet outside": (
        with_pool(subnet="10.78.0.0/24"),
        "pools[0].subnet = '10.78.0.0/24': not within the network 10.77.0.0/16; 10.77.1.0/24 is free",
    ),
    "no subnet": (
        with_pool() | {"pools": [{key: value for key, value in POOL.items() if key != "subnet"}]},
        (
            "pools[0].subnet: missing. Where its machines have their addresses, within `network`, as a fleet's nodes. "
            "Here, 10.77.1.0/24 is free."
        ),
    ),
    "a feature that is a pool": (
        with_pool() | {"fleets": [{**spec_mapping()["fleets"][0], "features": ["shared"]}], **ONE_KIND},
        "fleets[0].features[0] = 'shared': this is a fleet's name, which is a feature of that fleet's nodes alone",
    ),
    "an unknown fleet": (
        with_pool() | {"partitions": [{"name": "a", "fleets": ["share"]}]},
        "partitions[0].fleets[0] = 'share': there is no such fleet; did you mean shared? known here: cpu, gpu, shared",
    ),
    "an image for each role where none is taken": (
        with_pool(images={"kubernetes": "debian-13-vm-kubernetes"}),
        (
            "pools[0].images: machines of local are not made anew from another image by a conversion: name one image that holds "
            "both roles, or have its machines from aws, libvirt, metal"
        ),
    ),
    "an image of no role": (
        with_pool(images={"slrum": "debian-12"}, infrastructure="libvirt"),
        "pools[0].images.slrum = 'debian-12': no such key; did you mean slurm?",
    ),
    "a controller on no pool's machine": (
        with_pool() | {"controller": {"runs_on": "cpu-1"}},
        "controller.runs_on = 'cpu-1': this is no machine of a pool; write one, as shared-1",
    ),
    "a controller where there are no pools": (
        spec_mapping(controller={"runs_on": "shared-1"}),
        "controller.runs_on = 'shared-1': this is no machine of a pool; there are no pools",
    ),
    "a controller beyond the machines": (
        with_pool() | {"controller": {"runs_on": "shared-5"}},
        "controller.runs_on = 'shared-5': the pool shared has no such machine: its machines are shared-[1-4]",
    ),
    "a controller elsewhere than its files": (
        with_pool(infrastructure="libvirt") | {"controller": {"runs_on": "shared-1"}},
        "controller.runs_on = 'shared-1': slurmctld's files are where the controller is, on local",
    ),
    "a controller that never serves Slurm": (
        with_pool(kubernetes_min=4) | {"controller": {"runs_on": "shared-1"}},
        "controller.runs_on = 'shared-1': no machine of the pool shared ever serves Slurm, by pools[0]: raise slurm_max",
    ),
    "a controller where Slurm has no machine at most": (
        with_pool(slurm_max=0) | {"controller": {"runs_on": "shared-1"}},
        "controller.runs_on = 'shared-1': no machine of the pool shared ever serves Slurm, by pools[0]: raise slurm_max",
    ),
    "two backups of a controller": (
        with_pool() | {"controller": {"runs_on": "shared-1", "backup": True}},
        "controller.backup = True: `ctl` stands by for shared-1 already; leave one of them out",
    ),
    "a controller that Slurm's power saving calls from": (
        with_pool() | {"controller": {"runs_on": "shared-1"}, "scaling": {"mode": "power_save"}},
        "controller.runs_on = 'shared-1': with `mode: power_save` of scaling Slurm asks for nodes on the machine of whoever",
    ),
    "no kubernetes": (
        {**with_pool(), "kubernetes": None},
        "kubernetes: missing, and there are pools, whose machines serve it in turns; write `kubernetes: {}`",
    ),
    "pods where the cluster is": (
        with_pool() | {"kubernetes": {"pod_network": "10.77.128.0/17"}},
        "kubernetes.pod_network = '10.77.128.0/17': overlaps the cluster's network 10.77.0.0/16; 10.255.0.0/16 is free",
    ),
    "pods where the cluster is, by default": (
        spec_mapping(
            network="10.240.0.0/16",
            kubernetes={},
            fleets=[],
            pools=[{**POOL, "subnet": "10.240.1.0/24"}],
            **ONE_KIND,
        ),
        "kubernetes.pod_network = '10.240.0.0/16': overlaps the cluster's network 10.240.0.0/16; 10.255.0.0/16 is free",
    ),
    "services where the cluster is": (
        with_pool() | {"kubernetes": {"service_network": "10.77.64.0/24"}},
        "kubernetes.service_network = '10.77.64.0/24': overlaps the cluster's network 10.77.0.0/16; 10.255.0.0/16 is",
    ),
    "services where pods are": (
        with_pool() | {"kubernetes": {"service_network": "10.240.128.0/17"}},
        "kubernetes.service_network = '10.240.128.0/17': overlaps the pod_network 10.240.0.0/16; 10.255.0.0/16 is free",
    ),
    "public pods": (
        with_pool() | {"kubernetes": {"pod_network": "8.8.0.0/16"}},
        "kubernetes.pod_network = '8.8.0.0/16': is not private; 10.255.0.0/16 is free",
    ),
    "too few pod networks": (
        with_pool() | {"kubernetes": {"pod_network": "10.240.0.0/23"}},
        "kubernetes.pod_network = '10.240.0.0/23': it has room for 2 machines with a /24 each, and the pools take 4",
    ),
    "services for nobody": (
        with_pool() | {"kubernetes": {"service_network": "10.241.0.0/28"}},
        "kubernetes.service_network = '10.241.0.0/28': take a prefix from /12 to /24",
    ),
    "a label": (
        with_pool(labels={"a b": "c"}),
        "pools[0].labels = {'a b': 'c'}: 'a b' is no label: write NAME or DOMAIN/NAME, the name at most 63 letters,",
    ),
    "a label of Kubernetes": (
        with_pool(labels={"node.kubernetes.io/role": "c"}),
        "labels of node.kubernetes.io/ are not for a person to give; leave node.kubernetes.io/role out",
    ),
    "a label's value": (
        with_pool(labels={"a": "-"}),
        "'-' is no value of a label: at most 63",
    ),
    "a role": (with_pool(prefers="both"), "pools[0].prefers = 'both': it should be 'slurm' or 'kubernetes'."),
    "an unknown key": (
        with_pool(machine=3),
        "pools[0].machine = 3: no such key; did you mean machines? known here: name, subnet, machines,",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_where_what_and_what_to_do(mistake: str) -> None:
    mapping, expected = MISTAKES[mistake]
    mistakes = said(mapping)
    assert any(expected in one for one in mistakes), mistakes
    assert len(mistakes) == 1


def test_all_mistakes_are_told_at_once() -> None:
    pool = {**POOL, "slurm_min": 9, "kubernetes_min": 2, "kubernetes_max": 1, "subnet": "10.77.10.0/24"}
    mapping = with_pool() | {"pools": [pool], "kubernetes": {"pod_network": "10.77.0.0/16"}}
    mapping["partitions"][1]["fleets"] = ["pools"]
    assert [mistake.partition(" ")[0] for mistake in said(mapping)] == [
        "pools[0].slurm_min",
        "pools[0].kubernetes_max",
        "pools[0].subnet",
        "kubernetes.pod_network",
        "partitions[1].fleets[0]",
    ]


def test_what_a_person_should_know_of_pools() -> None:
    mapping = with_pool(machines=8) | {"partitions": [{"name": "a", "fleets": ["cpu", "gpu"]}]}
    assert [str(concern) for concern in concerns(read_spec(mapping))] == [
        "pools[0]: no partition has shared, so no job can reach its nodes"
    ]
    assert [str(concern) for concern in concerns(read_spec(spec_mapping(kubernetes={})))] == [
        "kubernetes: there are no pools, so it has no nodes"
    ]
    small = with_pool(machines=8) | {"fleets": [], **ONE_KIND}
    assert [str(concern) for concern in concerns(read_spec(small), 4096)] == [
        (
            "pools[0].machines: 8 machines of 1024 MiB are 8192 MiB, and this machine has 4096 MiB: jobs and pods that use "
            "what they asked for will not fit"
        )
    ]


def test_slurm_takes_a_pool_for_a_fleet() -> None:
    spec = read_spec(
        with_pool(features=["both"]) | {"partitions": [{"name": "a", "fleets": ["cpu", "shared"]}]}
    )
    text = slurm_conf(spec)
    assert "\nNodeSet=ns_shared Feature=shared\n" in text
    assert "\nPartitionName=a Nodes=ns_cpu,ns_shared " in text
    said = slots_line(spec, "shared")
    assert said == (
        "NodeName=shared-[1-4] NodeAddr=10.77.20.[1-4] State=FUTURE CPUs=2 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 "
        "RealMemory=1024 Feature=shared,both"
    )


def test_slurm_knows_the_gres_and_the_place_of_a_pools_machines() -> None:
    mapping = with_pool(shape={"cpus": 2, "memory": "1GiB", "gres": ["fpga:1"]}) | {"topology": "tree"}
    spec = read_spec(mapping)
    assert "NodeName=shared-[1-4] Name=fpga Count=1\n" in gres_conf(spec)
    assert "SwitchName=sw_shared Nodes=shared-[1-4]\n" in (topology_conf(spec) or "")
    assert "Switches=sw_cpu,sw_gpu,sw_shared\n" in (topology_conf(spec) or "")
    assert "\nGresTypes=fpga,gpu,lic\n" in slurm_conf(spec)
    assert "\nNodeName=shared-[1-4] NodeAddr=10.77.20.[1-4] State=FUTURE " in slurm_conf(spec)
    only = read_spec({**mapping, "fleets": [], **ONE_KIND})
    assert "Switches=sw_shared\n" in (topology_conf(only) or "")
    assert "TopologyPlugin=topology/tree" in slurm_conf(only)


def test_slurm_has_room_for_the_machines_of_pools() -> None:
    pools = [{**POOL, "name": f"p{n}x", "subnet": f"10.77.{100 + n}.0/24", "machines": 250} for n in range(5)]
    spec = read_spec(spec_mapping(pools=pools, kubernetes={"pod_network": "172.16.0.0/12"}))
    assert "\nMaxNodeCount=2048\n" in slurm_conf(spec)
    fleets = [
        {"name": "big", "subnet": "10.1.0.0/16", "max_nodes": 65_534, "shape": {"cpus": 1, "memory": 99}}
    ]
    mapping = with_pool(subnet="10.2.0.0/24") | {"network": "10.0.0.0/8", "fleets": fleets, **ONE_KIND}
    mapping["kubernetes"] = {"pod_network": "172.16.0.0/16", "service_network": "172.17.0.0/16"}
    assert said(mapping) == [
        "fleets: their max_nodes sum up to 65538, with the 4 machines of pools, and Slurm has room for 65536; lower them"
    ]


def test_power_saving_never_asks_for_a_machine_that_serves_kubernetes() -> None:
    spec = read_spec(with_pool() | {"scaling": {"mode": "power_save"}})
    assert [slot_state(spec, each) for each in fleets_and_pools(spec)] == ["CLOUD", "CLOUD", "FUTURE"]
    assert " State=FUTURE " in slots_line(spec, "shared")
    assert "tidepool_shared" not in slurm_conf(spec)


def test_a_pool_made_in_python_is_checked_too() -> None:
    shape = Shape(cpus=1, memory_mib=100)
    with pytest.raises(ValidationError, match="more than the 2 machines"):
        ConvergedPool(
            name="a",
            subnet=IPv4Network("10.0.1.0/24"),
            machines=2,
            shape=shape,
            slurm_min=1,
            kubernetes_min=2,
        )


whole = st.none() | st.integers(-1, 6)


@settings(deadline=None)
@given(st.integers(0, 5), whole, whole, whole, whole)
def test_limits_that_are_read_can_be_kept(
    machines: int, slurm_min: int | None, slurm_max: int | None, kube_min: int | None, kube_max: int | None
) -> None:
    """There is a number of machines for Kubernetes that breaks none of them, or the spec is refused."""
    limits = {
        "slurm_min": slurm_min,
        "slurm_max": slurm_max,
        "kubernetes_min": kube_min,
        "kubernetes_max": kube_max,
    }
    given_ones = {key: value for key, value in limits.items() if value is not None}

    def keeps(serving: int) -> bool:
        others = machines - serving
        return (slurm_min or 0) <= others <= (slurm_max if slurm_max is not None else machines) and (
            kube_min or 0
        ) <= serving <= (kube_max if kube_max is not None else machines)

    is_fit = machines >= 1 and all(value >= 0 for value in given_ones.values())
    is_fit = is_fit and (slurm_max is None or slurm_max >= (slurm_min or 0))
    is_fit = is_fit and (kube_max is None or kube_max >= (kube_min or 0))
    is_kept = any(map(keeps, range(machines + 1)))
    mapping = with_pool(machines=machines, **given_ones)
    if is_fit and is_kept:
        read_spec(mapping)
    else:
        assert said(mapping)


@settings(deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from([*ConvergedPool.model_fields, "other"]),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2),
    ),
    st.none() | st.dictionaries(st.sampled_from([*Kubernetes.model_fields]), st.integers() | st.text()),
)
def test_whatever_stands_there_is_read_or_refused_in_words(pool: dict[str, Any], kubernetes: Any) -> None:
    with suppress(SpecError):
        read_spec({**with_pool(**pool), "kubernetes": kubernetes})


@given(st.lists(st.integers(0, 255).map(lambda n: IPv4Network((10 << 24 | n << 16, 16))), max_size=300))
def test_a_free_network_overlaps_nothing(taken: list[IPv4Network]) -> None:
    free = addresses.free_network(taken)
    assert free.is_private
    assert not any(free.overlaps(other) for other in taken)

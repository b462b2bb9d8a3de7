"""What a region lacks of what is asked of it: all of it, each with where it was asked for and the remedy."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest

from tests.infrastructures.aws.regions import FACTS, asked, demand
from tests.infrastructures.aws.specs import GIVEN, OTHER_ZONE, ZONE, spec
from tidepool.infrastructures.aws.demands import lacks, quota_of, type_facts, wanted
from tidepool.infrastructures.aws.reading import read_options

FAR = [f"198.51.100.{each}/32" for each in range(60)]


def test_a_region_that_has_all_lacks_nothing() -> None:
    assert (
        lacks(
            FACTS,
            asked(
                demand(market="spot"),
                demand(instance_type="hpc7a.96xlarge", cpus=192, threads_per_core=1, efa=2, clustered=True),
            ),
        )
        == ()
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instance_type": "c9.huge"}, "options.instance_type: the region eu-central-1 has no c9.huge; `aws ec2 describe-"),
        ({"efa": 1}, "options.efa: c7i.2xlarge has no Elastic Fabric Adapter; take a type that has one"),
        ({"instance_type": "c7g.2xlarge", "threads_per_core": 1}, "options.instance_type: c7g.2xlarge is arm64, and images are x86_64, as is the machine that makes them: take a type of Intel or AMD"),
        ({"instance_type": "hpc7a.96xlarge", "threads_per_core": 1, "efa": 3}, "options.efa: hpc7a.96xlarge has 2 Elastic Fabric Adapters at most, and 3 are asked for: write 2, or take another type"),
        ({"instance_type": "p6-b300.48xlarge", "market": "spot", "efa": 16}, "options.efa: p6-b300.48xlarge has 17 network cards and adapters for 16 of them, and AWS does not say which"),
        ({"cpus": 16}, "c7i.2xlarge has 8 processors with 2 threads of a core, and the shape 16: take a larger type, or lower"),
        ({"threads_per_core": 1}, "c7i.2xlarge has 4 processors with 1 threads of a core, and the shape 8: take a larger"),
        ({"memory_mib": 16385}, "16384 MiB of memory, and the shape with its overhead 16385: take a larger type, or lower"),
        ({"gpus": 1}, "c7i.2xlarge has 0 GPUs, and the shape 1: take another type, or lower its gres"),
        ({"instance_type": "t3.large", "cpus": 2, "memory_mib": 4096, "clustered": True}, "options.placement_group: t3.large cannot be in a cluster placement group"),
        ({"instance_type": "hpc7a.96xlarge", "threads_per_core": 1, "zone": OTHER_ZONE}, f"options.zone: {OTHER_ZONE} has no hpc7a.96xlarge; it is in {ZONE}"),
        ({"instance_type": "hpc7a.96xlarge", "threads_per_core": 1, "market": "spot"}, "options.market: hpc7a.96xlarge is not sold as spot; write on-demand"),
        ({"instance_type": "hpc7a.96xlarge"}, "cores of hpc7a.96xlarge have 1 thread, and those of the shape 2: write threads_per_core: 1"),
        ({"instance_type": "p4d.24xlarge"}, "the account may have 0 vCPUs of such machines (on-demand), and one p4d.24xlarge has 96: ask AWS for more, `aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-417A185B --desired-value 384`"),
    ],
)  # fmt: skip
def test_what_is_missing_is_told_with_its_key_and_the_remedy(changes: dict[str, Any], words: str) -> None:
    (lack,) = lacks(FACTS, asked(demand(**changes)))
    assert words in lack


def test_images_that_are_made_on_graviton_are_for_graviton() -> None:
    (lack,) = lacks(FACTS, asked(architecture="arm64"))
    assert lack.startswith(
        "options.instance_type: c7i.2xlarge is x86_64, and images are arm64, as is the machine that makes"
    )
    assert lack.endswith("take a type of Graviton")
    arm = demand(instance_type="c7g.2xlarge", threads_per_core=1)
    assert lacks(FACTS, asked(arm, architecture="arm64")) == ()


def test_all_that_is_missing_is_told_at_once() -> None:
    wrong = demand(efa=1, cpus=64, memory_mib=10**6, zone="eu-central-1c")
    told = lacks(FACTS, asked(wrong, demand(path="other", instance_type="c9.huge")))
    assert [each.partition(":")[0] for each in told] == [
        "options.zone",
        "options.efa",
        "options.instance_type",
        "options.instance_type",
        "other.instance_type",
    ]


def test_each_machine_is_a_route_and_a_table_has_only_so_many() -> None:
    (lack,) = lacks(FACTS, asked(demand(machines=501)))
    assert "there can be 501 machines, each with a route of its own, and a route table has 500" in lack
    assert lacks(replace(FACTS, routes=None), asked(demand(machines=501))) == ()


@pytest.mark.parametrize(
    ("firewall", "place", "key", "count"),
    [
        # Five more are what nodes reach in any case.
        ({"nodes": {"egress": [{"to": FAR[:56]}]}}, {}, "firewall.nodes.egress", 61),
        ({"nodes": {"egress": [{"to": FAR[:19], "ports": [1, 3, 5]}]}}, {}, "firewall.nodes.egress", 62),
        ({"logins": {"egress": [{"to": FAR[:57]}]}}, {}, "firewall.logins.egress", 61),
        ({"logins": {"ingress": [{"from": FAR[:59]}]}}, {}, "firewall.logins.ingress", 61),
        ({}, {"administrators": FAR[:55]}, "controller.infrastructure.options.administrators", 61),
    ],
)
def test_a_security_group_takes_only_so_many_rules(
    firewall: dict[str, Any], place: dict[str, Any], key: str, count: int
) -> None:
    described = spec(given=GIVEN, firewall=firewall, **place)
    asked_for = asked(rules=wanted(described, read_options(described, "dev")).rules)
    for facts in (FACTS, replace(FACTS, rules=60)):
        (lack,) = lacks(facts, asked_for)
        assert lack.startswith(f"{key}: a security group would have {count} rules"), lack
        assert f"--quota-code L-0EA8095F --desired-value {count}`" in lack
    assert lacks(replace(FACTS, rules=count), asked_for) == ()


def test_a_given_vpc_is_there_with_its_subnets_and_apart_from_the_clusters_network() -> None:
    given = asked(vpc="vpc-1", subnets={ZONE: "subnet-a", OTHER_ZONE: "subnet-b"})
    zones = {"subnet-a": ZONE, "subnet-b": OTHER_ZONE}
    fits = replace(FACTS, vpc=(IPv4Network("172.31.0.0/16"),), subnet_zones=zones)
    assert lacks(fits, given) == ()
    (lack,) = lacks(replace(fits, vpc=(IPv4Network("10.0.0.0/8"),)), given)
    assert (
        "place.given.vpc: vpc-1 has the addresses 10.0.0.0/8, which the cluster's network 10.77.0.0/16 overlaps"
        in lack
    )
    told = lacks(replace(fits, vpc=(), subnet_zones={"subnet-a": OTHER_ZONE}), given)
    assert told == (
        "place.given.vpc: the region eu-central-1 has no vpc-1",
        f"place.given.subnets.{ZONE}: subnet-a is in {OTHER_ZONE}; write it there",
        f"place.given.subnets.{OTHER_ZONE}: vpc-1 has no subnet-b",
    )


@pytest.mark.parametrize(
    ("name", "market", "code"),
    [
        ("c7i.large", "on-demand", "L-1216C47A"),
        ("t3.large", "spot", "L-34B43A08"),
        ("d3.xlarge", "on-demand", "L-1216C47A"),
        ("i4i.large", "on-demand", "L-1216C47A"),
        ("inf2.xlarge", "on-demand", "L-1945791B"),
        ("trn1.2xlarge", "on-demand", "L-2C3B7624"),
        ("g5.xlarge", "spot", "L-3819A6DF"),
        ("p5.48xlarge", "on-demand", "L-417A185B"),
        ("hpc7a.96xlarge", "spot", ""),
    ],
)
def test_a_quota_is_that_of_the_types_family(name: str, market: str, code: str) -> None:
    assert quota_of(name, market) == code


def test_facts_are_read_from_what_ec2_says() -> None:
    said = {
        "InstanceType": "p4d.24xlarge",
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": 96, "DefaultCores": 48, "DefaultThreadsPerCore": 2},
        "MemoryInfo": {"SizeInMiB": 1_179_648},
        "GpuInfo": {"Gpus": [{"Count": 8}]},
        "NetworkInfo": {
            "EfaSupported": True,
            "EfaInfo": {"MaximumEfaInterfaces": 4},
            "MaximumNetworkCards": 4,
        },
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster"]},
        "SupportedUsageClasses": ["on-demand", "spot"],
    }
    facts = type_facts(said, frozenset({ZONE}))
    assert (facts.cores, facts.gpus, facts.efa, facts.cards, facts.memory_mib) == (48, 8, 4, 4, 1_179_648)
    said["NetworkInfo"] = {"EfaSupported": False}
    assert type_facts(said, frozenset()).efa == 0

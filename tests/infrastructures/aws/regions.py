"""A region as it is: a few instance types, with quotas."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

from tests.infrastructures.aws.specs import OTHER_ZONE, REGION, ZONE
from tidepool.infrastructures.aws.demands import Demand, Demands, Facts, TypeFacts

BOTH = frozenset({ZONE, OTHER_ZONE})
C7I = TypeFacts(
    "c7i.2xlarge",
    frozenset({"x86_64"}),
    8,
    2,
    16384,
    placement=frozenset({"cluster", "partition", "spread"}),
    markets=frozenset({"on-demand", "spot"}),
    zones=BOTH,
)
HPC = replace(
    C7I,
    name="hpc7a.96xlarge",
    vcpus=192,
    threads_per_core=1,
    memory_mib=786_432,
    efa=2,
    cards=2,
    zones=frozenset({ZONE}),
    markets=frozenset({"on-demand"}),
)
T3 = replace(C7I, name="t3.large", vcpus=2, memory_mib=8192, placement=frozenset({"partition", "spread"}))
ARM = replace(C7I, name="c7g.2xlarge", architectures=frozenset({"arm64"}), threads_per_core=1)
GPU = replace(C7I, name="p4d.24xlarge", vcpus=96, memory_mib=1_179_648, gpus=8, efa=4, cards=4)
ODD = replace(GPU, name="p6-b300.48xlarge", efa=16, cards=17)
FACTS = Facts(
    {each.name: each for each in (C7I, HPC, T3, ARM, GPU, ODD)},
    {"L-1216C47A": 640, "L-34B43A08": 640, "L-417A185B": 0},
    routes=500,
)


def demand(**changes: Any) -> Demand:
    """Of four machines that the region has."""
    usual = Demand("options", "c7i.2xlarge", ZONE, "on-demand", 4, 8, 2, 15 * 1024)
    return replace(usual, **changes)


def asked(*demands: Demand, **changes: Any) -> Demands:
    usual = Demands(REGION, "place", IPv4Network("10.77.0.0/16"), demands or (demand(),))
    return replace(usual, **changes)

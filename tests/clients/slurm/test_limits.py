"""Limits in force as slurmctld writes them, and which of them Slurm's reason of a job tells of."""

from __future__ import annotations

import pytest

from tidepool.clients.slurm.limits import Limited, Use, exceeded, holding, limit_of, lowered, parse_limits

#: Of Slurm 22.05, shortened.
WRITTEN = """\
Current Association Manager state

Association Records

ClusterName=contract Account=root UserName= Partition= Priority=0 ID=1 ParentAccount= Lft=1 GrpJobs=N(0) GrpTRES=cpu=N(0),mem=N(0) MaxJobs= MaxWallPJ= MaxTRESPJ=
ClusterName=contract Account=physics UserName= Partition= Priority=0 ID=3 ParentAccount=root(1) Lft=2 GrpJobs=5(2) GrpTRES=cpu=4(2),mem=300(0),gres/gpu=2(1) GrpTRESMins=cpu=90(17) MaxJobs= MaxWallPJ=60 MaxTRESPJ=cpu=2
ClusterName=contract Account=optics UserName= Partition= Priority=0 ID=4 ParentAccount=physics(3) Lft=3 GrpJobs=N(2) GrpTRES=cpu=2(2),mem=N(0) MaxJobs= MaxTRESPJ=
ClusterName=contract Account=optics UserName=ada(1001) Partition= Priority=0 ID=5 ParentAccount= Lft=4 DefAssoc=Yes GrpJobs=N(2) GrpTRES=cpu=N(2),mem=N(0) MaxJobs=3(2) MaxTRESPJ=
QOS Records

QOS=urgent(2) UsageRaw=0.000000 GrpJobs=N(0) GrpTRES=cpu=N(0),mem=N(0) MaxWallPJ= MaxTRESPJ= Priority=0 Account Limits= optics={MaxJobsPA=N(0) MaxTRESPA=cpu=N(0),mem=N(0)} User Limits= 1001={MaxJobsPU=N(0) MaxTRESPU=cpu=1(0),mem=N(0)}
"""


def held(reason: str, qos: str = "normal") -> list[str]:
    found = holding(reason, "optics", "ada", qos, parse_limits(WRITTEN))
    return [f"{name} {resource} {use.value} {use.used} of {who}" for who, (name, resource), use in found]


def test_records_have_the_limits_that_are_set() -> None:
    _, physics, optics, ada, urgent = parse_limits(WRITTEN)
    assert (physics.account, physics.user, physics.parent) == ("physics", "", "root")
    assert physics.limits["GrpTRES", "gres/gpu"] == Use("2", "1")
    assert physics.limits["MaxTRESPerJob", "cpu"] == Use("2")
    assert optics == Limited({("GrpTRES", "cpu"): Use("2", "2")}, "optics", parent="physics")
    assert ada == Limited({("MaxJobs", ""): Use("3", "2")}, "optics", "ada")
    assert urgent.limits == {("MaxTRESPerUser", "cpu"): Use("1", "0")}


@pytest.mark.parametrize(
    ("reason", "limit"),
    [
        ("AssocGrpCpuLimit", ("GrpTRES", "cpu")),
        ("AssocGrpCPUMinutesLimit", ("GrpTRESMins", "cpu")),
        ("AssocGrpCPURunMinutesLimit", ("GrpTRESRunMins", "cpu")),
        ("AssocGrpMemRunMinutes", ("GrpTRESRunMins", "mem")),
        ("AssocGrpGRES", ("GrpTRES", "gres")),
        ("AssocGrpJobsLimit", ("GrpJobs", "")),
        ("AssocMaxJobsLimit", ("MaxJobs", "")),
        ("AssocMaxWallDurationPerJobLimit", ("MaxWallDurationPerJob", "")),
        ("AssocMaxCpuPerJobLimit", ("MaxTRESPerJob", "cpu")),
        ("AssocMaxCpuMinutesPerJobLimit", ("MaxTRESMinsPerJob", "cpu")),
        ("QOSMaxCpuPerUserLimit", ("MaxTRESPerUser", "cpu")),
        ("QOSMaxJobsPerUserLimit", ("MaxJobsPerUser", "")),
        ("QOSGrpNodeLimit", ("GrpTRES", "node")),
        ("Resources", None),
        ("AssociationJobLimit", None),
    ],
)
def test_a_reason_of_slurm_names_a_limit(reason: str, limit: tuple[str, str] | None) -> None:
    assert limit_of(reason) == limit


def test_all_above_that_count_a_group_are_told_and_of_others_the_nearest() -> None:
    assert held("AssocGrpCpuLimit") == [
        "GrpTRES cpu 2 2 of the account optics",
        "GrpTRES cpu 4 2 of the account physics",
    ]
    assert held("AssocGrpGRES") == ["GrpTRES gres/gpu 2 1 of the account physics"]
    assert held("AssocMaxJobsLimit") == ["MaxJobs  3 2 of ada in the account optics"]
    assert held("QOSMaxCpuPerUserLimit", "urgent") == [
        "MaxTRESPerUser cpu 1 0 of the quality of service urgent"
    ]
    assert held("QOSMaxCpuPerUserLimit") == held("Priority") == []


def test_limits_below_what_is_used_are_told_whether_there_was_one_or_not() -> None:
    _, physics, optics, ada, _ = parse_limits(WRITTEN)
    asked = {"GrpTRES": "cpu=1,gres/gpu=1,mem=300M", "GrpJobs": "1", "MaxTRESPerJob": "cpu=1"}
    assert list(exceeded(asked, physics)) == [
        "GrpTRES cpu=1 of the account physics is less than is used, 2",
        "GrpJobs 1 of the account physics is less than is used, 2",
    ]
    assert list(exceeded({"GrpJobs": "1"}, optics)) == [
        "GrpJobs 1 of the account optics is less than is used, 2"
    ]
    assert list(exceeded({"MaxJobs": "2"}, ada)) == []


@pytest.mark.parametrize(
    ("before", "after", "is_lower"),
    [
        ({"MaxJobs": "3"}, {"MaxJobs": "2"}, True),
        ({"MaxJobs": "9"}, {"MaxJobs": "10"}, False),
        ({}, {"MaxJobs": "3"}, True),
        ({"MaxJobs": "3"}, {}, False),
        ({"GrpTRES": "cpu=4,mem=300M"}, {"GrpTRES": "cpu=8,mem=300M"}, False),
        ({"GrpTRES": "cpu=4,mem=300M"}, {"GrpTRES": "cpu=8,mem=299M"}, True),
        ({"GrpTRES": "cpu=4,mem=300M"}, {"GrpTRES": "cpu=4"}, False),
        ({"GrpTRES": "cpu=4"}, {"GrpTRES": "cpu=4,gres/gpu=1"}, True),
        ({"MaxWallDurationPerJob": "2-00:00:00"}, {"MaxWallDurationPerJob": "1-00:00:00"}, True),
        ({"MaxWallDurationPerJob": "1-00:00:00"}, {"MaxWallDurationPerJob": "1-00:00:00"}, False),
    ],
)
def test_a_limit_is_lower_where_it_is_not_seen_to_allow_as_much(
    before: dict[str, str], after: dict[str, str], is_lower: bool
) -> None:
    assert bool(lowered(before, after)) is is_lower

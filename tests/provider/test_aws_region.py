"""A region of AWS is asked in each check, and all that it lacks is told: before anything is made. moto is the AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.aws.front import Front, client, front
from tests.infrastructures.aws.specs import OTHER_ZONE, REGION, ZONE
from tests.provider.calls import Preflights

DEMAND: dict[str, Any] = {
    "path": "fleets[0].infrastructures[0].options",
    "instanceType": "c6i.2xlarge",
    "zone": ZONE,
    "market": "on-demand",
    "machines": 4,
    "cpus": 8,
    "threadsPerCore": 2,
    "memoryMib": 15360,
}
INPUTS: dict[str, Any] = {
    "region": REGION,
    "path": "controller.infrastructure.options",
    "network": "10.77.0.0/16",
    "demands": [DEMAND],
}


@pytest.fixture
def region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Preflights]:
    """The kind, which asks moto behind its front."""
    made, _ = front()
    made.forget()
    monkeypatch.setattr("tidepool.infrastructures.aws.ask.client", lambda service, _: client(service))
    yield Preflights(tmp_path, "aws")
    made.forget()


def test_a_region_that_has_all_passes_the_check(region: Preflights) -> None:
    assert region.failures(INPUTS) == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"efa": 1}, "options.efa: c6i.2xlarge has no Elastic Fabric Adapter"),
        ({"instanceType": "c6g.2xlarge", "threadsPerCore": 1}, "c6g.2xlarge is arm64, and images are x86_64"),
        ({"instanceType": "p4d.24xlarge", "memoryMib": 4096, "efa": 5}, "p4d.24xlarge has 4 Elastic Fabric Adapters at most"),
        ({"cpus": 64}, "c6i.2xlarge has 8 processors with 2 threads of a core, and the shape 64"),
        ({"instanceType": "t3.large", "cpus": 2, "memoryMib": 4096, "clustered": True}, "t3.large cannot be in a cluster placement group"),
        ({"instanceType": "c99.large"}, f"the region {REGION} has no c99.large"),
        ({"zone": "eu-central-1x"}, "eu-central-1x has no c6i.2xlarge; it is in"),
    ],
)  # fmt: skip
def test_a_region_that_lacks_something_fails_the_check(
    region: Preflights, changes: dict[str, Any], words: str
) -> None:
    assert words in region.failures({**INPUTS, "demands": [{**DEMAND, **changes}]})["path"]


def test_a_given_vpc_is_looked_at(region: Preflights) -> None:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.77.0.0/20")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.1.0/24", AvailabilityZone=OTHER_ZONE)["Subnet"][
        "SubnetId"
    ]
    given = {**INPUTS, "vpc": vpc, "subnets": {OTHER_ZONE: subnet}}
    assert "10.77.0.0/20, which the cluster's network 10.77.0.0/16 overlaps" in region.failures(given)["path"]
    assert region.failures({**given, "network": "10.99.0.0/16"}) == {}
    moved = {**given, "network": "10.99.0.0/16", "subnets": {ZONE: subnet}}
    assert f"given.subnets.{ZONE}: {subnet} is in {OTHER_ZONE}" in region.failures(moved)["path"]


def test_aws_that_lets_nobody_ask_fails_the_check_with_its_words(region: Preflights) -> None:
    made: Front = front()[0]
    made.fail("UnauthorizedOperation")
    said = region.failures(INPUTS)["path"]
    assert "the region eu-central-1 cannot be asked: " in said
    assert "UnauthorizedOperation" in said
    assert "try it by hand: aws ec2 describe-vpcs" in said

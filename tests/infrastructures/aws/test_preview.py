"""The repository's program on AWS, previewed by the embedded engine, with moto as the AWS: nothing that it lacks is left to a launch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import versions
from tests.components.by_engine import ByEngine
from tests.forking import fork_server
from tests.golden import store_folder
from tests.infrastructures.aws.front import front
from tests.infrastructures.aws.specs import OTHER_ZONE, REGION, ZONE, mapping
from tests.plugins.aws import IMPORTED
from tests.plugins.serving import search_path
from tests.plugins.test_aws import a_vpc
from tests.whole.cluster import ROOT

pytest.importorskip("pulumi_aws", reason="pulumi-aws is not installed: scripts/setup installs it")

pytestmark = [pytest.mark.runs("aws", versions.installed("moto"))]


class AtMoto(ByEngine):
    """With somebody's credentials, and moto in AWS's place."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "PATH": search_path(self.folder.parent / "plugins", "aws"),
            "AWS_ENDPOINT_URL": front()[1],
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }


@pytest.fixture(autouse=True)
def aws() -> Iterator[None]:
    """Without faults."""
    fork_server().import_ahead(*IMPORTED)
    made, _ = front()
    made.forget()
    yield
    made.forget()


def preview(folder: Path, *offerings: dict[str, Any]) -> str:
    """What a preview says, which must fail, of a fleet for each offering; nothing was made."""
    described = mapping()
    first = described["fleets"][0]
    described["fleets"] = [
        {
            **first,
            "name": name,
            "subnet": f"10.77.{number}.0/24",
            "infrastructures": [{"name": "aws", "options": offering}],
        }
        for number, (name, offering) in enumerate(zip("abcde", offerings, strict=False), 10)
    ]
    described["controller"]["shape"] = {"cpus": 2, "memory": "2GiB", "threads_per_core": 2}
    described["controller"]["infrastructure"]["options"]["machines"] = {"instance_type": "m5.large"}
    described = {key: value for key, value in described.items() if key != "name"}
    cluster = AtMoto.make(folder, store_folder(), "cloud", **described)
    cluster.write_spec()
    cluster.engine("stack init")
    before = list(front()[0].calls)
    with pytest.raises(AssertionError) as raised:
        cluster.engine("preview")
    asked = front()[0].calls[len(before) :]
    assert not [each for each in asked if not each.startswith("Describe") and "Get" not in each], asked
    assert "Traceback" not in str(raised.value)
    return str(raised.value)


def test_all_that_a_region_lacks_is_told_at_once_each_with_its_key_and_the_remedy(tmp_path: Path) -> None:
    said = preview(
        tmp_path,
        {"instance_type": "c6i.2xlarge", "efa": True},
        {"instance_type": "c6g.2xlarge"},
        {"instance_type": "p4d.24xlarge", "efa": 5},
        {"instance_type": "t3.2xlarge", "placement_group": "near"},
        {"instance_type": "c99.large"},
    )
    at = "fleets[{}].infrastructures[0].options"
    for words in (
        f"{at.format(0)}.efa: c6i.2xlarge has no Elastic Fabric Adapter; take a type that has one",
        f"{at.format(1)}.instance_type: c6g.2xlarge is arm64, and images are x86_64, as is the machine that makes them: take a",
        f"{at.format(2)}.efa: p4d.24xlarge has 4 Elastic Fabric Adapters at most, and 5 are asked for: write 4, or take another",
        f"{at.format(3)}.placement_group: t3.2xlarge cannot be in a cluster placement group; take another type, or leave it out",
        f"{at.format(4)}.instance_type: the region {REGION} has no c99.large; `aws ec2 describe-instance-types",
    ):
        assert words in said, f"{words} is not in\n{said}"


def test_a_placement_group_over_two_zones_is_told_before_aws_is_asked(tmp_path: Path) -> None:
    near = {"instance_type": "c6i.2xlarge", "placement_group": "near"}
    said = preview(tmp_path, near, {**near, "zone": OTHER_ZONE}, {**near, "efa": -1})
    assert (
        f"fleets[1].infrastructures[0].options.placement_group = 'near': it is in {OTHER_ZONE} here, and in {ZONE} by"
        in said
    )
    assert "give it another name here, or the same zone" in said
    assert "fleets[2].infrastructures[0].options.efa = -1" in said


def test_the_projects_own_stack_is_previewed_whole_with_the_plugin(tmp_path: Path) -> None:
    spec = yaml.safe_load((ROOT / "Pulumi.aws.yaml").read_text())["config"]["cluster:spec"]
    vpc, subnet, table = a_vpc()
    spec["controller"]["infrastructure"]["options"]["given"] = {
        "vpc": vpc,
        "subnets": {ZONE: subnet},
        "route_table": table,
    }
    described = {key: value for key, value in spec.items() if key != "name"}
    cluster = AtMoto.make(tmp_path, store_folder(), "cloud", **described)
    cluster.write_spec()
    cluster.engine("stack init")
    assert "+ 108 to create" in cluster.engine("preview", timeout_s=300)

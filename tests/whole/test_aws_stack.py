"""The project's own stack of AWS, whole: its instances are moto's, and behind each is a machine of this kernel.

What moto cannot do is faked in front of it, and listed: `tests.infrastructures.aws.cloud`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.aws.cloud import Cloud, cloud
from tests.infrastructures.aws.specs import ZONE
from tests.plugins.serving import search_path
from tests.whole.breathing import scale_until
from tests.whole.cluster import LONG_S, summary
from tests.whole.elsewhere import UNTIL_TOLD, Elsewhere, example
from tidepool.clients.slurm import JobState

pytest.importorskip("pulumi_aws", reason="pulumi-aws is not installed: scripts/setup installs it")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs("aws", versions.installed("moto"), versions.slurm("debian-12-cloud")),
]

#: Longer than all may take on a busy machine.
UP_S = 600.0


@dataclass
class AtAws(Elsewhere):
    """With somebody's credentials, and AWS where the tests have it."""

    url: str = field(default="")

    @property
    def environment(self) -> dict[str, str]:
        credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        return {**super().environment, **credentials, "AWS_ENDPOINT_URL": self.url}


@pytest.fixture(scope="module")
def aws(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud(tmp_path_factory.mktemp("aws")) as it:
        yield it


@pytest.fixture
def cluster(aws: Cloud, tmp_path: Path) -> Iterator[AtAws]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    images = golden_store(example("aws")["image"])
    it = AtAws.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}", **here(aws))
    it.through, it.path, it.url = aws.prefix, search_path(tmp_path / "plugins", "aws"), aws.url
    try:
        yield it
    finally:
        it.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)


def here(aws: Cloud) -> dict[str, Any]:
    """The project's spec, with what is of this machine: the VPC, small nodes, and times that are short."""
    spec = example("aws")
    spec["controller"]["infrastructure"]["options"]["given"] = {
        "vpc": aws.vpc,
        "subnets": {ZONE: aws.subnet},
        "route_table": aws.route_table,
    }
    (fleet,) = spec["fleets"]
    fleet |= {"min_nodes": 1, "shape": {"cpus": 2, "memory": "256MiB"}, "idle_timeout_s": 1}
    return spec | {"slurm_conf": {"SlurmdTimeout": 10}}


def there(aws: Cloud) -> set[str]:
    """The names of the machines that are there."""
    return set(aws.machines())


def left(aws: Cloud, stack: str) -> list[str]:
    """What AWS has of a stack."""
    iam, secrets, s3 = aws.client("iam"), aws.client("secretsmanager"), aws.client("s3")
    tagged = [{"Name": "tag:tidepool:stack", "Values": [stack]}]
    (table,) = aws.ec2.describe_route_tables(RouteTableIds=[aws.route_table])["RouteTables"]
    systems = aws.client("efs").describe_file_systems()["FileSystems"]
    return [
        *aws.machines(),
        *(each["VolumeId"] for each in aws.ec2.describe_volumes(Filters=tagged)["Volumes"]),
        *(each["GroupName"] for each in aws.ec2.describe_security_groups(Filters=tagged)["SecurityGroups"]),
        *(each["ImageId"] for each in aws.ec2.describe_images(Filters=tagged)["Images"]),
        *(each["RoleName"] for each in iam.list_roles()["Roles"] if stack in each["RoleName"]),
        *(each["InstanceProfileName"] for each in iam.list_instance_profiles()["InstanceProfiles"]),
        *(each["Name"] for each in secrets.list_secrets()["SecretList"] if stack in each["Name"]),
        *(each["Name"] for each in s3.list_buckets()["Buckets"]),
        *(each["DestinationCidrBlock"] for each in table["Routes"] if each.get("NetworkInterfaceId")),
        *(tag["Value"] for each in systems for tag in each["Tags"] if tag["Key"] == "Name"),
    ]


def test_the_stack_of_the_project_comes_up_breathes_changes_loses_a_machine_and_goes(
    cluster: AtAws, aws: Cloud
) -> None:
    assert left(aws, cluster.stack) == []
    cluster.up(timeout_s=UP_S)
    own = {"ctl", "login-1"}
    assert there(aws) == own | {"cpu-1"}
    assert set(summary(cluster.up("--json", timeout_s=UP_S))["changes"]) == {"same"}
    first = aws.machines()

    # The queue brings machines, which go when it is empty.
    job = cluster.submit(f"srun hostname; {UNTIL_TOLD}", nodes="3", output="where.out")
    scale_until(cluster, lambda: len(cluster.nodes()) == 3, "there are three nodes", UP_S)
    assert there(aws) == own | {"cpu-1", "cpu-2", "cpu-3"}
    cluster.tell()
    ended = cluster.until_job(job, JobState.COMPLETED, JobState.FAILED, timeout_s=LONG_S)
    assert ended.state is JobState.COMPLETED
    written = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout
    assert sorted(written.split()) == ["cpu-1", "cpu-2", "cpu-3"]
    scale_until(cluster, lambda: len(there(aws)) == 3, "they go", UP_S)

    # Another shape is another machine, and the cluster's own are not touched.
    (node,) = there(aws) - own
    before = aws.machines()
    cluster.spec["fleets"][0]["shape"]["memory"] = "320MiB"
    cluster.up(timeout_s=UP_S)
    (node,) = there(aws) - own
    now = aws.machines()
    assert now[node] != before.get(node)
    assert {name: now[name] for name in own} == {name: first[name] for name in own}
    assert cluster.nodes()[node].memory_mib == 320

    # AWS takes a spot machine back: its job waits, and runs on the next one.
    again = 'test -n "$SLURM_RESTART_COUNT" || sleep 600; srun hostname'
    job = cluster.submit(again, output="again.out")
    cluster.until_job(job, JobState.RUNNING, timeout_s=LONG_S)
    aws.ec2.terminate_instances(InstanceIds=[now[node]])
    assert "1 deleted" in cluster.refresh(UP_S)
    assert there(aws) == own
    scale_until(cluster, lambda: cluster.job(job).state is JobState.COMPLETED, "the job has run again", UP_S)
    restarts = cluster.job(job).restarts
    assert restarts == 1, cluster.tidepool("logs", "--lines", "400", "ctl")
    assert aws.machines().get(node) != now[node]

    cluster.down(UP_S)
    # Homes are people's.
    assert left(aws, cluster.stack) == [f"tidepool-{cluster.stack}-home"]

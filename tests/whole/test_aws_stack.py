"""The project's own stack of AWS, whole: its instances are moto's, and behind each is a machine of this kernel.

What moto cannot do is faked in front of it, and listed: `tests.infrastructures.aws.cloud`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests import versions
from tests.forking import fork_server
from tests.golden import golden_store
from tests.infrastructures.aws.cloud import Cloud, cloud
from tests.infrastructures.aws.specs import REGION, ZONE
from tests.plugins.aws import IMPORTED
from tests.plugins.serving import search_path
from tests.whole.breathing import launches, scale_until
from tests.whole.cluster import LONG_S, summary
from tests.whole.elsewhere import TAKES_MUCH, UNTIL_TOLD, Elsewhere, example
from tidepool.clients.slurm import JobState
from tidepool.infrastructures.aws.run_access import ends_stack

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
    fork_server().import_ahead(*IMPORTED)
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


def test_the_stack_of_the_project_comes_up_breathes_changes_loses_a_machine_and_goes(
    cluster: AtAws, aws: Cloud
) -> None:
    assert aws.left(cluster.stack) == []
    cluster.up(timeout_s=UP_S)
    own = {"ctl", "login-1"}
    assert there(aws) == own | {"cpu-1"}
    assert set(summary(cluster.up("--json", timeout_s=UP_S))["changes"]) == {"same"}
    first = aws.machines()
    # Nobody else ends one by mistake, but for those that AWS itself takes back.
    with pytest.raises(ClientError, match="disableApiTermination"):
        aws.ec2.terminate_instances(InstanceIds=[first["ctl"]])

    # The queue brings machines, which go when it is empty.
    job = cluster.submit(f"srun hostname; {UNTIL_TOLD}", nodes="3", output="where.out")
    scale_until(cluster, lambda: len(cluster.nodes()) == 3, "there are three nodes", UP_S)
    assert there(aws) == own | {"cpu-1", "cpu-2", "cpu-3"}
    cluster.tell()
    ended = cluster.until_job(job, JobState.COMPLETED, JobState.FAILED, timeout_s=LONG_S)
    assert ended.state is JobState.COMPLETED
    written = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout
    assert sorted(written.split()) == ["cpu-1", "cpu-2", "cpu-3"]
    cluster.until_job(cluster.submit(TAKES_MUCH, memory_mib=80), JobState.OUT_OF_MEMORY, timeout_s=LONG_S)
    scale_until(cluster, lambda: len(there(aws)) == 3, "they go", UP_S)
    assert {row["infrastructure"] for row in launches(cluster, "units")} == {"aws"}

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
    cluster.until_script(job, timeout_s=LONG_S)
    aws.ec2.terminate_instances(InstanceIds=[now[node]])
    assert "1 deleted" in cluster.refresh(UP_S)
    assert there(aws) == own
    scale_until(cluster, lambda: cluster.job(job).state is JobState.COMPLETED, "the job has run again", UP_S)
    restarts = cluster.job(job).restarts
    assert restarts == 1, cluster.tidepool("logs", "--lines", "400", "ctl")
    assert aws.machines().get(node) != now[node]

    aws.calls.clear()
    cluster.down(UP_S)
    # Whoever has the rights to end this stack and no others could have done it.
    ends = json.loads(ends_stack(cluster.stack, REGION, "123456789012", "arn:aws:s3:::images"))
    assert {*aws.calls} <= {action for each in ends["Statement"] for action in each["Action"]}
    # Homes are people's.
    assert aws.left(cluster.stack) == [f"tidepool-{cluster.stack}-home"]

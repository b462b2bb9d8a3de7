"""The project's own stack of CloudStack, whole: the API is the stand-in, and behind each VM is a machine of this kernel."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.cloudstack.kernel_cloud import IMAGE, TEMPLATE, KernelCloud, kernel_cloud
from tests.infrastructures.cloudstack.server import KEY, SECRET
from tests.whole.breathing import launches, scale_until
from tests.whole.cluster import LONG_S, summary
from tests.whole.elsewhere import TAKES_MUCH, UNTIL_TOLD, Elsewhere, example
from tidepool.clients.slurm import JobState

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "cloudstack",
        versions.installed("cs"),
        "a stand-in of the tests' for CloudStack, with machines of this kernel",
        versions.slurm("debian-12-cloud"),
    ),
]

#: Longer than all may take on a busy machine.
UP_S = 600.0


@dataclass
class AtCloudStack(Elsewhere):
    """With somebody's keys, and CloudStack where the tests have it."""

    url: str = field(default="")

    @property
    def environment(self) -> dict[str, str]:
        keys = {"CLOUDSTACK_ENDPOINT": self.url, "CLOUDSTACK_KEY": KEY, "CLOUDSTACK_SECRET": SECRET}
        return {**super().environment, **keys}


@pytest.fixture(scope="module")
def zone(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelCloud]:
    with kernel_cloud(tmp_path_factory.mktemp("cloudstack"), example("cloudstack")["network"]) as it:
        yield it


@pytest.fixture
def cluster(zone: KernelCloud, tmp_path: Path) -> Iterator[AtCloudStack]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    it = AtCloudStack.make(tmp_path, golden_store(IMAGE), f"t{uuid.uuid4().hex[:8]}", **here(zone))
    it.through, it.url = zone.prefix, zone.url
    try:
        yield it
    finally:
        it.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)


def here(zone: KernelCloud) -> dict[str, Any]:
    """The project's spec, with what is of this machine: the endpoint, a template that is there, small nodes."""
    spec = example("cloudstack")
    options = spec["controller"]["infrastructure"]["options"]
    del options["images"]
    options |= {"endpoint": zone.url, "template": TEMPLATE}
    (fleet,) = spec["fleets"]
    fleet |= {"min_nodes": 1, "shape": {"cpus": 2, "memory": "256MiB"}, "idle_timeout_s": 1}
    return spec | {"slurm_conf": {"SlurmdTimeout": 10}}


def test_the_stack_of_the_project_comes_up_survives_a_stock_out_and_a_lost_answer_and_goes(
    cluster: AtCloudStack, zone: KernelCloud
) -> None:
    cloud = zone.cloud
    cluster.up(timeout_s=UP_S)
    own = {"ctl", "login-1"}
    assert zone.there() == dict.fromkeys(own | {"cpu-1"}, "Running")
    # It is of the offering that its fleet names.
    assert cloud.vm("cpu-1")["rootdisksize"] == 32
    assert set(summary(cluster.up("--json", timeout_s=UP_S))["changes"]) == {"same"}

    # The zone is full: the job waits, and nothing is left of what was tried.
    cloud.stock = 0
    job = cluster.submit(f"srun hostname; {UNTIL_TOLD}", nodes="2", output="where.out")
    scale_until(cluster, lambda: cloud.requests.count("deployVirtualMachine") > 3, "it was tried", UP_S)
    assert zone.there() == dict.fromkeys(own | {"cpu-1"}, "Running")

    # There is room again, and the answer to the next deploy is lost: there is one machine, and the job runs on it.
    cloud.stock, cloud.lose = None, 1
    scale_until(cluster, lambda: len(cluster.nodes()) == 2, "there are two nodes", UP_S)
    assert cloud.lose == 0
    assert set(zone.there()) == own | set(cluster.nodes())
    cluster.tell()
    ended = cluster.until_job(job, JobState.COMPLETED, JobState.FAILED, timeout_s=LONG_S)
    assert ended.state is JobState.COMPLETED
    written = cluster.on("login-1", "cat", "/home/researcher/where.out").stdout
    assert len(written.split()) == 2
    cluster.until_job(cluster.submit(TAKES_MUCH, memory_mib=80), JobState.OUT_OF_MEMORY, timeout_s=LONG_S)

    # What user data says, root alone may ask for.
    asked = ("import socket, sys", f"print(socket.socket().connect_ex(('{zone.gateway}', 80)))")
    python = ("python3", "-c", "; ".join(asked))
    as_somebody = cluster.on("login-1", "setpriv", "--reuid", "researcher", "--clear-groups", *python)
    assert int(as_somebody.stdout) == errno.EACCES
    assert int(cluster.on("login-1", *python).stdout) != errno.EACCES

    # A machine that no state knows is swept, and those that are idle go.
    known = next(vm for vm in cloud.vms.values() if vm["name"] == "cpu-1")
    orphan = {
        **known,
        "id": "orphan",
        "name": "cpu-8",
        "nic": [{**known["nic"][0], "ipaddress": "10.80.1.8"}],
    }
    with cloud.lock:
        cloud.vms["orphan"] = orphan
        zone.start(orphan)
    scale_until(cluster, lambda: "cpu-8" not in zone.there() and len(zone.there()) == 3, "they go", UP_S)
    assert {row["infrastructure"] for row in launches(cluster, "units")} == {"cloudstack"}

    kept = [file.read_bytes() for file in cluster.data.rglob("*") if file.is_file()]
    assert kept
    assert not [content for content in kept if SECRET.encode() in content]
    cluster.down(UP_S)
    assert (cloud.vms, cloud.networks, cloud.user_data, cloud.affinity) == ({}, {}, {}, {})
    # What was there before is there still.
    assert [*cloud.templates] == ["t"]

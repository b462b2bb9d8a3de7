"""The project's own stack of Ironic, whole: a real Ironic, BMCs of sushy-tools, and behind each host a machine of this kernel."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.ironic.server import CLOUD, PASSWORD, Server, ironic
from tests.infrastructures.ironic_world import enrolled
from tests.infrastructures.metal.kernel_hosts import IMAGE, KernelHosts, kernel_hosts
from tests.whole.breathing import scale_until
from tests.whole.cluster import LONG_S, summary, until
from tests.whole.elsewhere import TAKES_MUCH, Elsewhere, example
from tidepool.clients.slurm import JobRequest, JobState
from tidepool.infrastructures.ironic.inventory import EXTRA, Claim

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "ironic",
        versions.installed("openstacksdk"),
        versions.installed("ironic"),
        "Redfish of "
        + versions.installed("sushy-tools")
        + " with machines of this kernel that systemd starts",
        versions.slurm(IMAGE),
    ),
]

#: Longer than all may take on a busy machine.
UP_S = 600.0
#: What began in the last seconds before a boot of its node, Slurm takes for one that it has just sent there (MessageTimeout, and 5).
BEFORE_S = 16.0


@dataclass
class Site:
    """Hosts, and the Ironic that they are enrolled in."""

    hosts: KernelHosts
    server: Server

    def nodes(self) -> dict[str, dict[str, Any]]:
        found = self.server.ask("GET", "/nodes/detail")["nodes"]
        return {node["name"]: node for node in found}

    def machines(self) -> dict[str, str]:
        """The nodes of the cluster that hosts are, by what Ironic says of them."""
        claims = {name: Claim.read(node["extra"].get(EXTRA, "")) for name, node in self.nodes().items()}
        return {
            name: claim.node
            for name, claim in claims.items()
            if claim and claim.instance == self.nodes()[name]["instance_uuid"]
        }


@pytest.fixture(scope="module")
def site(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three hosts in an Ironic that has their power be as it was told."""
    folder = tmp_path_factory.mktemp("ironic")
    spec = example("ironic")
    with (
        kernel_hosts(folder / "hosts", spec["network"], "head", "alpha", "beta") as hosts,
        ironic(folder / "ironic", hosts.address, hosts.bmcs.namespace, sync_s=5) as server,
    ):
        for name in ("head", "alpha", "beta"):
            more = {"resource_class": "head" if name == "head" else "cpu"}
            enrolled(server, hosts.bmcs, name, **more)
            if name != "head":
                server.ask("PUT", f"/nodes/{name}/traits", {"traits": ["CUSTOM_INFINIBAND"]})
        yield Site(hosts, server)


@pytest.fixture
def cluster(site: Site, tmp_path: Path) -> Iterator[Elsewhere]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    it = Elsewhere.make(tmp_path, golden_store(IMAGE), f"t{uuid.uuid4().hex[:8]}", **here(site))
    it.through, it.login = site.hosts.prefix, "ctl"
    with site.hosts.serving(it.data):
        try:
            yield it
        finally:
            it.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)


def here(site: Site) -> dict[str, Any]:
    """The project's spec, with what is of this machine: an Ironic, an image that is there, small nodes."""
    spec = example("ironic")
    options = spec["controller"]["infrastructure"]["options"]
    options |= {
        "cloud": CLOUD,
        "clouds_file": str(site.server.clouds_file),
        "boot_service": site.hosts.boot_service,
        # One port each, of which Ironic does not say where it is.
        "physical_network": "",
    }
    spec["controller"]["shape"] = {"cpus": 2, "memory": "512MiB"}
    (fleet,) = spec["fleets"]
    fleet |= {"shape": {"cpus": 2, "memory": "256MiB"}, "idle_timeout_s": 1}
    return spec | {"image": IMAGE}


def submit(cluster: Elsewhere, script: str, **more: Any) -> int:
    """As root from the controller: this stack has no login machine, whose people would have homes."""
    request = JobRequest(f"#!/bin/sh\n{script}\n", work_dir="/home", **more)
    with cluster.slurm() as slurm:
        return slurm.submit(request).job_id


def has_begun(cluster: Elsewhere, job: int, before_s: float) -> bool:
    """Tell if a job runs since so many seconds."""
    began = cluster.job(job).start_time
    return began is not None and (datetime.now(UTC) - began).total_seconds() > before_s


def test_nodes_of_ironic_are_deployed_while_jobs_need_them_and_are_available_again(
    cluster: Elsewhere, site: Site
) -> None:
    hosts = site.hosts
    cluster.write_spec()
    cluster.tidepool("preview", timeout_s=UP_S)
    assert (site.machines(), hosts.on()) == ({}, set())
    cluster.up(timeout_s=UP_S)
    assert (site.machines(), hosts.on()) == ({"head": "ctl"}, {"head"})
    assert set(summary(cluster.up("--json", timeout_s=UP_S))["changes"]) == {"same"}

    # A job needs both nodes: their hosts are deployed, and available again when it is over.
    both = submit(cluster, "srun hostname >where.out; until test -e go-on; do sleep 1; done", nodes="2")
    scale_until(cluster, lambda: cluster.job(both).state is JobState.RUNNING, "the job runs", UP_S)
    assert set(site.machines().values()) == {"ctl", "cpu-1", "cpu-2"}
    assert {node["provision_state"] for node in site.nodes().values()} == {"active"}
    homes = hosts.folder / "nfs" / "home"
    (homes / "go-on").touch()
    assert cluster.until_job(both, JobState.COMPLETED, JobState.FAILED).state is JobState.COMPLETED
    assert set((homes / "where.out").read_text().split()) == {"cpu-1", "cpu-2"}
    hog = submit(cluster, TAKES_MUCH, memory_mib=80)
    cluster.until_job(hog, JobState.OUT_OF_MEMORY, timeout_s=LONG_S)
    scale_until(cluster, lambda: hosts.on() == {"head"}, "nobody needs them", UP_S)
    assert site.machines() == {"head": "ctl"}

    # Somebody takes one out of service: the next job has the other.
    site.server.ask("PUT", "/nodes/alpha/maintenance", {"reason": "a new disk"})
    one = submit(cluster, 'test -n "$SLURM_RESTART_COUNT" || sleep 600; hostname >one.out')
    scale_until(cluster, lambda: cluster.job(one).state is JobState.RUNNING, "the next job runs", UP_S)
    assert set(site.machines()) == {"head", "beta"}

    # Its power is cut while it runs: Ironic switches it on again, and the job runs once more.
    until(
        lambda: has_begun(cluster, one, BEFORE_S) or None,
        "Slurm knows a boot after this from its beginning",
        LONG_S,
    )
    hosts.power("beta", "Off")
    hosts.bmcs.change("beta", power_state="Off")
    scale_until(cluster, lambda: cluster.job(one).state is JobState.COMPLETED, "it has run again", UP_S)
    assert (homes / "one.out").read_text().strip() in {"cpu-1", "cpu-2"}

    cluster.down(UP_S)
    assert (site.machines(), hosts.on()) == ({}, set())
    assert {node["provision_state"] for node in site.nodes().values()} == {"available"}
    kept = [file.read_bytes() for file in cluster.data.rglob("*") if file.is_file()]
    assert not [content for content in kept if PASSWORD.encode() in content]
    assert (hosts.folder / "nfs" / "slurmctld" / "job_state").exists()

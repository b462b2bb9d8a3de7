"""The project's own stack of bare metal, whole: its BMCs are sushy-tools', and behind each host is a machine of this kernel."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.metal.bmcs import PASSWORD, ROOT, USER
from tests.infrastructures.metal.kernel_hosts import IMAGE, KernelHosts, kernel_hosts
from tests.whole.breathing import launches, scale_until
from tests.whole.cluster import LONG_S, summary
from tests.whole.elsewhere import TAKES_MUCH, Elsewhere, example
from tidepool.clients.slurm import JobRequest, JobState
from tidepool.infrastructures.metal.inventory import Claim

pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "metal",
        versions.installed("sushy"),
        "Redfish of "
        + versions.installed("sushy-tools")
        + " with machines of this kernel that systemd starts",
        versions.slurm(IMAGE),
    ),
]

#: Longer than all may take on a busy machine.
UP_S = 600.0
TAG = "45Z-2381"


@pytest.fixture(scope="module")
def site(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelHosts]:
    """Three hosts; the site has written the AssetTag of one."""
    folder = tmp_path_factory.mktemp("metal")
    with kernel_hosts(folder, example("metal")["network"], "head", "alpha", "beta") as it:
        it.bmcs.tags["beta"] = TAG
        yield it


@pytest.fixture
def cluster(site: KernelHosts, tmp_path: Path) -> Iterator[Elsewhere]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    credentials = tmp_path / "bmc"
    credentials.write_text(f"{USER}:{PASSWORD}\n")
    credentials.chmod(0o600)
    spec = here(site, str(credentials))
    it = Elsewhere.make(tmp_path, golden_store(IMAGE), f"t{uuid.uuid4().hex[:8]}", **spec)
    it.through, it.login = site.prefix, "ctl"
    with site.serving(it.data):
        try:
            yield it
        finally:
            it.run("down", "--yes", "--force", "--purge", timeout_s=UP_S)


def here(site: KernelHosts, credentials: str) -> dict[str, Any]:
    """The project's spec, with what is of this machine: BMCs, an image that is there, small nodes."""
    spec = example("metal")
    options = spec["controller"]["infrastructure"]["options"]
    del options["ca"]
    for name, host in options["hosts"].items():
        host |= {"bmc": site.bmcs.url, "system": ROOT + name, "mac": site.bmcs.entry(name).mac}
    options |= {"credentials": credentials, "boot_service": site.boot_service}
    spec["controller"]["shape"] = {"cpus": 2, "memory": "512MiB"}
    (fleet,) = spec["fleets"]
    fleet |= {"shape": {"cpus": 2, "memory": "256MiB"}, "idle_timeout_s": 1}
    return spec | {"image": IMAGE}


def claims(site: KernelHosts) -> dict[str, str]:
    """The nodes that hosts are, by their AssetTags."""
    found = {name: Claim.read(tag) for name, tag in site.bmcs.tags.items()}
    return {name: claim.node for name, claim in found.items() if claim}


def submit(cluster: Elsewhere, script: str, **more: Any) -> int:
    """As root from the controller: this stack has no login machine, whose people would have homes."""
    request = JobRequest(f"#!/bin/sh\n{script}\n", work_dir="/home", **more)
    with cluster.slurm() as slurm:
        return slurm.submit(request).job_id


def test_hosts_are_on_while_jobs_need_them_and_are_given_back_as_they_were(
    cluster: Elsewhere, site: KernelHosts
) -> None:
    cluster.write_spec()
    # A wrong password is told before anything is made, of all hosts at once.
    credentials = Path(cluster.spec["controller"]["infrastructure"]["options"]["credentials"])
    credentials.write_text(f"{USER}:wrong\n")
    refused = cluster.run("preview", timeout_s=UP_S)
    assert refused.returncode != 0
    told = f"{site.bmcs.url} does not take the user and the password in {credentials}"
    assert all(f".hosts.{name}: the host {name}: {told}" in refused.stdout for name in site.bmcs.tags)
    credentials.write_text(f"{USER}:{PASSWORD}\n")
    cluster.tidepool("preview", timeout_s=UP_S)
    assert (claims(site), site.on()) == ({}, set())
    cluster.up(timeout_s=UP_S)
    assert (claims(site), site.on()) == ({"head": "ctl"}, {"head"})
    assert set(summary(cluster.up("--json", timeout_s=UP_S))["changes"]) == {"same"}

    # A job needs both nodes: their hosts are switched on, with the BIOS that is asked for, and off again when it is over.
    both = submit(cluster, "srun hostname >where.out; until test -e go-on; do sleep 1; done", nodes="2")
    scale_until(cluster, lambda: cluster.job(both).state is JobState.RUNNING, "the job runs", UP_S)
    assert set(claims(site).values()) == {"ctl", "cpu-1", "cpu-2"}
    assert site.on() == {"head", "alpha", "beta"}
    assert site.bmcs.driver.get_bios("alpha")["LogicalProc"] == "Disabled"
    homes = site.folder / "nfs" / "home"
    (homes / "go-on").touch()
    assert cluster.until_job(both, JobState.COMPLETED, JobState.FAILED).state is JobState.COMPLETED
    assert set((homes / "where.out").read_text().split()) == {"cpu-1", "cpu-2"}
    scale_until(cluster, lambda: site.on() == {"head"}, "nobody needs them", UP_S)
    assert (claims(site), site.bmcs.tags["beta"]) == ({"head": "ctl"}, TAG)
    assert {row["infrastructure"] for row in launches(cluster, "units")} == {"metal"}

    # The BMC of one answers 500 from now on: the next job has the other, and is held to its memory there.
    site.bmcs.fails.add("alpha")
    one = submit(cluster, f"hostname >one.out; {TAKES_MUCH}", memory_mib=80)
    scale_until(cluster, lambda: cluster.job(one).state is JobState.OUT_OF_MEMORY, "the next job runs", UP_S)
    assert site.bmcs.system("beta")["resets"].count("On") == 2
    assert (homes / "one.out").read_text().strip() in {"cpu-1", "cpu-2"}
    site.bmcs.fails.clear()

    # Its power is cut while a job runs, which is told; the job runs once more when it is switched on.
    again = submit(cluster, 'test -n "$SLURM_RESTART_COUNT" || sleep 600; hostname >again.out')
    scale_until(cluster, lambda: cluster.job(again).state is JobState.RUNNING, "a job runs", LONG_S)
    (host,) = set(claims(site)) - {"head"}
    site.power(host, "Off")
    site.bmcs.change(host, power_state="Off")
    scale_until(cluster, lambda: cluster.job(again).state is JobState.COMPLETED, "it has run again", UP_S)

    cluster.down(UP_S)
    assert (site.bmcs.tags, site.on()) == ({"head": "", "alpha": "", "beta": TAG}, set())
    kept = [file.read_bytes() for file in cluster.data.rglob("*") if file.is_file()]
    assert not [content for content in kept if PASSWORD.encode() in content]
    assert (site.folder / "nfs" / "slurmctld" / "job_state").exists()

"""The project's own stack of libvirt, whole: its controller and nodes are emulated machines of a real libvirtd."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import SOFTWARE, Host, a_host, missing
from tests.plugins.serving import search_path
from tests.whole.breathing import scale_until
from tests.whole.cluster import LONG_S, summary, until
from tests.whole.elsewhere import Elsewhere, example
from tidepool.clients.slurm import JobRequest, JobState
from tidepool.infrastructures.libvirt.ask import output_of, virsh

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm("debian-12-vm")),
]

TRY_DEVICES = "for n in 8 9; do (exec 3</dev/tty$n) && echo opens $n; done"
#: By the clock, where emulators get hardly anything of the processors.
BOOT_S = 1200.0


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of the file server."""
    folder = tmp_path_factory.mktemp("exports")
    for name in ("home", "slurmctld"):
        (folder / name).mkdir()
    return folder


@pytest.fixture(scope="module")
def host(exports: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that has a network of its own, and the file server beside it."""
    folders = {folder.name: folder for folder in exports.iterdir()}
    with a_host(tmp_path_factory.mktemp("host") / "h", exports=folders) as it:
        yield it


@pytest.fixture
def cluster(host: Host, tmp_path: Path) -> Iterator[Elsewhere]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    images = golden_store(example("libvirt")["image"])
    it = Elsewhere.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}", **here(host, tmp_path / "pool"))
    it.through, it.path, it.login = host.prefix, search_path(tmp_path / "plugins", "libvirt"), "ctl"
    try:
        yield it
    finally:
        it.run("down", "--yes", "--force", "--purge", timeout_s=BOOT_S)


def here(host: Host, pool: Path) -> dict[str, Any]:
    """The project's spec, with what is of this machine: its libvirtd and a folder; and no node without a job."""
    spec = example("libvirt")
    spec["controller"]["infrastructure"]["options"] |= {"hosts": {"here": host.uri}, "pool": str(pool)}
    (fleet,) = spec["fleets"]
    # Jobs share a node, and are told apart on it; terminals are devices that each machine has.
    gres = [{"name": "gpu", "count": 2, "files": "/dev/tty[8-9]"}]
    fleet |= {"min_nodes": 0, "idle_timeout_s": 1, "shape": {"cpus": 2, "memory": "384MiB", "gres": gres}}
    return spec


def there(cluster: Elsewhere, host: Host) -> dict[str, str]:
    """The machines that libvirt has, by name, and how each is."""
    lines = output_of(virsh, host.uri, "list", "--all").splitlines()
    rows = (line.split(maxsplit=2) for line in lines if line.strip())
    return {name.removeprefix(f"{cluster.stack}-"): state.strip() for _, name, state in rows}


def submit(cluster: Elsewhere, script: str, **more: Any) -> int:
    """As root from the controller: this stack has no login machine, whose people would have homes."""
    request = JobRequest(f"#!/bin/sh\n{script}\n", work_dir="/home", memory_mib=60, **more)
    with cluster.slurm() as slurm:
        return slurm.submit(request).job_id


def ran(exports: Path) -> list[str]:
    """The nodes that the job began on, in their order."""
    written = exports / "home" / "ran"
    return written.read_text().split() if written.exists() else []


def test_the_stack_of_the_project_comes_up_breathes_loses_a_machine_changes_and_goes(
    cluster: Elsewhere, host: Host, exports: Path
) -> None:
    cluster.write_spec()
    cluster.tidepool("preview")
    assert there(cluster, host) == {}
    cluster.up(timeout_s=BOOT_S)
    assert there(cluster, host) == {"ctl": "running"}
    assert set(summary(cluster.up("--json"))["changes"]) == {"same"}
    # It has an identity of its own, a root as large as its disk, and nothing that failed.
    looks = "hostname; systemctl --failed --quiet --no-legend; wc -c </etc/machine-id; df --output=size -m / | tail -1"
    name, identity, root_mib = cluster.on("ctl", "sh", "-c", looks).stdout.split()
    assert (name, identity, int(root_mib) > 5000) == ("ctl", "33", True)

    # A job waits, and a node comes for it.
    # It ends by a signal: a file that is made beside NFS is seen by its clients a minute later.
    waits = "trap 'exit 0' USR1; hostname >>ran; while :; do sleep 0.5; done"
    job = submit(cluster, f"{TRY_DEVICES}; {waits}", gres="gpu:1", output="devices")
    scale_until(cluster, lambda: ran(exports) == ["cpu-1"], "the job runs", BOOT_S)
    assert there(cluster, host) == {"ctl": "running", "cpu-1": "running"}

    # Beside it another one takes too much memory, and is killed alone; each has its device, and root no other.
    hog = submit(cluster, f"{TRY_DEVICES}; head -c 200M /dev/zero | tail", gres="gpu:1", output="hog")
    cluster.until_job(hog, JobState.OUT_OF_MEMORY, timeout_s=BOOT_S)
    assert cluster.job(job).state is JobState.RUNNING
    said = [(exports / "home" / name).read_text() for name in ("devices", "hog")]
    assert ["opens 8" in each for each in said] == [True, False]
    assert ["opens 9" in each for each in said] == [False, True]
    assert all("Operation not permitted" in each for each in said)

    # Another disk is another machine, which libvirt's plugin alone would take for a change in place.
    options = cluster.spec["fleets"][0]["infrastructures"][0]["options"]
    options["disk"] = "7GiB"
    cluster.write_spec()
    shown = cluster.tidepool("preview")
    assert re.search(r"libvirt:index:Domain +cpu-1 +replace", shown), shown
    options["disk"] = "6GiB"

    # Its machine dies: that is told, and the job waits again. It is made good in another shape, which makes it anew.
    output_of(virsh, host.uri, "destroy", f"{cluster.stack}-cpu-1")
    told = json.loads(cluster.run("status", "--json").stdout)
    assert "cpu-1" in " ".join(each["what"] for each in told["problems"])
    cluster.until_job(job, JobState.PENDING, timeout_s=LONG_S)
    assert "libvirt:index:Domain cpu-1 updated" in cluster.refresh(BOOT_S)
    cluster.spec["fleets"][0]["shape"]["memory"] = "320MiB"
    cluster.up(timeout_s=BOOT_S)
    assert there(cluster, host) == {"ctl": "running", "cpu-1": "running"}
    assert cluster.nodes()["cpu-1"].memory_mib == 320
    until(lambda: ran(exports) == ["cpu-1", "cpu-1"] or None, "the job runs again", BOOT_S, pause_s=1)
    assert cluster.on("ctl", "scancel", "--batch", "--signal=USR1", str(job)).exit_code == 0
    cluster.until_job(job, JobState.COMPLETED, timeout_s=BOOT_S)
    assert set(summary(cluster.up("--json"))["changes"]) == {"same"}

    # Nobody needs it any more.
    scale_until(cluster, lambda: there(cluster, host) == {"ctl": "running"}, "it goes", BOOT_S)
    assert cluster.nodes() == {}
    cluster.down(BOOT_S)
    for verb in ("list", "pool-list", "net-list"):
        assert output_of(virsh, host.uri, verb, "--all", "--name").split() == []
    assert list((exports / "slurmctld").iterdir()) != []

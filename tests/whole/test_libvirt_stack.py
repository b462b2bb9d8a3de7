"""The project's own stack of libvirt, whole: controller, file server and nodes are emulated machines of a real libvirtd."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import SOFTWARE, Host, a_host, missing
from tests.plugins.serving import search_path
from tests.whole.breathing import launches, scale_until
from tests.whole.cluster import LONG_S, summary, until
from tests.whole.elsewhere import Elsewhere, example
from tidepool.clients.slurm import JobState
from tidepool.infrastructures.libvirt.ask import output_of, virsh

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm("debian-12-vm")),
]

#: Devices that each machine has, and everybody may open.
GPUS = [{"name": "gpu", "type": name, "count": 1, "files": f"/dev/{name}"} for name in ("full", "zero")]
TRY_DEVICES = "for name in full zero; do (exec 3</dev/$name) && echo opens $name; done"
#: By the clock, where emulators get hardly anything of the processors.
BOOT_S = 1200.0
SERVICES = {"ctl": "running", "nfs": "running"}
#: As a person of the image.
AS_RESEARCHER = ("setpriv", "--reuid=researcher", "--regid=researcher", "--clear-groups", "sh", "-c")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host that has a network of its own."""
    with a_host(tmp_path / "host") as it:
        yield it


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """A disk of the host, which is empty."""
    file = tmp_path / "store"
    with file.open("wb") as disk:
        disk.truncate(256 << 20)
    done = subprocess.run(
        ["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"this machine gives no loop device: {done.stderr.strip()}")
    device = done.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture
def cluster(host: Host, store: str, tmp_path: Path) -> Iterator[Elsewhere]:
    """The stack, which is not up yet; nothing is left of it afterwards, whatever came of the test."""
    images = golden_store("debian-12-vm", "debian-12-vm-nfs")
    spec = here(host, store, tmp_path / "pool")
    it = Elsewhere.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}", **spec)
    it.through, it.path, it.login = host.prefix, search_path(tmp_path / "plugins", "libvirt"), "ctl"
    try:
        yield it
    finally:
        it.run("down", "--yes", "--force", "--purge", timeout_s=BOOT_S)


def here(host: Host, store: str, pool: Path) -> dict[str, Any]:
    """The project's spec, with what is of this machine: its libvirtd and disks; a file server, and no node without a job."""
    spec = example("libvirt")
    spec |= {"home": {"quota": "2MiB"}, "scratch": {}}
    spec["file_server"] = {"shape": {"cpus": 1, "memory": "512MiB"}}
    options = spec["controller"]["infrastructure"]["options"]
    options |= {"hosts": {"here": host.uri}, "pool": str(pool), "store": store}
    del options["volumes"]
    (fleet,) = spec["fleets"]
    # Jobs share a node, and are told apart on it.
    fleet |= {"min_nodes": 0, "idle_timeout_s": 1, "shape": {"cpus": 2, "memory": "384MiB", "gres": GPUS}}
    return spec


def there(cluster: Elsewhere, host: Host) -> dict[str, str]:
    """The machines that libvirt has, by name, and how each is."""
    lines = output_of(virsh, host.uri, "list", "--all").splitlines()
    rows = (line.split(maxsplit=2) for line in lines if line.strip())
    return {name.removeprefix(f"{cluster.stack}-"): state.strip() for _, name, state in rows}


def written(cluster: Elsewhere, name: str) -> str:
    """What is in a file of the researcher's, where the server has it: clients see what others made half a minute later."""
    return cluster.on("nfs", "cat", f"/srv/home/researcher/{name}", timeout_s=LONG_S).stdout


def quota(cluster: Elsewhere) -> Mapping[str, Any]:
    """How much the researcher has in /home, and may."""
    view = json.loads(cluster.tidepool("quota", "--json"))
    assert view["isEnforced"], view
    (person,) = [each for each in view["people"] if each["name"] == "researcher"]
    return dict(person)


def write_much(cluster: Elsewhere) -> str:
    """Twice what the quota leaves to the researcher; gives what was said, good or bad."""
    much = "head -c 4000000 /dev/zero >/home/researcher/much && echo written"
    done = cluster.on("ctl", *AS_RESEARCHER, much, timeout_s=LONG_S)
    return done.stdout + done.stderr


def test_the_stack_of_the_project_comes_up_breathes_loses_a_machine_changes_and_goes(
    cluster: Elsewhere, host: Host, store: str
) -> None:
    cluster.write_spec()
    cluster.tidepool("preview")
    assert there(cluster, host) == {}
    cluster.up(timeout_s=BOOT_S)
    assert there(cluster, host) == SERVICES
    assert set(summary(cluster.up("--json"))["changes"]) == {"same"}
    # It has an identity of its own, a root as large as its disk, and nothing that failed.
    looks = "hostname; systemctl --failed --quiet --no-legend; wc -c </etc/machine-id; df --output=size -m / | tail -1"
    looks += "; grep -o tsc=reliable /proc/cmdline"
    name, identity, root_mib, clock = cluster.on("ctl", "sh", "-c", looks).stdout.split()
    assert (name, identity, int(root_mib) > 5000, clock) == ("ctl", "33", True, "tsc=reliable")

    # Files are on the disk of the server, whose kernel holds people to their quotas.
    mounts = cluster.on("ctl", "cat", "/proc/mounts").stdout
    places = {"home": "/home", "scratch": "/scratch", "slurmctld": "/var/spool/slurmctld"}
    for name, place in places.items():
        assert f"10.80.0.5:/{name} {place} nfs4 " in mounts, mounts
    assert "quota exceeded" in write_much(cluster)
    person = quota(cluster)
    assert 1 << 20 < person["used"] <= person["quota"] == 2 << 20
    # The server dies: it is started again, and its clients go on, once they all have again what they held.
    assert cluster.on("nfs", "pkill", "--signal=KILL", "ganesha.nfsd").exit_code == 0
    goes_on = "rm /home/researcher/much; touch /home/again"
    assert cluster.on("ctl", "sh", "-ec", goes_on, timeout_s=BOOT_S).exit_code == 0
    until(
        lambda: "is UP" in cluster.on("ctl", "scontrol", "ping").stdout or None, "slurmctld answers", LONG_S
    )

    # A job waits, and a node comes for it.
    waits = "trap 'exit 0' USR1; hostname >>ran; sleep infinity & wait"
    small = {"memory_mib": 60}
    job = cluster.submit(f"{TRY_DEVICES}; {waits}", gres="gpu:full:1", output="devices", **small)
    scale_until(cluster, lambda: written(cluster, "ran") == "cpu-1\n", "the job runs", BOOT_S)
    assert there(cluster, host) == {**SERVICES, "cpu-1": "running"}

    # Beside it another one takes too much memory, and is killed alone; each has its device, and no other.
    takes = "yes | tr -d '\\n' | head -c 200M | tail"
    hog = cluster.submit(f"{TRY_DEVICES}; {takes}", gres="gpu:zero:1", output="hog", **small)
    cluster.until_job(hog, JobState.OUT_OF_MEMORY, timeout_s=BOOT_S)
    assert cluster.job(job).state is JobState.RUNNING
    said = [written(cluster, name) for name in ("devices", "hog")]
    assert ["opens full" in each for each in said] == [True, False]
    assert ["opens zero" in each for each in said] == [False, True]
    assert all("Operation not permitted" in each for each in said)

    # Another disk is another machine, which libvirt's plugin alone would take for a change in place.
    options = cluster.spec["fleets"][0]["infrastructures"][0]["options"]
    options["disk"] = "7GiB"
    cluster.write_spec()
    shown = cluster.tidepool("preview")
    assert re.search(r"libvirt:index:Domain +cpu-1 +replace", shown), shown
    options["disk"] = "6GiB"

    # Its machine dies: that is told, and the job waits again. It is made good in another shape, which makes it anew;
    # by the way the researcher may have more, at once.
    output_of(virsh, host.uri, "destroy", f"{cluster.stack}-cpu-1")
    told = json.loads(cluster.run("status", "--json").stdout)
    assert "cpu-1" in " ".join(each["what"] for each in told["problems"])
    cluster.until_job(job, JobState.PENDING, timeout_s=LONG_S)
    assert "libvirt:index:Domain cpu-1 updated" in cluster.refresh(BOOT_S)
    cluster.spec["fleets"][0]["shape"]["memory"] = "320MiB"
    cluster.spec["home"] = {"quota": "20MiB"}
    cluster.up(timeout_s=BOOT_S)
    assert there(cluster, host) == {**SERVICES, "cpu-1": "running"}
    assert cluster.nodes()["cpu-1"].memory_mib == 320
    assert quota(cluster)["quota"] == 20 << 20
    # An error of writing back that nobody has seen, a kernel tells whoever opens the file next.
    until(lambda: write_much(cluster) == "written\n" or None, "more can be written", LONG_S, 1)
    until(
        lambda: written(cluster, "ran") == "cpu-1\ncpu-1\n" or None, "the job runs again", BOOT_S, pause_s=1
    )
    assert cluster.on("ctl", "scancel", "--batch", "--signal=USR1", str(job)).exit_code == 0
    cluster.until_job(job, JobState.COMPLETED, timeout_s=BOOT_S)
    assert set(summary(cluster.up("--json"))["changes"]) == {"same"}

    # Nobody needs it any more.
    scale_until(cluster, lambda: there(cluster, host) == SERVICES and not cluster.nodes(), "it goes", BOOT_S)
    (launch,) = launches(cluster, "kernel", "initrd", "units", unknown="loader")
    assert (launch["node"], launch["infrastructure"]) == ("cpu-1", "libvirt")
    cluster.down(BOOT_S)
    for verb in ("list", "pool-list", "net-list"):
        assert output_of(virsh, host.uri, verb, "--all", "--name").split() == []
    # The disk is whose it was, with all that is on it; the last of that may be in its journal still, which debugfs does not read.
    replay = ["e2fsck", "-p", "-E", "journal_only", store]
    assert subprocess.run(replay, capture_output=True, check=False).returncode in {0, 1}
    ls = ["debugfs", "-R", "ls -p /home/researcher", store]
    assert "/much/" in subprocess.run(ls, capture_output=True, text=True, check=True).stdout

"""A file server of the cluster's own on libvirt: a real one, whose disk enforces quotas, and a client that is a machine."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import versions
from tests.golden import golden_store
from tests.infrastructures.libvirt.daemon import SOFTWARE, a_host, missing
from tests.plugins.serving import search_path
from tests.whole.cluster import until
from tests.whole.elsewhere import Elsewhere, example

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing(file_server=True)), reason=missing(file_server=True)),
    pytest.mark.runs("libvirt", SOFTWARE, versions.slurm("debian-12-vm")),
]

BOOT_S = 2400.0
#: A look logs in, which an emulated processor takes seconds for.
LOOK_S = 10.0
#: As a person of the image.
AS_RESEARCHER = ("setpriv", "--reuid=researcher", "--regid=researcher", "--clear-groups", "sh", "-c")


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


def up(cluster: Elsewhere) -> None:
    """An `up`, and another one where Slurm on an emulated machine was too slow to answer: it goes on from there."""
    cluster.write_spec()
    done = cluster.run("up", "--yes", timeout_s=BOOT_S)
    if "did not end within" in done.stdout + done.stderr:
        done = cluster.run("up", "--yes", timeout_s=BOOT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_homes_are_on_a_disk_of_the_cluster_s_own_server_which_enforces_quotas(
    store: str, tmp_path: Path
) -> None:
    with a_host(tmp_path / "h") as host:
        spec = example("libvirt")
        spec |= {"home": {"quota": "2MiB"}, "scratch": {}}
        spec["file_server"] = {"shape": {"cpus": 1, "memory": "512MiB"}}
        options = spec["controller"]["infrastructure"]["options"]
        options |= {"hosts": {"here": host.uri}, "pool": str(tmp_path / "pool"), "store": store}
        del options["volumes"]
        spec["fleets"][0]["min_nodes"] = 0
        images = golden_store("debian-12-vm", "debian-12-vm-nfs")
        cluster = Elsewhere.make(tmp_path, images, f"t{uuid.uuid4().hex[:8]}", **spec)
        cluster.through, cluster.path, cluster.login = (
            host.prefix,
            search_path(tmp_path / "plugins", "libvirt"),
            "ctl",
        )
        try:
            up(cluster)
            mounts = cluster.on("ctl", "cat", "/proc/mounts", timeout_s=120).stdout
            for name, place in (
                ("home", "/home"),
                ("scratch", "/scratch"),
                ("slurmctld", "/var/spool/slurmctld"),
            ):
                assert f"10.80.0.5:/{name} {place} nfs4 " in mounts, mounts

            written = cluster.on(
                "ctl", *AS_RESEARCHER, "head -c 4000000 /dev/zero >/home/researcher/much", timeout_s=120
            )
            assert "quota exceeded" in written.stderr, written
            view = json.loads(cluster.tidepool("quota", "--json"))
            assert view["isEnforced"], view
            (person,) = [each for each in view["people"] if each["name"] == "researcher"]
            assert 1 << 20 < person["used"] <= person["quota"] == 2 << 20

            # The server dies: it is started again, and its clients go on.
            assert cluster.on("nfs", "pkill", "--signal=KILL", "ganesha.nfsd", timeout_s=120).exit_code == 0
            until(
                lambda: cluster.on("ctl", "ls", "/home/researcher", timeout_s=240).stdout == "much\n" or None,
                "it serves again",
                BOOT_S,
                LOOK_S,
            )
            # More for her: in place, at once.
            cluster.spec["home"] = {"quota": "20MiB"}
            up(cluster)
            view = json.loads(cluster.tidepool("quota", "--json"))
            (person,) = [each for each in view["people"] if each["name"] == "researcher"]
            assert person["quota"] == 20 << 20, view
            # An error of writing back that nobody has seen, a kernel tells whoever opens the file next.
            again = "head -c 4000000 /dev/zero >/home/researcher/much && echo written"
            until(
                lambda: cluster.on("ctl", *AS_RESEARCHER, again, timeout_s=120).stdout or None,
                "more can be written",
                BOOT_S,
                LOOK_S,
            )
        finally:
            cluster.run("down", "--yes", "--force", "--purge", timeout_s=BOOT_S)

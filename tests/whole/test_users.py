"""Users of a cluster that runs: they come by keys of their own, to nodes with a job alone, and are gone everywhere when they go."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.whole.cluster import Cluster, summary, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobRequest, JobState

pytestmark = pytest.mark.slow

MACHINES: Final = ("ctl", "login-1", "cpu-1", "cpu-2")
GONE_S: Final = 10.0


def keys(folder: Path, *names: str) -> dict[str, Path]:
    """Private keys of these users, beside their public ones."""
    for name in names:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True
        )
    return {name: folder / name for name in names}


def user(key: Path, uid: int, **more: Any) -> dict[str, Any]:
    return {"name": key.name, "uid": uid, "keys": [key.with_suffix(".pub").read_text().strip()], **more}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return keys(tmp_path_factory.mktemp("keys"), "ada", "grace", "alan")


@pytest.fixture(scope="module")
def cluster(
    images: Path, own: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    users = [user(own["ada"], 3001, groups=["optics"]), user(own["grace"], 3002)]
    with a_cluster(
        tmp_path_factory.mktemp("cluster"), images, users=users, groups=[{"name": "optics", "gid": 4000}]
    ) as it:
        yield it


def ssh(cluster: Cluster, key: Path, machine: str, *command: str) -> subprocess.CompletedProcess[str]:
    return cluster.run("ssh", "-u", key.name, "-i", str(key), machine, "--", *command)


def submit(cluster: Cluster, name: str, script: str, **more: Any) -> int:
    with cluster.slurm(name) as slurm:
        request = JobRequest(f"#!/bin/sh\n{script}\n", work_dir=f"/home/{name}", output="/dev/null", **more)
        return slurm.submit(request).job_id


def changes(cluster: Cluster, *words: str) -> dict[str, int]:
    found = dict(summary(cluster.up("--json", *words))["changes"])
    found.pop("same", None)
    return found


def boots(cluster: Cluster) -> list[str]:
    """When the first process of each machine began, in ticks."""
    return [cluster.on(machine, "cut", "-d ", "-f22", "/proc/1/stat").stdout for machine in MACHINES]


def test_users_log_in_by_their_own_keys_and_nobody_by_anothers(
    cluster: Cluster, own: dict[str, Path]
) -> None:
    assert changes(cluster) == {}
    assert ssh(cluster, own["ada"], "login-1", "id", "--name", "--groups").stdout.split() == ["ada", "optics"]
    assert ssh(cluster, own["ada"], "login-1", "pwd").stdout.strip() == "/home/ada"
    as_grace = cluster.run("ssh", "-u", "grace", "-i", str(own["ada"]), "login-1", "--", "true")
    assert as_grace.returncode == 255
    assert (
        cluster.tidepool("ssh", "-u", "grace", "login-1", "--", "echo", '"$HOME  $USER"')
        == "/home/grace  grace\n"
    )
    assert "Permission denied" in ssh(cluster, own["ada"], "login-1", "ls", "/home/grace").stderr
    # What they run there together is bounded: half of the machine, where the spec says nothing.
    groups = ssh(cluster, own["ada"], "login-1", "cat", "/proc/self/cgroup").stdout
    assert "memory:/users/3001" in groups
    most = "/sys/fs/cgroup/memory/users/3001/memory.limit_in_bytes"
    assert cluster.on("login-1", "cat", most).stdout.strip() == str(256 * 1024 * 1024)
    assert "/users" not in cluster.tidepool("ssh", "-u", "root", "login-1", "--", "cat", "/proc/self/cgroup")
    # Neither the machine of slurmctld nor root is theirs.
    assert ssh(cluster, own["ada"], "controller", "true").returncode == 255
    assert cluster.run("ssh", "-u", "root", "-i", str(own["ada"]), "login-1", "--", "true").returncode == 255


def test_a_node_is_open_to_who_has_a_job_there_and_into_its_limits(
    cluster: Cluster, own: dict[str, Path]
) -> None:
    refused = ssh(cluster, own["ada"], "cpu-1", "true")
    assert refused.returncode == 255
    assert "you have no active jobs on this node" in refused.stderr
    job = submit(cluster, "ada", "sleep 600", nodes=1, more=("--nodelist=cpu-1",), memory_mib=100)
    cluster.until_script(job)
    groups = ssh(cluster, own["ada"], "cpu-1", "cat", "/proc/self/cgroup").stdout
    assert f"/job_{job}/step_extern" in groups
    for name, machine in (("grace", "cpu-1"), ("ada", "cpu-2")):
        assert ssh(cluster, own[name], machine, "true").returncode == 255
    # What is left there goes with the job.
    left = subprocess.Popen(
        [*cluster.command, "ssh", "-u", "ada", "-i", str(own["ada"]), "cpu-1", "--", "sleep", "4711"],
        cwd=cluster.folder,
        env=cluster.environment,
    )
    until(lambda: cluster.on("cpu-1", "pgrep", "-f", "sleep 4711").stdout or None, "the session is there")
    cluster.on("ctl", "scancel", str(job))
    assert left.wait(60) != 0
    until(lambda: not cluster.on("cpu-1", "pgrep", "-f", "sleep 4711").stdout or None, "the session goes")


def test_who_goes_is_gone_everywhere_and_their_home_stays(cluster: Cluster, own: dict[str, Path]) -> None:
    before = boots(cluster)
    job = submit(cluster, "grace", "sleep 600", memory_mib=50)
    cluster.until_script(job)
    waiting = submit(cluster, "grace", "true", more=(f"--dependency=afterany:{job}",), memory_mib=50)
    assert ssh(cluster, own["grace"], "login-1", "touch", "thesis").returncode == 0
    session = subprocess.Popen(
        [*cluster.command, "ssh", "-u", "grace", "-i", str(own["grace"]), "login-1", "--", "sleep", "815"],
        cwd=cluster.folder,
        env=cluster.environment,
    )
    until(lambda: cluster.on("login-1", "pgrep", "-f", "sleep 815").stdout or None, "the session is there")

    # Grace goes, and Alan comes.
    ada, _ = cluster.spec["users"]
    cluster.spec["users"] = [ada, user(own["alan"], 3003)]
    for verb in (("preview",), ("up", "--yes")):
        told = " ".join(cluster.refused(*verb).split())
        assert f"grace would go, and has the jobs {job}, {waiting}" in told
        assert "--cancel-jobs-of grace" in told
    assert session.poll() is None
    began = time.monotonic()
    assert changes(cluster, "--cancel-jobs-of", "grace") == {"update": 1}
    assert session.wait(GONE_S) != 0
    for machine in MACHINES:
        assert cluster.on(machine, "getent", "passwd", "grace").exit_code != 0
    assert cluster.on("login-1", "pgrep", "--uid", "3002").stdout == ""
    for each in (job, waiting):
        cluster.until_job(each, JobState.CANCELLED, timeout_s=GONE_S)
    until(lambda: not cluster.on("cpu-1", "pgrep", "--uid", "3002").stdout or None, "the job's processes go")
    assert ssh(cluster, own["grace"], "login-1", "true").returncode == 255
    assert time.monotonic() - began < 10 * GONE_S  # generous: whoever measures does it in bench/
    assert cluster.on("login-1", "stat", "--format=%u", "/home/grace/thesis").stdout.strip() == "3002"

    done = submit(cluster, "alan", "true", memory_mib=50)
    cluster.until_job(done, JobState.COMPLETED)
    assert boots(cluster) == before

    # Their number is nobody else's while their home is there.
    cluster.spec["users"] = [*cluster.spec["users"], {"name": "eve", "uid": 3002}]
    assert "eve has the uid 3002, to which /home/grace belongs" in " ".join(
        cluster.refused("up", "--yes").split()
    )
    cluster.spec["users"] = cluster.spec["users"][:2]
    assert changes(cluster) == {}


def test_an_up_that_is_killed_while_somebody_goes_is_finished_by_the_next(
    cluster: Cluster, own: dict[str, Path]
) -> None:
    stay = [each for each in cluster.spec["users"] if each["name"] == "ada"]
    cluster.spec["users"] = [*stay, user(own["alan"], 3003)]
    cluster.up()
    job = submit(cluster, "alan", "trap '' TERM; sleep 600", memory_mib=50)  # ends with KillWait alone
    cluster.until_script(job)
    cluster.spec["users"] = stay
    cluster.write_spec()
    words = ("up", "--yes", "--cancel-jobs-of", "alan")
    with subprocess.Popen(
        [*cluster.command, *words], cwd=cluster.folder, env=cluster.environment, start_new_session=True
    ) as running:
        key = "/home/.tidepool/keys/alan"
        until(lambda: cluster.on("login-1", "test", "-e", key).exit_code or None, "the key is gone")
        os.killpg(running.pid, signal.SIGKILL)

    assert changes(cluster, "--cancel-jobs-of", "alan") == {"update": 1}
    cluster.until_job(job, JobState.CANCELLED)
    for machine in MACHINES:
        assert cluster.on(machine, "getent", "passwd", "alan").exit_code != 0
    assert ssh(cluster, own["ada"], "login-1", "true").returncode == 0
    assert changes(cluster) == {}


def test_what_a_hand_changed_is_shown_and_mended(cluster: Cluster, own: dict[str, Path]) -> None:
    cluster.spec["users"] = [user(own["ada"], 3001), user(own["alan"], 3003)]
    cluster.up()
    cluster.on(
        "ctl",
        "sed",
        "--in-place",
        "s/^alan:.*/mallory:*:3009:3009::\\/home\\/mallory:\\/bin\\/bash/; s/^ada:.:3001/ada:*:3011/",
        "/home/.tidepool/passwd",
    )
    shown = " ".join(cluster.tidepool("preview", "--refresh", "--diff").split())
    assert "mallory" in shown
    assert "alan" in shown
    assert changes(cluster) == {"update": 1}
    assert cluster.on("cpu-1", "getent", "passwd", "mallory").exit_code != 0
    assert cluster.on("cpu-1", "id", "--user", "alan").stdout.strip() == "3003"
    assert cluster.on("cpu-1", "id", "--user", "ada").stdout.strip() == "3001"
    assert cluster.on("cpu-1", "test", "-e", "/home/mallory").exit_code != 0


def test_root_is_known_while_home_does_not_answer(cluster: Cluster) -> None:
    # Who opens it waits for ever, as of a file server that is gone.
    cluster.on(
        "login-1", "sh", "-c", "mv /home/.tidepool/group /home/.tidepool/g; mkfifo /home/.tidepool/group"
    )
    try:
        assert cluster.on("login-1", "timeout", "5", "id", "--groups", "ada").exit_code == 124
        assert cluster.tidepool("ssh", "-u", "root", "login-1", "--", "id", "--user") == "0\n"
    finally:
        cluster.on("login-1", "mv", "/home/.tidepool/g", "/home/.tidepool/group")

"""Accounting, with a real slurmdbd and its database."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.clients.slurm.real import CONF, PATH, RealSlurm, eventually, free_port, missing
from tests.clients.slurm.world import RealWorld, up, wait_for_job
from tidepool.clients.slurm import DatabaseDown, Here, JobRequest, JobState, NotFound, Refused, Slurm

PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "setpriv")
DBD = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounts
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
"""


@pytest.fixture
def accounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A cluster with slurmdbd; it is the database that takes a few seconds to make."""
    lacking = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing() or lacking:
        pytest.skip(missing() or f"not installed: {', '.join(lacking)} (slurmdbd mariadb-server)")
    folder = tmp_path_factory.mktemp("accounted")
    database = folder / "database"
    database.mkdir()
    port = free_port()
    subprocess.run(
        [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={database}",
            "--skip-test-db",
            "--user=root",
            "--auth-root-authentication-method=socket",
        ],
        check=True,
        capture_output=True,
    )
    dbd = folder / "slurmdbd.conf"
    dbd.touch(0o600)
    dbd.write_text(DBD.format(port=port, folder=folder))
    socket = database / "socket"
    mariadbd = subprocess.Popen(
        [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "mariadbd",
            "--no-defaults",
            f"--datadir={database}",
            "--user=root",
            f"--socket={socket}",
            "--skip-networking",
            f"--pid-file={database}/pid",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(socket.exists, bool)
        slurmdbd = ["env", f"SLURM_CONF={folder}/slurm.conf", f"MYSQL_UNIX_PORT={socket}", "slurmdbd", "-D"]
        conf = CONF + ACCOUNTING.replace("{port}", str(port))
        running = RealSlurm(folder, conf, {"slurmdbd": slurmdbd})
        yield running
        running.close()
    finally:
        mariadbd.kill()
        mariadbd.wait()


def test_accounts_users_qos_and_finished_jobs(accounted: RealSlurm) -> None:
    began = datetime.now(UTC) - timedelta(seconds=1)
    with Slurm(Here(accounted.environment)) as slurm:
        accounting = slurm.accounting
        for _ in range(2):
            accounting.add_cluster("contract")
            accounting.add_account("physics", description="a|b")
            accounting.add_user("nobody", "physics")
            accounting.add_qos("night")
            accounting.set_limits("account", "physics", {"GrpTRES": "cpu=4", "MaxJobs": "3"})
            accounting.set_limits("qos", "night", {"Priority": "7", "MaxTRESPerUser": "cpu=2"})
        assert [cluster.name for cluster in accounting.clusters()] == ["contract"]
        assert {account.name: account.description for account in accounting.accounts()}["physics"] == "a|b"
        assert {user.name: user.default_account for user in accounting.users()}["nobody"] == "physics"
        night = next(qos for qos in accounting.qos() if qos.name == "night")
        assert (night.priority, night.max_tres_per_user) == (7, {"cpu": "2"})
        of_account = next(a for a in accounting.associations() if a.account == "physics" and not a.user)
        assert (of_account.parent, of_account.group_tres, of_account.max_jobs) == ("root", {"cpu": "4"}, 3)
        with pytest.raises(NotFound):
            accounting.set_limits("account", "nobody-knows", {"MaxJobs": "3"})
        with pytest.raises(Refused, match="NoSuch"):
            accounting.set_limits("account", "physics", {"NoSuch": "3"})

        world = RealWorld(accounted, slurm, slurm)
        up(world, 1)
        job_id = slurm.submit(JobRequest("#!/bin/sh\nexit 3\n", name="x|y", output="/dev/null")).job_id
        wait_for_job(world, job_id, JobState.FAILED)
        finished = eventually(
            lambda: accounting.jobs_since(began),
            lambda jobs: any(job.state is JobState.FAILED for job in jobs),
        )
        (job,) = finished
        assert (job.job_id, job.name, job.exit_code, job.user) == (job_id, "x|y", 3, "root")
        assert job.end_time is not None
        assert job.end_time >= began

        for _ in range(2):
            accounting.delete_user("nobody")
            accounting.delete_account("physics")
            accounting.delete_qos("night")
        assert [account.name for account in accounting.accounts()] == ["root"]

        accounted.kill("slurmdbd")
        with pytest.raises(DatabaseDown):
            accounting.accounts()
        with pytest.raises(DatabaseDown):
            accounting.jobs_since(began)
        assert len(slurm.nodes()) == 1

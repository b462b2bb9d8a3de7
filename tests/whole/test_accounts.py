"""A department's accounts, whole: limits hold jobs, somebody changes them by hand, a person changes them in the spec."""

from __future__ import annotations

from typing import Any

import pytest

from tests.whole.cluster import SPEC, Cluster, summary, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState

pytestmark = pytest.mark.slow

ACCOUNTS: list[dict[str, Any]] = [
    {"name": "physics", "shares": 3, "limits": {"GrpTRES": "cpu=2"}},
    {"name": "optics", "parent": "physics", "users": ["researcher"]},
    {"name": "biology", "users": ["grace"]},
]
USERS: list[dict[str, Any]] = [{"name": "researcher", "uid": 2000}, {"name": "grace", "uid": 3002}]
QOS: list[dict[str, Any]] = [{"name": "urgent", "limits": {"Priority": 100}}]


def sacctmgr(cluster: Cluster, *words: str) -> str:
    done = cluster.on("ctl", "sacctmgr", "--immediate", *words)
    assert done.exit_code == 0, done
    return done.stdout


def changes(cluster: Cluster) -> dict[str, int]:
    """What `up` did, but what stayed as it was."""
    found = dict(summary(cluster.up("--json"))["changes"])
    found.pop("same", None)
    return found


def limits_of(cluster: Cluster, account: str) -> str:
    where = ("account=" + account, "user=", "format=GrpTRES,MaxJobs", "WOPLimits")
    return sacctmgr(cluster, "--parsable", "--noheader", "show", "assoc", *where).strip()


def why(cluster: Cluster, job: int) -> str:
    return " ".join(cluster.tidepool("why", "job", str(job)).split())


def test_limits_hold_jobs_drift_is_mended_and_a_change_is_a_change(
    images: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    controller = {**SPEC["controller"], "accounting": {"shape": {"cpus": 1, "memory": "512MiB"}}}
    with a_cluster(
        tmp_path_factory.mktemp("cluster"),
        images,
        controller=controller,
        users=USERS,
        accounts=ACCOUNTS,
        qos=QOS,
    ) as cluster:
        assert changes(cluster) == {}
        shares = cluster.on("ctl", "sshare", "-P", "-n", "-a", "-o", "Account,User,RawShares").stdout.split()
        assert {"physics||3", "optics|researcher|1"} <= set(shares)

        # Of four processors two are the account's.
        first, second = (
            cluster.submit("sleep 600", account="optics", cpus_per_task=2, output="/dev/null")
            for _ in range(2)
        )
        cluster.until_job(first, JobState.RUNNING)
        until(lambda: cluster.job(second).reason == "AssocGrpCpuLimit" or None, "the limit holds it")
        said = why(cluster, second)
        assert "GrpTRES cpu=2 of the account physics" in said, said
        cluster.tidepool("scale", "--once")
        assert len(cluster.nodes()) == 2

        # Somebody's hand: a refresh shows it, the next `up` mends it.
        sacctmgr(cluster, "modify", "account", "where", "name=physics", "set", "GrpTRES=cpu=1", "MaxJobs=7")
        shown = " ".join(cluster.tidepool("preview", "--refresh").split())
        assert "physics changes in limits" in shown, shown
        assert changes(cluster) == {"update": 1}
        assert limits_of(cluster, "physics") == "cpu=2||"

        # More for the account: its job runs at once.
        cluster.spec["accounts"][0]["limits"] = {"GrpTRES": "cpu=4"}
        assert changes(cluster) == {"update": 1}
        cluster.until_job(second, JobState.RUNNING)

        # A limit below what runs is told, and stops nothing; an account with jobs stays, and is told.
        cluster.spec["accounts"][0]["limits"] = {"GrpTRES": "cpu=1"}
        cluster.write_spec()
        told = " ".join(cluster.tidepool("preview").split())
        assert "GrpTRES cpu=1 of the account physics is less than is used, 4" in told, told
        cluster.spec["accounts"][0]["limits"] = {"GrpTRES": "cpu=4"}
        kept = cluster.spec["accounts"]
        cluster.spec["accounts"] = [kept[0], {**kept[2], "users": ["grace", "researcher"]}]
        told = " ".join(cluster.refused("up", "--yes").split())
        assert "the account optics cannot go" in told, told
        for job in (first, second):
            cluster.on("ctl", "scancel", str(job))
            cluster.until_job(job, JobState.CANCELLED)
        until(lambda: cluster.run("up", "--yes").returncode == 0 or None, "the account goes", 60)
        assert "optics" not in sacctmgr(cluster, "-P", "-n", "show", "assoc", "format=Account")

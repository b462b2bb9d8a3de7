"""Budgets of accounts, whole: one is spent, and its jobs wait until it is raised; and the report of what was used."""

from __future__ import annotations

import csv
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.whole.breathing import scale_until
from tests.whole.cluster import SPEC, Cluster
from tests.whole.conftest import a_cluster
from tests.whole.test_accounts import changes, sacctmgr, why
from tidepool.clients.slurm import JobState
from tidepool.scaling.journal import open_journal

pytestmark = pytest.mark.slow

#: A cent a second.
USD_PER_HOUR = 36
ACCOUNTS: list[dict[str, Any]] = [
    {"name": "physics", "budget": {"usd_per_month": 0.05, "node_hours_per_month": 100}},
    {"name": "optics", "parent": "physics", "users": ["researcher"]},
    {"name": "biology", "users": ["researcher"]},
]


def held(cluster: Cluster) -> bool:
    where = ("account=physics", "user=", "format=GrpJobs", "WOPLimits")
    return sacctmgr(cluster, "--parsable2", "--noheader", "show", "assoc", *where).strip() == "0"


def test_a_spent_account_starts_no_machine_and_the_report_agrees_with_sreport_and_the_journal(
    images: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    begun = datetime.now(UTC)
    fleet = {
        **SPEC["fleets"][0],
        "min_nodes": 0,
        "infrastructures": [{"name": "local", "price_usd_per_hour": USD_PER_HOUR}],
    }
    controller = {**SPEC["controller"], "accounting": {"shape": {"cpus": 1, "memory": "512MiB"}}}
    folder = tmp_path_factory.mktemp("cluster")
    with a_cluster(folder, images, controller=controller, fleets=[fleet], accounts=ACCOUNTS) as cluster:
        # A job of an account below it spends the budget.
        first = cluster.submit("sleep 7", account="optics", output="/dev/null")
        cluster.tidepool("scale", "--once")
        cluster.until_job(first, JobState.COMPLETED)
        scale_until(cluster, lambda: held(cluster), "Slurm begins no more jobs of it")

        # There is a node for each of these, and one is to be made; only of the account that has no budget one is.
        spent, other = (
            cluster.submit("sleep 5", account=account, nodes=2, output="/dev/null")
            for account in ("optics", "biology")
        )
        cluster.tidepool("scale", "--once")
        cluster.until_job(other, JobState.COMPLETED)
        assert cluster.job(spent).reason == "AssocGrpJobsLimit"
        assert sorted(cluster.nodes()) == ["cpu-1", "cpu-2"]
        told = why(cluster, spent)
        assert "the budget of the account physics is spent" in told, told
        assert "begins anew on" in told, told
        budgets = json.loads(cluster.tidepool("status", "--json"))["scaler"]["budgets"]
        assert [(each["account"], each["isSpent"]) for each in budgets] == [("physics", True)]
        assert "physics  " in cluster.run("watch", "--once").stdout

        # What holds it is no difference to the stack; and where it was lost, it is there again.
        shown = cluster.tidepool("preview", "--refresh")
        assert "limits" not in shown, shown
        assert changes(cluster) == {}
        assert held(cluster)
        sacctmgr(cluster, "modify", "account", "where", "name=physics", "set", "GrpJobs=-1")
        cluster.tidepool("scale", "--once")
        assert held(cluster)
        log = (cluster.data / cluster.stack / "scaler" / "log.jsonl").read_text().splitlines()
        warned = [each for each in map(json.loads, log) if each["event"] == "account-budget"]
        assert [each["account"] for each in warned] == ["physics"], warned

        # A higher budget lets it go.
        cluster.spec["accounts"][0]["budget"]["usd_per_month"] = 100
        assert changes(cluster) == {"update": 1}
        assert not held(cluster)
        cluster.tidepool("scale", "--once")
        cluster.until_job(spent, JobState.COMPLETED)

        # All of it as slurmdbd's hourly sums have it, and the journal.
        cluster.tidepool("scale", "--once")
        table = folder / "report.csv"
        shown = json.loads(
            cluster.tidepool("report", "--json", "--csv", str(table), "--svg", str(folder / "report.svg"))
        )
        assert used(table) == used_by_sreport(cluster, begun)
        assert set(used(table)) == {("optics", "researcher"), ("biology", "researcher")}
        with_idle = sum(map(Decimal, column(table, "machineSeconds") + column(table, "idleMachineSeconds")))
        cost = sum(map(Decimal, column(table, "usd") + column(table, "idleUsd")))
        times = journal_times(cluster, f"{datetime.now(UTC):%Y-%m}")
        assert abs(float(with_idle) - sum(seconds for seconds, _ in times)) < 0.001
        assert abs(float(cost) - sum(usd for _, usd in times)) < 0.001
        # A job that asks for no memory takes all of a node, so it had as much of machines as of nodes.
        assert shown["total"]["machineSeconds"] == shown["total"]["nodeSeconds"]
        assert shown["total"]["idleMachineSeconds"] > 0
        assert (folder / "report.svg").read_text().startswith("<?xml")


def column(table: Path, name: str) -> list[str]:
    with table.open(newline="") as stream:
        return [row[name] for row in csv.DictReader(stream)]


def used(table: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """By account and user, the seconds of nodes and of processors."""
    with table.open(newline="") as stream:
        return {
            (row["account"], row["user"]): (int(row["nodeSeconds"]), int(row["cpuSeconds"]))
            for row in csv.DictReader(stream)
        }


def used_by_sreport(cluster: Cluster, begun: datetime) -> dict[tuple[str, str], tuple[int, int]]:
    """The same, as sreport has it, hour by hour: slurmdbd is asked to sum up this one as well, which has not ended."""
    hour, now = begun.replace(minute=0, second=0, microsecond=0), datetime.now(UTC)
    ends = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    sacctmgr_rollup = (
        "env",
        "TZ=UTC0",
        "sacctmgr",
        "--immediate",
        "rollup",
        f"{hour:%FT%T}",
        f"{ends:%FT%T}",
    )
    done = cluster.on("ctl", *sacctmgr_rollup)
    assert done.exit_code == 0, done
    found: Counter[tuple[str, str, str]] = Counter()
    while hour < ends:
        end = hour + timedelta(hours=1)
        report = cluster.on(
            "ctl", "env", "TZ=UTC0", "sreport", "cluster", "AccountUtilizationByUser", "-T", "cpu,node", "--parsable2",
            "--noheader", "-t", "Seconds", f"start={hour:%FT%T}", f"end={end:%FT%T}",
        )  # fmt: skip
        assert report.exit_code == 0, report
        for line in report.stdout.splitlines():
            _, account, user, _, tres, seconds = line.split("|")
            if user:
                found[account, user, tres] += int(seconds)
        hour = end
    return {(a, u): (found[a, u, "node"], found[a, u, "cpu"]) for a, u, _ in found}


def journal_times(cluster: Cluster, month: str) -> list[tuple[float, float]]:
    """Seconds and US dollars of machines of each fleet in a month, and of the cluster's own."""
    journal = open_journal(cluster.data / cluster.stack / "scaler", {})
    spent = journal.kept().memory.spent
    journal.close()
    assert spent is not None
    return [(time.seconds, time.usd) for time in spent.machines[month].values()]

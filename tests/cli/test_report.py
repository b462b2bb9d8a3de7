"""`report` as a person types it: a journal in a file, and slurmdbd's records in memory."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.standins import OUTPUTS, Person
from tidepool.cli import errors
from tidepool.clients.slurm import DatabaseDown
from tidepool.clients.slurm import usage as records
from tidepool.clients.slurm.usage import JobTime
from tidepool.cluster.hostlist import HostSet
from tidepool.infrastructures.boot_times import LaunchPhase
from tidepool.scaling.journal import open_journal
from tidepool.scaling.memory import MachineTime, Memory, Spent
from tidepool.scaling.ports import Kept, LaunchRecord
from tidepool.scaling.usage import clipped

NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)
#: The journal begins in the middle of the month.
SINCE = NOVEMBER + timedelta(days=10)


def at_s(day: int, hour: int = 0) -> int:
    return int((NOVEMBER + timedelta(days=day, hours=hour)).timestamp())


class Records:
    """slurmdbd's."""

    def job_times(self, begin: int, end: int) -> tuple[JobTime, ...]:
        if begin < at_s(0):
            raise DatabaseDown("slurmdbd does not answer", where="sacct", remedy="see whether it runs")
        there = (
            JobTime("optics", "ada", "cpu-1", at_s(5), at_s(5, 2), 7200, 1, 64),
            JobTime("optics", "grace", "cpu-1", at_s(20), at_s(20, 1), 3600, 1, 64),
            JobTime("biology", "ada", "cpu-2", at_s(20), at_s(20, 3), 10_800, 1, 64),
        )
        assert end - begin <= 86_400
        return tuple(clipped(there, begin, end))

    def close(self) -> None: ...


@pytest.fixture
def up(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Somebody whose cluster is up, and has been looked at by a scaler since the 11th."""
    somebody.engine.outputs = OUTPUTS
    accounts = [{"name": "optics", "shares": 3}, {"name": "biology"}]
    somebody.write(controller={"accounting": {}}, accounts=accounts)
    monkeypatch.setattr(records, "AccountRecords", lambda *_: Records())
    journal = open_journal(somebody.context.data / "dev" / "scaler", {}, power_safe=False)
    lease = journal.acquire("ctl:77", datetime.now(UTC), 3600)
    assert lease is not None
    machines = {"2026-11": {"cpu": MachineTime(8 * 3600, 16), "": MachineTime(3600, 1)}}
    spent = Spent("2026-11", 17, NOVEMBER + timedelta(days=30), machines, SINCE)
    journal.write_kept(lease, Kept({"cpu": HostSet("cpu-1")}, Memory(spent=spent)))
    journal.close()
    return somebody


def report(up: Person, *words: str) -> dict[str, Any]:
    said = up.runs("report", "--month", "2026-11", "--json", *words)
    assert said.exit_code == 0, said.output
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def test_seconds_are_of_the_month_and_machines_of_the_time_that_was_counted(up: Person) -> None:
    told = report(up)
    optics = next(row for row in told["rows"] if row["account"] == "optics")
    assert (optics["nodeSeconds"], optics["machineSeconds"], optics["usd"]) == (10_800, 3600, 2)
    assert told["total"]["machineSeconds"] + told["total"]["idleMachineSeconds"] == 9 * 3600
    assert told["total"]["usd"] + told["total"]["idleUsd"] == 17
    assert told["machinesCountedSince"] == SINCE.isoformat()


def test_it_is_summed_up_and_idle_time_borne_as_is_said(up: Person) -> None:
    by_user = report(up, "--by", "user", "--idle", "none")["rows"]
    assert [(row["user"], row["machineSeconds"]) for row in by_user] == [
        ("", 0),
        ("ada", 10_800),
        ("grace", 3600),
    ]
    by_fleet = report(up, "--by", "fleet")["rows"]
    assert [(row["fleet"], row["idleUsd"]) for row in by_fleet] == [("", 1), ("cpu", 8)]
    shares = report(up, "--idle", "shares")["rows"]
    assert {row["account"]: row["idleUsd"] for row in shares} == {"optics": 6.75, "biology": 2.25}


def test_a_table_and_drawings_are_written_and_add_up(up: Person) -> None:
    paths = {kind: up.folder / f"report.{kind}" for kind in ("csv", "svg", "png")}
    said = up.runs(
        "report",
        "--month",
        "2026-11",
        *(word for kind, path in paths.items() for word in (f"--{kind}", str(path))),
    )
    assert said.exit_code == 0, said.output
    assert "Machines are counted from 2026-11-11 00:00" in said.output
    with paths["csv"].open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert sum(float(row["usd"]) + float(row["idleUsd"]) for row in rows) == 17
    assert {(row["account"], row["user"]) for row in rows} == {
        ("optics", "ada"),
        ("optics", "grace"),
        ("biology", "ada"),
    }
    drawn = paths["svg"].read_bytes()
    up.runs("report", "--month", "2026-11", "--svg", str(paths["svg"]))
    assert paths["svg"].read_bytes() == drawn
    assert paths["png"].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--month", "November"), errors.USAGE, "write 2026-11"),
        (("--month", "2999-01"), errors.USAGE, "has not begun"),
        (("--month", "2026-10"), errors.FAILED, "slurmdbd does not answer"),
        (("--month", "2026-11", "--svg", "report.pdf"), errors.FAILED, ".svg or .png"),
        (("--month", "2026-11", "--csv", "/nowhere/report.csv"), errors.FAILED, "cannot be written"),
    ],
)
def test_what_cannot_be_is_told(up: Person, words: tuple[str, ...], code: int, told: str) -> None:
    said = up.runs("report", *words)
    assert (said.exit_code, told in said.output) == (code, True), said.output


def test_a_cluster_without_slurmdbd_has_no_report(somebody: Person) -> None:
    somebody.engine.outputs = OUTPUTS
    said = somebody.runs("report")
    assert said.exit_code == errors.NOT_THERE
    assert "controller: {accounting: {}}" in said.output


def a_launch(second: int, node: str) -> LaunchRecord:
    asked = NOVEMBER + timedelta(days=20, seconds=second)
    began: dict[LaunchPhase, datetime] = {"asked": asked, "making": asked + timedelta(seconds=2)}
    return LaunchRecord(node, "cpu", "local", asked + timedelta(seconds=3), began)


def test_launches_are_told_by_phase_and_those_of_another_month_are_not(up: Person) -> None:
    journal = open_journal(up.context.data / "dev" / "scaler", {}, power_safe=False)
    lease = journal.acquire("ctl:77", datetime.now(UTC), 3600)
    assert lease is not None
    journal.launched(lease, [a_launch(0, "cpu-1"), a_launch(9, "cpu-2"), a_launch(86_400 * 20, "cpu-3")])
    journal.close()
    table, drawn = up.folder / "launches.csv", up.folder / "launches.svg"
    said = up.runs(
        "report", "--launches", "--month", "2026-11", "--csv", str(table), "--svg", str(drawn), "--json"
    )
    assert said.exit_code == 0, said.output
    assert [(row["phase"], row["count"], row["p50"]) for row in json.loads(said.stdout)] == [
        ("asked", 2, 2.0),
        ("making", 2, 1.0),
        ("total", 2, 3.0),
    ]
    with table.open(newline="") as stream:
        assert [row["node"] for row in csv.DictReader(stream)] == ["cpu-1", "cpu-2"]
    assert drawn.read_text().startswith("<?xml")
    assert "2 launches that came up" in up.runs("report", "--launches", "--month", "2026-11").output
    wrong = up.runs("report", "--launches", "--by", "fleet")
    assert (wrong.exit_code, "goes without --by" in wrong.output) == (errors.USAGE, True)

"""`lab report`, `lab compare` and `lab phases` as a person types them: results in a folder, journals in files."""

from __future__ import annotations

import csv
import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.standins import Person
from tests.conversion.test_report import conversion
from tests.lab.report.campaigns import SCHEDULERS, MadeUp, made_up
from tidepool.cli import errors
from tidepool.conversion.journal import Journal
from tidepool.infrastructures.boot_times import LaunchPhase
from tidepool.scaling.journal import open_journal
from tidepool.scaling.ports import LaunchRecord

AT = datetime.now(UTC) - timedelta(days=1)


def campaigns(person: Person) -> Path:
    folder = person.folder / "results" / "lab"
    folder.mkdir(parents=True)
    return folder


def test_a_report_is_written_and_its_files_are_named(somebody: Person) -> None:
    made_up(campaigns(somebody) / "dev", repeats=1, workloads=("bag",))
    said = somebody.runs("lab", "report", "--pdf", "--json")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert told["missing"] == 0
    assert (
        "tidepool -s dev lab run again &amp;&amp; tidepool -s dev lab report again"
        in Path(told["page"]).read_text()
    )
    assert Path(told["paper"]).read_bytes().startswith(b"%PDF")
    assert all(Path(each).is_file() for each in told["values"])


def test_of_a_campaign_that_is_not_whole_it_is_said_where_it_was_asked_for(somebody: Person) -> None:
    made_up(campaigns(somebody) / "cut", repeats=1, trials=0)
    said = somebody.runs("lab", "report", "cut")
    assert said.exit_code == 0, said.output
    assert (
        "4 trials missing: the report says that it is incomplete; `tidepool -s dev lab run cut` goes on"
        in said.stderr
    )
    assert said.stdout.splitlines() == [
        str(somebody.folder / "results" / "lab" / "cut" / "report" / "index.html")
    ]


@pytest.mark.parametrize("words", [("report",), ("report", "other"), ("compare", "one", "other")])
def test_a_campaign_that_is_not_there_is_told_with_those_that_are(
    somebody: Person, words: tuple[str, ...]
) -> None:
    (campaigns(somebody) / "mine").mkdir()
    said = somebody.runs("lab", *words)
    assert said.exit_code == errors.NOT_THERE
    assert "there are: mine" in said.output


def test_packages_that_are_not_installed_are_named_before_anything_is_made(
    somebody: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(campaigns(somebody) / "dev", repeats=1, trials=0)
    monkeypatch.setattr(
        "tidepool.cli.lab.packages.find_spec", lambda name: None if name == "typst" else object()
    )
    said = somebody.runs("lab", "report", "--pdf")
    assert said.exit_code == errors.LACKS
    assert "pip install typst" in said.output
    assert not (somebody.folder / "results" / "lab" / "dev" / "report").exists()


def test_two_campaigns_are_compared(somebody: Person, tmp_path: Path) -> None:
    made_up(campaigns(somebody) / "one", workloads=("bag",))
    slower = {**SCHEDULERS, "slurm": MadeUp(0.4, SCHEDULERS["slurm"].can)}
    made_up(tmp_path / "elsewhere" / "other", slower, workloads=("bag",), kernel="6.2")
    where = str(tmp_path / "elsewhere" / "other")
    said = somebody.runs("lab", "compare", "one", where, "--json")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert {"where": "slurm", "setting": "kernel", "left": "6.1", "right": "6.2"} in told["settings"]
    waits = {each["left"]: each for each in told["figures"] if each["measure"] == "makespan_seconds"}
    assert (waits["one: slurm"]["verdict"], waits["one: slurm"]["isBetter"]) == ("higher", False)
    assert (waits["one: kubernetes"]["verdict"], waits["one: kubernetes"]["isBetter"]) == (
        "no difference shown",
        None,
    )
    table = somebody.runs("lab", "compare", "one", where).stdout
    assert "differ by more than noise" in table
    assert "higher, worse" in table
    alike = somebody.runs("lab", "compare", "one", "one").stdout
    assert "No setting has changed." in alike
    assert f"0 of {len(told['figures'])} figures differ by more than noise." in alike


def test_what_is_not_whole_is_not_compared(somebody: Person) -> None:
    folder = campaigns(somebody)
    made_up(folder / "one", repeats=1, workloads=("bag",))
    made_up(folder / "cut", repeats=1, trials=3)
    said = somebody.runs("lab", "compare", "one", "cut")
    assert said.exit_code == errors.FAILED
    assert "is not whole" in said.output


def test_launches_and_conversions_of_all_stacks_are_in_one_table(somebody: Person) -> None:
    data = somebody.context.data
    somebody.write("west")
    with closing(open_journal(data / "dev" / "scaler", {}, power_safe=False)) as journal:
        lease = journal.acquire("ctl:77", datetime.now(UTC), 3600)
        assert lease is not None
        began: dict[LaunchPhase, datetime] = {
            "asked": AT,
            "kernel": AT + timedelta(seconds=2),
            "units": AT + timedelta(seconds=5),
        }
        journal.launched(lease, [LaunchRecord("cpu-1", "cpu", "libvirt", AT + timedelta(seconds=9), began)])
    (data / "west").mkdir()
    with closing(Journal(data / "west" / "conversions.db", power_safe=False)) as conversions:
        ordered = conversions.order(replace(conversion(1).order, pool="gone"), "slurm")
        conversions.write(replace(conversion(1), id=ordered.id, order=ordered.order))
    table, drawn = somebody.folder / "phases.csv", somebody.folder / "phases.png"
    said = somebody.runs("-s", "dev", "lab", "phases", "--csv", str(table), "--png", str(drawn), "--json")
    assert said.exit_code == 0, said.output
    groups = {row["group"]: row["count"] for row in json.loads(said.stdout) if row["phase"] == "total"}
    assert groups == {"launch on libvirt": 1, "slurm -> kubernetes": 1}
    with table.open(newline="") as stream:
        assert [(row["stack"], row["kind"]) for row in csv.DictReader(stream)] == [
            ("dev", "launch"),
            ("west", "slurm -> kubernetes"),
        ]
    assert drawn.read_bytes().startswith(b"\x89PNG")
    told = somebody.runs("-s", "dev", "lab", "phases", "--of", "dev").output
    assert "1 machines that were made ready" in told
    assert "p99 is not to be believed: launch on libvirt (1)" in told


def test_where_nothing_was_made_ready_it_is_said(somebody: Person) -> None:
    said = somebody.runs("lab", "phases")
    assert said.exit_code == errors.NOT_THERE
    assert "no machine was launched or converted yet in the stacks that were looked at: dev" in said.output

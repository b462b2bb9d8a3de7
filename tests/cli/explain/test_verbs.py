"""`watch` and `why` as a person types them, with a journal in a file and a Slurm in memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.explain.records import job, launch, nodes, spec
from tests.cli.standins import OUTPUTS, Person
from tidepool.cli import errors
from tidepool.clients.slurm import JobRequest, JobState, Slots
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Cost, Decision, Phase, Waiting
from tidepool.scaling.journal import JOURNAL_FILE, open_journal
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import JobRecord, Journal, Lease, Pause


@dataclass
class Daemon:
    """One that looked a moment ago, and decided to launch cpu-2 for job 41."""

    journal: Journal
    folder: Path
    now: datetime
    lease: Lease

    def looks(self, **changes: object) -> None:
        context = ClusterState(self.now, spec(), (), (job(41), job(40, JobState.RUNNING, nodelist="cpu-1")))
        decision = Decision(
            self.now,
            actions=(launch("cpu-2", jobs=(41,)),),
            waiting={41: Waiting(41, "coming", "cpu-2 is being made for it", ("cpu-2",))},
            desired={"cpu": HostSet("cpu-[1-2]")},
            nodes=nodes(cpu_1=Phase.BUSY, cpu_2=Phase.LAUNCHING),
            memory=Memory(),
            cost=Cost(),
        )
        self.journal.decided(self.lease, context, Memory(), decision)
        self.journal.looked(self.lease, context, decision)


@pytest.fixture
def up(somebody: Person) -> Person:
    """Somebody whose cluster is up."""
    somebody.engine.outputs = OUTPUTS
    somebody.slurm.create_slots(Slots("cpu-[1-4]", addresses="10.99.1.[1-4]", cpus=1, memory_mib=64))
    return somebody


@pytest.fixture
def daemon(up: Person) -> Iterator[Daemon]:
    folder = up.context.data / "dev" / "scaler"
    journal = open_journal(folder, {}, power_safe=False)
    now = datetime.now(UTC)
    # So long that a test on a slow machine finds it held.
    lease = journal.acquire("ctl:77", now, 3600)
    assert lease is not None
    made = Daemon(journal, folder, now, lease)
    made.looks()
    yield made
    journal.close()


def test_watch_shows_one_frame_where_there_is_no_terminal(daemon: Daemon, up: Person) -> None:
    said = up.runs("watch")
    assert said.exit_code == 0, said.output
    for words in ("ctl:77", "1 waiting", "1 running", "cpu-2 is being made for it", "launch cpu-2", "wish 2"):
        assert words in said.output, (words, said.output)
    assert up.engine.asked == []
    assert "\x1b" not in said.output


def test_watch_as_json(daemon: Daemon, up: Person) -> None:
    told = json.loads(up.runs("watch", "--json").stdout)
    assert told["health"]["holder"] == "ctl:77"
    assert told["queue"] == {"waiting": {"coming": 1}, "running": 1}
    assert [fleet["name"] for fleet in told["fleets"]] == ["cpu", "gpu"]


def test_watch_says_that_nobody_runs(up: Person) -> None:
    said = up.runs("watch", "--once")
    assert said.exit_code == errors.NOT_THERE
    assert "no daemon has run" in said.output
    # Looking made nothing.
    assert not (up.context.data / "dev").exists()


def test_watch_of_a_daemon_that_ended(daemon: Daemon, up: Person) -> None:
    daemon.journal.release(daemon.lease)
    said = up.runs("watch", "--once")
    assert said.exit_code == errors.NOT_THERE
    assert "does not run" in said.output
    assert "cpu-2" in said.output


def test_watch_says_who_paused(daemon: Daemon, up: Person) -> None:
    daemon.journal.pause(Pause("ada", daemon.now, "new switch"))
    assert "paused by ada" in up.runs("watch").output


def test_without_a_cluster_there_is_nothing_to_watch(somebody: Person) -> None:
    for words in (("watch",), ("why", "fleet", "cpu"), ("plan",)):
        said = somebody.runs(*words)
        assert said.exit_code == errors.NOT_THERE, said.output
        assert "is not up" in said.output


def test_a_journal_of_a_newer_release_is_refused(daemon: Daemon, up: Person) -> None:
    with sqlite3.connect(daemon.folder / JOURNAL_FILE) as database:
        database.execute("UPDATE tidepool_journal SET version = 99")
    for words in (("watch",), ("why", "job", "41")):
        said = up.runs(*words)
        assert said.exit_code == errors.FAILED
        assert "newer release" in said.output
        assert "Traceback" not in said.output
    said = up.runs("status")
    assert "newer release" in said.output


def test_a_journal_that_is_none_is_refused(up: Person) -> None:
    folder = up.context.data / "dev" / "scaler"
    folder.mkdir(parents=True)
    (folder / JOURNAL_FILE).write_text("what is this?" * 100)
    said = up.runs("watch")
    assert said.exit_code == errors.FAILED
    assert str(folder) in said.output


def test_why_job(daemon: Daemon, up: Person) -> None:
    said = up.runs("why", "job", "41")
    assert said.exit_code == 0, said.output
    for words in ("job 41", "nodes are coming for it", "launch cpu-2", "gpu"):
        assert words in said.output, (words, said.output)
    told = json.loads(up.runs("why", "job", "41", "--json").stdout)
    assert (told["jobId"], told["standing"], told["coming"][0]["nodes"]) == (41, "coming", "cpu-2")
    assert {fleet["fleet"] for fleet in told["fleets"]} == {"cpu", "gpu"}


def test_why_job_that_slurm_knows_and_the_daemon_does_not_yet(daemon: Daemon, up: Person) -> None:
    job_id = up.slurm.submit(JobRequest("#!/bin/sh\n", name="fresh")).job_id
    said = up.runs("why", "job", str(job_id))
    assert said.exit_code == 0, said.output
    assert "fresh" in said.output
    assert "nobody has decided" in said.output


def test_why_job_that_has_ended(daemon: Daemon, up: Person) -> None:
    at = daemon.now
    daemon.journal.saw(
        daemon.lease,
        [JobRecord(39, at - timedelta(60), at - timedelta(59), at - timedelta(58), {"name": "old"})],
    )
    daemon.journal.saw(
        daemon.lease,
        [JobRecord(39, at - timedelta(5), at - timedelta(4), at - timedelta(3), {"name": "newer"})],
    )
    said = up.runs("why", "job", "39")
    assert "job 39 (newer)" in said.output
    assert "It ended 3 d ago" in said.output

    # After a `down` there is no Slurm to be asked.
    up.engine.outputs = None
    said = up.runs("why", "job", "39")
    assert said.exit_code == 0, said.output
    assert "Slurm could not be asked for the job: the cluster of stack dev is not up" in said.output
    assert "It ended 3 d ago" in said.output
    said = up.runs("why", "job", "4711")
    assert said.exit_code == errors.NOT_THERE
    assert "the journal knows no job 4711, and Slurm could not be asked" in said.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("job", "4711"), errors.NOT_THERE, "jobs that have not ended: 40, 41"),
        (("job", "x"), errors.USAGE, "is no job's id"),
        (("job", "41_"), errors.USAGE, "is no job's id"),
        (("node", "cpu-17"), errors.NOT_THERE, "the slots of fleet cpu are cpu-[1-16]"),
        (("node", "disk-1"), errors.NOT_THERE, "the fleets are cpu, gpu"),
        (("node", "cpu-01"), errors.USAGE, "is no node's name"),
        (("node", "cpu"), errors.USAGE, "is no node's name"),
        (("fleet", "disk"), errors.NOT_THERE, "the fleets are cpu, gpu"),
        (("stack", "dev"), errors.USAGE, "'job', 'node', 'fleet'"),
    ],
)
def test_what_is_not_known_is_told_with_what_is(
    daemon: Daemon, up: Person, words: tuple[str, ...], code: int, said: str
) -> None:
    done = up.runs("why", *words)
    assert done.exit_code == code, done.output
    assert said in done.output


def test_why_node_and_fleet(daemon: Daemon, up: Person) -> None:
    said = up.runs("why", "node", "cpu-2")
    assert "It is launching" in said.output
    assert "made for" in said.output
    absent = json.loads(up.runs("why", "node", "cpu-9", "--json").stdout)
    assert absent["phase"] == "absent"
    said = up.runs("why", "fleet", "cpu")
    assert "The scaler wants 2 nodes: cpu-[1-2]." in said.output


def test_status_has_a_line_on_the_scaler(daemon: Daemon, up: Person) -> None:
    told = json.loads(up.runs("status", "--json").stdout)["scaler"]
    assert (told["state"], told["wish"], told["there"]) == ("runs", 2, 1)
    said = up.runs("status")
    assert "2 nodes wished, 1 there" in said.output
    daemon.journal.pause(Pause("ada", daemon.now))
    assert json.loads(up.runs("status", "--json").stdout)["scaler"]["state"] == "paused"


def test_status_without_a_journal(up: Person) -> None:
    assert "no daemon has run" in up.runs("status").output
    assert json.loads(up.runs("status", "--json").stdout)["scaler"]["state"] == "never"

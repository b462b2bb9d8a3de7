"""Runs of the tests: a project whose stack is never up, a place of results, and what must be of each run that has ended."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.forking import fork_server
from tests.whole.cluster import Cluster
from tidepool.cluster.run_service import CREDENTIALS_FILE
from tidepool.infrastructures.local.kernel import list_machines, list_networks
from tidepool.runs.record import Run
from tidepool.runs.results import open_store
from tidepool.runs.results.records import StoredRecords, credentials_name

#: One node is there at once, so nothing is waited for but what a run does.
FLEET: Mapping[str, Any] = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "min_nodes": 1,
    "max_nodes": 4,
    "shape": {"cpus": 2, "memory": "256MiB"},
}
#: What runs of these tests are told beyond their results.
_RUN_S = 300.0


@dataclass
class Runs:
    """Runs of one project, with results at ``url``; ``settings`` are who may write there."""

    project: Cluster
    url: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def make(
        cls, folder: Path, images: Path, url: str = "", settings: Mapping[str, str] | None = None, **spec: Any
    ) -> Runs:
        """A project whose stack is described, and nothing of it made; by default with results in a folder."""
        project = Cluster.make(folder, images, "template", **{"fleets": [dict(FLEET)], **spec})
        project.write_spec()
        if not url:
            (folder / "results").mkdir()
            url = (folder / "results").as_uri()
        return cls(project, url, settings or {})

    def write(self, workload: Mapping[str, Any], name: str = "workload.yaml") -> str:
        (self.project.folder / name).write_text(yaml.safe_dump(dict(workload)))
        return name

    def words(self, workload: Mapping[str, Any], *more: str, name: str = "workload.yaml") -> list[str]:
        """The verb by which a workload is run; ``name`` is its file's."""
        return ["run", self.project.stack, self.write(workload, name), "--results", self.url, "--json", *more]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Do a verb, whatever comes of it."""
        return self.project.run(*words, timeout_s=_RUN_S, **self.settings)

    def begin(self, *words: str, **settings: str) -> subprocess.Popen[str]:
        """Begin a verb as a person does, whose standard output is read line by line."""
        return subprocess.Popen(
            [*self.project.command, *words],
            cwd=self.project.folder,
            env={**self.project.environment, **self.settings, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def killed_at(self, step: str, when: str, *words: str) -> bool:
        """Do a verb that is killed when its journal says that ``step`` is done, before or after that is written; whether it was."""
        argv = ["-m", "tests.whole.killed_run", step, when, "--stack", self.project.stack, *words]
        env = {**self.project.environment, **self.settings}
        done = fork_server().run(argv, self.project.folder, env, timeout_s=_RUN_S)
        assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
        return done.returncode == -signal.SIGKILL

    def ids(self) -> list[str]:
        """Those of which anything is known here, in their order."""
        found = self.project.folder.glob("Pulumi.*.yaml")
        stacks = {each.name.split(".")[1] for each in found} - {self.project.stack}
        return sorted({*stacks, *self.recorded()})

    def recorded(self) -> list[str]:
        """Those with a record in the results."""
        with closing(open_store(self.url, self.settings)) as store:
            return sorted(
                name.partition("/")[0]
                for name in store.names("")
                if name.count("/") == 1 and name.endswith("run.json")
            )

    def record(self, run: str) -> Run:
        with closing(open_store(self.url, self.settings)) as store:
            found = StoredRecords(store).read(run)
        assert found is not None, f"there is no record of {run}"
        return found

    def journaled(self) -> list[Run]:
        """What the journal of this machine has, the newest first."""
        from tidepool.runs.journal import Journal

        with closing(Journal(self.project.data / "runs" / "journal.sqlite")) as journal:
            return list(journal.runs(limit=None))

    def sha256(self, run: str, path: str) -> str:
        with closing(open_store(self.url, self.settings)) as store:
            return store.sha256(f"{run}/outputs/{path}")

    def read(self, run: str, path: str) -> bytes:
        with closing(open_store(self.url, self.settings)) as store:
            return store.read(f"{run}/outputs/{path}")

    def left(self, run: str) -> dict[str, list[str]]:
        """By kind, what is there of a run beside its results: of one that has ended nothing is."""
        data, file = self.project.data, self.project.folder / f"Pulumi.{run}.yaml"
        held = (data / run / "volumes" / "slurmctld" / "run").glob(f"{Path(CREDENTIALS_FILE).name}*")
        with closing(open_store(self.url, self.settings)) as store:
            known = [name for name in store.names(f"{run}/") if name == credentials_name(run)]
            uploads = store.unfinished(f"{run}/")
        return {
            "machines": [each.name for each in list_machines(data, run)],
            "networks": [each.name for each in list_networks(data, run)],
            "stacks": [str(each) for each in (file, *(data / "state").rglob(f"{run}.json")) if each.exists()],
            # What the results know them by, and they themselves, on the controller's volume.
            "tokens": [*known, *map(str, held)],
            "uploads": uploads,
            "processes": processes_of(data, run),
        }

    def check_ended(self, run: str) -> Run:
        """What must be of a run that has ended, however it did: nothing is left of it, and each output is there once, as it was."""
        with closing(open_store(self.url, self.settings)) as store:
            record = StoredRecords(store).read(run)
            assert record is not None, f"there is no record of {run}"
            outputs = f"{run}/outputs/"
            there = {name.removeprefix(outputs) for name in store.names(outputs)}
            assert there == {each.path for each in record.outputs if each.is_kept}
            for output in record.outputs:
                if output.is_verified:
                    assert store.sha256(f"{outputs}{output.path}") == output.sha256
            assert b"<!DOCTYPE html>" in store.read(f"{run}/index.html")
            assert run not in StoredRecords(store).under_way()
        assert record.phase == "done", (record.phase, record.text)
        left = {kind: found for kind, found in self.left(run).items() if found}
        assert not left, left
        if record.is_home_done:
            assert not (self.project.data / run).exists()
        return record

    def check_nothing_left(self) -> None:
        """Of no run anything is left here, but in the results and in the journal."""
        assert all(not run.is_under_way for run in self.journaled())
        folders = {each.name for each in self.project.data.iterdir() if each.is_dir()}
        assert folders <= {"runs", "state", "boots"}, folders
        assert processes_of(self.project.data, "") == []

    def end(self) -> None:
        """After a test that failed: take all down that is left."""
        data = self.project.data
        for stack in {
            each.parent.name for kind in ("machines", "networks") for each in data.glob(f"*/{kind}")
        }:
            if list_machines(data, stack) or list_networks(data, stack):
                self.run("down", "--stack", stack, "--yes", "--force", "--purge")


@contextmanager
def ended(runs: Runs) -> Iterator[Runs]:
    """Runs of which nothing is left afterwards, whatever a test did."""
    try:
        yield runs
    finally:
        runs.end()


def descendants(pid: int) -> list[int]:
    """The processes that a process began, and those began, but for what is a machine's."""
    found = []
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for each in child.read_text().split():
                found += [int(each), *descendants(int(each))]
    return found


def processes_of(data: Path, run: str) -> list[str]:
    """The command lines of programs that are about a run of that data folder; of any run where none is named."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            env = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"TIDEPOOL_DATA={data}".encode() in env and (not run or run.encode() in words):
            found.append(b" ".join(words).decode())
    return found


def events(lines: str) -> list[dict[str, Any]]:
    """What `--json` said."""
    return [json.loads(line) for line in lines.splitlines() if line]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def phases(said: Sequence[Mapping[str, Any]]) -> list[str]:
    return [event["phase"] for event in said if event["event"] == "phase"]

"""A run whose machine is gone is ended by its cluster, by two tokens; what else is tried with all that the cluster has is refused."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.clients.slurm.real import free_port
from tests.infrastructures.local.outside import HOST, world
from tests.objectstore import ObjectStore
from tests.toolchain import needs_objectstore
from tests.whole.cluster import until
from tests.whole.runs import Runs, digest, ended, processes_of
from tidepool.cluster.run_service import CREDENTIALS_FILE
from tidepool.infrastructures.connection import transport
from tidepool.runs.results import open_store

pytestmark = [pytest.mark.slow, needs_objectstore, pytest.mark.runs("local", versions.slurm())]

WORKLOAD = {
    "name": "alone",
    "jobs": [
        {
            "name": "first",
            "script": "#!/bin/sh\nmkdir -p out\nhead -c 20000000 /dev/urandom >out/data\nln -s /etc/shadow out/link\n"
            "until test -e go; do sleep 0.2; done\n",
            "memory": 100,
        },
        {
            "name": "second",
            "after": ["first"],
            "script": "#!/bin/sh\nsha256sum out/data >out/sum\n",
            "memory": 100,
        },
    ],
    "outputs": ["out/*"],
    "deadline": "20",
}
#: As a program on a machine would: a request by a token, and what is answered.
ASK = """\
import json, sys, urllib.request
told = json.load(sys.stdin)
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))
for method, url, token in told:
    request = urllib.request.Request(url, data=b"{}", method=method, headers={"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            print(answer.status)
    except urllib.error.HTTPError as error:
        print(error.code)
    except OSError as error:
        print(getattr(error, "reason", error))
"""


@dataclass
class Site:
    """A project, S3 on the host, another that has the state, and the service of runs, which is begun by a test."""

    runs: Runs
    store: ObjectStore
    state: ObjectStore
    port: int
    ends: ExitStack

    def serve(self) -> None:
        # It sweeps seldom: the cluster is to end its run by itself.
        listen = ["--listen", f"{HOST}:{self.port}", "--every", "3600"]
        words = ["reap", "--results", self.runs.url, *listen, "--json"]
        process = self.ends.enter_context(self.runs.begin(*words))
        self.ends.callback(process.kill)

    def states(self, run: str) -> list[Path]:
        return [*(self.state.folder / "buckets/tests/state/.pulumi/stacks").rglob(f"{run}.json")]

    def on(self, run: str, machine: str, *argv: str, stdin: str = "") -> str:
        way = transport({"kind": "local", "stack": run, "machine": machine}, self.runs.project.data)
        done = way.run(argv, stdin=stdin, timeout_s=60)
        return done.stdout + done.stderr


@pytest.fixture
def site(images: Path, tmp_path: Path) -> Iterator[Site]:
    with world(), closing(ObjectStore()) as store, closing(ObjectStore()) as state, ExitStack() as ends:
        port = free_port()
        service = {"url": f"http://{HOST}:{port}"}
        keys = tmp_path / "keys"
        lines = [f"{name.lower()} = {value}" for name, value in state.environment.items()]
        keys.write_text("\n".join(["[state]", *lines]))
        settings = {
            **store.environment,
            "AWS_SHARED_CREDENTIALS_FILE": str(keys),
            "PULUMI_BACKEND_URL": f"{state.url('state')}&profile=state",
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(16),
        }
        made = Runs.make(tmp_path / "project", images, store.url("results"), settings, run_service=service)
        yield Site(ends.enter_context(ended(made)), store, state, port, ends)


def _killed_when_jobs_run(site: Site) -> str:
    """Begin the run, and have the machine be gone that began it: its process, and all that it knew of runs."""
    child = site.runs.begin(*site.runs.words(WORKLOAD))
    assert child.stdout is not None
    run = ""
    with child:
        for line in child.stdout:
            event = json.loads(line)
            run = event["run"]
            if event["event"] == "job" and event["standing"] == "running":
                os.kill(child.pid, signal.SIGKILL)
                break
    for file in (site.runs.project.data / "runs").glob("journal.sqlite*"):
        file.unlink()
    return run


def test_a_cluster_ends_its_own_run_by_what_gives_it_no_other_right(site: Site) -> None:
    runs = site.runs
    run = _killed_when_jobs_run(site)
    with closing(open_store(runs.url, runs.settings)) as store:
        store.write("other/outputs/x", b"of another run")

    told: dict[str, Any] = json.loads(site.on(run, "ctl", "cat", CREDENTIALS_FILE))
    assert site.on(run, "ctl", "stat", "-c", "%a %U", CREDENTIALS_FILE) == "600 root\n"
    as_user = ["runuser", "-u", "researcher", "--"]
    assert "Permission denied" in site.on(run, "ctl", *as_user, "cat", CREDENTIALS_FILE)
    tokens = (told["outputs"], told["end"])
    _check_not_told(site, tokens)
    _check_no_administrator(site, run)
    assert len(runs.left(run)["tokens"]) == 2, "what tells them, and they themselves"

    site.serve()
    here = f"http://{HOST}:{site.port}"
    until(lambda: _answers(site, run, [("GET", here, "x")]) == ["501"] or None, "the service answers", 60)
    s3 = f"http://{HOST}:{site.store.port}/tests/results"
    tried = [
        *(("POST", f"{here}/other/{what}", token) for what in ("end", "outputs") for token in tokens),
        *((verb, f"{here}/{run}/outputs", tokens[0]) for verb in ("GET", "DELETE", "HEAD")),
        ("POST", f"{here}/{run}/end", tokens[0]),
        ("POST", f"{here}/{run}/outputs", tokens[1]),
        ("POST", f"{here}/{run}/../other/end", tokens[1]),
    ]
    refusals = ["401"] * 4 + ["501"] * 3 + ["401"] * 2 + ["404"]
    assert _answers(site, run, tried) == refusals
    # It reaches the service, and nothing else; other machines do not reach that.
    (unreached,) = _answers(site, run, [("GET", f"{s3}/other/outputs/x", tokens[0])])
    assert "No route to host" in unreached
    (unreached,) = _answers(site, run, [("POST", f"{here}/{run}/end", tokens[1])], machine="cpu-1")
    assert "No route to host" in unreached

    # Nothing ends while jobs run, though nobody drives it; then they end, and it ends itself.
    assert site.on(run, "ctl", "squeue", "--noheader", "--format=%j", "--states=running").split() == ["first"]
    site.on(run, "login-1", "touch", f"/home/researcher/{run}/go")
    until(lambda: runs.record(run).phase == "done" or None, "the cluster has ended its run", 180)
    until(lambda: not (runs.project.folder / f"Pulumi.{run}.yaml").exists() or None, "its stack is forgotten")
    until(lambda: processes_of(runs.project.data, run) == [] or None, "nobody drives it any more")
    record = runs.check_ended(run)
    assert site.states(run) == []
    assert record.outcome == "succeeded", record.because
    assert {each.path for each in record.outputs} == {"out/data", "out/sum"}, "a link leads to nothing"
    assert runs.read(run, "out/sum").decode().split()[0] == digest(runs.read(run, "out/data"))
    kept, taken_over = (
        [(site.store.folder / "buckets/tests/results" / run / name).stat().st_mtime for name in names]
        for names in (("outputs/out/data", "outputs/out/sum"), ("claims/000002.json",))
    )
    assert max(kept) < min(taken_over), "the cluster itself has kept them"
    with closing(open_store(runs.url, runs.settings)) as store:
        assert store.read("other/outputs/x") == b"of another run"
    _check_not_told(site, tokens)


def _answers(site: Site, run: str, asked: list[tuple[str, str, str]], machine: str = "ctl") -> list[str]:
    return site.on(run, machine, "python3", "-I", "-c", ASK, stdin=json.dumps(asked)).splitlines()


def _check_not_told(site: Site, tokens: tuple[str, str]) -> None:
    """The tokens are in no state, record, journal or log: on the volume of slurmctld's state alone."""
    folders = [site.runs.project.data, site.runs.project.folder, site.store.folder, site.state.folder]
    found = _files_with("\n".join(tokens), folders)
    assert [each for each in found if not each.endswith("/slurmctld/run/credentials.json")] == []


def _check_no_administrator(site: Site, run: str) -> None:
    """No file and no process of the cluster's machines has the right to the results, to the stack's state, or to its secrets."""
    assert site.states(run), "its state is where the other credentials lead"
    known = [each.environment["AWS_SECRET_ACCESS_KEY"] for each in (site.store, site.state)]
    known.append(site.runs.settings["PULUMI_CONFIG_PASSPHRASE"])
    search = "cat >/run/known; grep -raslF -f /run/known /etc /var /run /root /home /usr/local /tmp; "
    search += "grep -asl -F -f /run/known /proc/[0-9]*/environ /proc/[0-9]*/cmdline; rm /run/known"
    for machine in ("ctl", "login-1", "cpu-1"):
        found = site.on(run, machine, "sh", "-c", search, stdin="\n".join(known))
        # What it looks for it finds where it has written that itself.
        assert found.splitlines() == ["/run/known"]


def _files_with(text: str, folders: list[Path]) -> list[str]:
    done = subprocess.run(
        ["grep", "-raslF", "-f", "-", "--devices=skip", *folders],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()

"""Runs that programs ask for: a component in a stack, and the library; real Slurm on machines of this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.whole.runs import FLEET, Runs, ended
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures.local.kernel import list_machines, list_networks
from tidepool.runs import run
from tidepool.runs.ports import NotOrdered

pytestmark = pytest.mark.slow

WORKLOAD = {
    "name": "trial",
    "jobs": [{"name": "work", "script": "#!/bin/sh\nhostname >host\n", "memory": 100}],
    "outputs": ["host"],
    "deadline": "20",
}
PROGRAM = '''\
"""A stack that is a run."""

import json
from pathlib import Path

import pulumi

from tidepool.cluster.spec_reading import read_spec
from tidepool.components import EphemeralCluster

spec = read_spec(json.loads(Path("spec.json").read_text()))
trial = EphemeralCluster("trial", spec, "workload.yaml", results=Path("../results").resolve().as_uri())
pulumi.export("run", trial.run)
pulumi.export("outputs", trial.outputs)
'''


@pytest.fixture
def runs(images: Path, tmp_path: Path) -> Iterator[Runs]:
    with ended(Runs.make(tmp_path / "project", images)) as made:
        yield made


def test_a_stack_may_be_a_run_which_is_made_once_and_leaves_its_results(runs: Runs, tmp_path: Path) -> None:
    folder = tmp_path / "project" / "other"
    folder.mkdir()
    spec = {**runs.project.spec, "name": "physics", "fleets": [dict(FLEET)]}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "trials", "runtime": "python"}))
    (folder / "__main__.py").write_text(PROGRAM)
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "workload.yaml").write_text(yaml.safe_dump(WORKLOAD))

    def engine(*words: str) -> str:
        command = [sys.executable, "-m", "tidepool.engine", *words]
        env = {
            **runs.project.environment,
            "PULUMI_BACKEND_URL": f"file://{tmp_path}",
            "PULUMI_CONFIG_PASSPHRASE": "x",
        }
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    engine("stack", "init", "dev")
    engine("up", "--yes", "--stack", "dev")
    outputs = json.loads(engine("stack", "output", "--json", "--stack", "dev"))
    record = runs.record(outputs["run"])
    assert record.outcome == "succeeded"
    assert {each.path: each.sha256 for each in record.outputs} == outputs["outputs"]
    assert not list_machines(runs.project.data, record.id)
    assert not list_networks(runs.project.data, record.id)
    engine("up", "--yes", "--stack", "dev")
    assert runs.recorded() == [record.id], "it ran once"
    engine("destroy", "--yes", "--stack", "dev")
    assert runs.read(record.id, "host") == b"cpu-1\n"


def test_a_program_runs_a_workload_and_reads_what_came_of_it(runs: Runs) -> None:
    events: list[str] = []
    env = runs.project.environment
    workload = runs.project.folder / runs.write(WORKLOAD)
    done = run(
        runs.project.stack,
        workload,
        results=runs.url,
        changes={"fleets.cpu.shape.cpus": 1},
        folder=runs.project.folder,
        told=lambda event: events.append(str(event["event"])),
        env=env,
    )
    assert done.outcome == "succeeded", done.because
    assert read_spec(done.order.spec).fleets[0].shape.cpus == 1
    assert {"phase", "job", "output"} <= {*events}
    assert runs.check_ended(done.id) == done
    cancelled = run(
        runs.project.stack,
        workload,
        results=runs.url,
        folder=runs.project.folder,
        env=env,
        cancelled=lambda: True,
    )
    assert cancelled.outcome == "cancelled"
    runs.check_ended(cancelled.id)
    with pytest.raises(NotOrdered, match="there is no gpu"):
        run(
            runs.project.stack,
            workload,
            results=runs.url,
            changes={"fleets.gpu.max_nodes": 1},
            folder=runs.project.folder,
            env=env,
        )
    runs.check_nothing_left()

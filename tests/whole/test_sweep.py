"""A sweep of six runs with one that fails, and a clone beside the stack that it is of: real Slurm on machines of this one."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.whole.cluster import Cluster
from tests.whole.runs import Runs, ended
from tidepool.clients.slurm import JobState
from tidepool.journals.processes import is_dead

pytestmark = pytest.mark.slow

CPUS, MEMORY = "fleets.cpu.shape.cpus", "fleets.cpu.shape.memory"
#: Has a whole node, and fails on one of six kinds of them.
WORKLOAD = {
    "name": "trial",
    "jobs": [
        {
            "name": "work",
            "exclusive": True,
            "script": "#!/bin/sh\nmkdir out\nsleep 2\necho $SLURM_CPUS_ON_NODE | tee out/cpus\n"
            "test $SLURM_CPUS_ON_NODE != 3 || scontrol show node $SLURMD_NODENAME | grep -q RealMemory=256\n",
        }
    ],
    "outputs": ["out/*"],
    "deadline": "20",
}
PRICED = {"name": "local", "price_usd_per_hour": 10}


@pytest.fixture
def project(images: Path, tmp_path: Path) -> Iterator[Callable[..., Runs]]:
    """Projects whose runs are ended in any case."""
    with ExitStack() as stack:
        yield lambda **spec: stack.enter_context(ended(Runs.make(tmp_path / "project", images, **spec)))


def test_a_sweep_of_six_of_which_one_fails_is_compared_and_opened_again(
    project: Callable[..., Runs], tmp_path: Path
) -> None:
    runs = project(controller={"shape": {"cpus": 1, "memory": "512MiB"}, "infrastructure": PRICED})
    done = runs.run(
        *("sweep", runs.project.stack, runs.write(WORKLOAD), "--results", runs.url, "--at-once", "3"),
        *("--vary", f"{CPUS}=1,2,3", "--vary", f"{MEMORY}=256MiB,300MiB", "--json"),
    )
    assert done.returncode == 1, done.stderr + done.stdout
    lines, _, last = done.stdout.partition("\n{\n")
    told = json.loads("{" + last)
    outcomes = {
        (each["values"][CPUS], each["values"][MEMORY]): (each["outcome"], each["because"])
        for each in told["runs"]
    }
    assert len(outcomes) == 6
    failed = outcomes.pop((3, "300MiB"))
    assert failed[0] == "failed"
    assert "work" in failed[1]
    assert {outcome for outcome, _ in outcomes.values()} == {"succeeded"}, outcomes
    records = []
    for each in told["runs"]:
        records.append(runs.check_ended(each["run"]))
        if each["outcome"] == "succeeded":
            assert runs.read(each["run"], "out/cpus").decode() == f"{each['values'][CPUS]}\n"
            assert each["cost_usd"] > 0
            assert 0 < each["efficiency"] < 1.5
            assert 0 < each["jobs_s"] < each["time_s"]
    for one, other in itertools.combinations(records, 2):
        assert one.ended
        assert other.ended
        if one.order.at < other.ended and other.order.at < one.ended:
            assert one.order.spec["network"] != other.order.spec["network"]
    runs.check_nothing_left()
    assert {json.loads(line)["run"] for line in lines.splitlines()} == {each["run"] for each in told["runs"]}
    assert [each["succeeded"] for each in told["points"]] == [1, 1, 1, 1, 1, 0]
    assert told["differs"] == {}

    # Elsewhere, with the results alone.
    elsewhere = Cluster.make(tmp_path / "elsewhere", runs.project.images, "none")
    chart = tmp_path / "chart.svg"
    words = ("sweep", "--show", told["sweep"], "--results", runs.url, "--chart", str(chart), "--json")
    again = elsewhere.run(*words)
    assert json.loads(again.stdout) == told, again.stderr
    assert chart.read_text().startswith("<?xml")
    folder = tmp_path / "project" / "results" / "sweeps" / told["sweep"]
    assert {each.name for each in folder.iterdir()} == {"sweep.json", "index.html", "chart.svg", "chart.png"}


def test_a_sweep_that_was_killed_is_gone_on_with_and_so_is_a_run_of_it(project: Callable[..., Runs]) -> None:
    runs = project()
    words = ("sweep", runs.project.stack, runs.write(WORKLOAD), "--results", runs.url, "--at-once", "1")
    with runs.begin(*words, "--vary", f"{CPUS}=1,2", "--json") as child:
        assert child.stdout is not None
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "phase" and event["phase"] == "running":
                os.kill(child.pid, signal.SIGKILL)
                break
    first = event["run"]
    (sweep,) = (each.name for each in (runs.project.folder.parent / "results" / "sweeps").iterdir())
    # Its own process is of no other, and goes on; now that one dies too.
    (driver,) = (each.driver for each in runs.journaled() if each.id == first)
    assert not is_dead(driver)
    os.kill(int(driver.split("/")[1]), signal.SIGKILL)
    done = runs.run("sweep", "--resume", sweep, "--results", runs.url, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    told = json.loads("{" + done.stdout.partition("\n{\n")[2])
    assert [each["outcome"] for each in told["runs"]] == ["succeeded", "succeeded"]
    assert first in {each["run"] for each in told["runs"]}
    for each in told["runs"]:
        runs.check_ended(each["run"])
        assert runs.read(each["run"], "out/cpus").decode() == f"{each['values'][CPUS]}\n"
    runs.check_nothing_left()


def test_a_clone_runs_beside_its_source_with_a_network_and_keys_of_its_own(
    another: Callable[..., Cluster], images: Path
) -> None:
    source = another(fleets=[{**_one_fleet(), "min_nodes": 1}])
    name = f"{source.stack}-b"
    source.tidepool("clone", source.stack, name, "--set", "fleets.cpu.shape.cpus=1")
    clone = Cluster(source.folder, source.data, images, name)
    try:
        clone.spec = yaml.safe_load(clone.file.read_text())["config"]["cluster:spec"]
        assert clone.spec["network"] != source.spec["network"]
        clone.tidepool("up", "--yes")
        keys = [
            each.on("ctl", "sha256sum", "/etc/munge/munge.key").stdout.split()[0] for each in (source, clone)
        ]
        assert all(keys)
        assert keys[0] != keys[1]
        for each in (source, clone):
            job = each.submit("sleep 1")
            each.until_job(job, JobState.COMPLETED)
    finally:
        clone.down()
    # What went was the clone's alone.
    source.until_job(source.submit("true"), JobState.COMPLETED)


def _one_fleet() -> dict[str, object]:
    return {
        "name": "cpu",
        "subnet": "10.78.1.0/24",
        "max_nodes": 4,
        "shape": {"cpus": 2, "memory": "256MiB"},
    }

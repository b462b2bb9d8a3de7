"""Runs on this machine: from nothing to results and nothing again, killed, late, two at one time; with results in a folder and in S3."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.faulty_line import Fault, faulty_line
from tests.objectstore import ObjectStore, objectstore
from tests.toolchain import needs_objectstore
from tests.whole.cluster import until
from tests.whole.runs import FLEET, Runs, digest, ended, events, phases
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.local.kernel import list_machines
from tidepool.runs.page import page
from tidepool.runs.record import Run, from_json
from tidepool.runs.results import open_store

__all__ = ["objectstore"]
pytestmark = pytest.mark.slow

WHOLE = ["checked", "up", "staging", "submitting", "running", "collecting", "verifying", "down", "done"]
TRIAL: dict[str, Any] = {
    "name": "trial",
    "first_boot": "#!/bin/sh\necho $(id -un) at $(hostname) >>/var/tmp/booted\n",
    "jobs": [
        {
            "name": "make",
            "script": "#!/bin/sh\nmkdir -p out && head -c 20000000 /dev/urandom >out/data\ncp /var/tmp/booted out\n",
            "memory": 100,
        },
        {
            "name": "sum",
            "after": ["make"],
            "script": "#!/bin/sh\nsha256sum out/data >out/sum\n",
            "memory": 100,
        },
    ],
    "outputs": ["out/*", "*.out"],
    "deadline": "20",
}
#: Says when it was asked to end, and ends.
PATIENT = """\
#!/bin/bash
mkdir -p out
trap 'echo asked >out/end; exit 0' TERM
echo began >out/begin
sleep 600 &
wait
"""


@pytest.fixture
def project(images: Path, tmp_path: Path) -> Iterator[Callable[..., Runs]]:
    """Projects whose runs are ended in any case."""
    with ExitStack() as stack:
        yield lambda name="project", **spec: stack.enter_context(
            ended(Runs.make(tmp_path / name, images, **spec))
        )


def test_a_run_goes_from_nothing_to_results_and_nothing(project: Callable[..., Runs], tmp_path: Path) -> None:
    own = {"name": "local", "price_usd_per_hour": 10}
    runs = project(controller={"shape": {"cpus": 1, "memory": "512MiB"}, "infrastructure": own})
    done = runs.run(*runs.words(TRIAL, "--record", str(tmp_path / "record")))
    assert done.returncode == 0, done.stderr + done.stdout
    assert phases(events(done.stdout)) == WHOLE
    (run,) = runs.ids()
    record = runs.check_ended(run)
    runs.check_nothing_left()
    assert record.outcome == "succeeded", record.because
    assert runs.read(run, "out/sum").decode().split()[0] == digest(runs.read(run, "out/data"))
    # The hook was root's, on the node, once.
    assert runs.read(run, "out/booted").decode() == "root at cpu-1\n"
    assert [len(each) for each in record.images.values()] == [64]
    assert record.nodes == ("cpu-1",)
    assert record.cost.node_hours.keys() == {"", "cpu"}
    assert record.cost.usd > 10 * record.cost.node_hours["cpu"]
    assert {job.accounting["NodeList"] for job in record.jobs} == {"cpu-1"}
    check_kept(tmp_path / "record", record)


def check_kept(folder: Path, record: Run) -> None:
    """What `--record` wrote, which a pipeline keeps: the record, and a page that says how it ended."""
    assert {each.name for each in folder.iterdir()} == {"run.json", "index.html"}
    there = from_json((folder / "run.json").read_text())
    # Its driver may have said once more that it lives.
    assert replace(there, driver_until=record.driver_until) == record
    assert (folder / "index.html").read_text() == page(record)


def test_a_run_that_was_killed_while_jobs_run_is_gone_on_with(project: Callable[..., Runs]) -> None:
    runs = project()
    with runs.begin(*runs.words(TRIAL)) as child:
        assert child.stdout is not None
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "phase" and event["phase"] == "running":
                os.kill(child.pid, signal.SIGKILL)
                break
    run = event["run"]
    done = runs.run("run", "--resume", run)
    assert done.returncode == 0, done.stderr + done.stdout
    record = runs.check_ended(run)
    runs.check_nothing_left()
    assert record.outcome == "succeeded", record.because


def test_a_deadline_in_the_middle_ends_jobs_keeps_outputs_and_takes_the_cluster_down(
    project: Callable[..., Runs],
) -> None:
    runs = project()
    workload: dict[str, Any] = {
        "name": "late",
        "jobs": [
            {"name": "patient", "script": PATIENT, "memory": 100},
            {"name": "never", "after": ["patient"], "command": ["true"], "memory": 100},
        ],
        "outputs": ["out/*"],
        "deadline": "0:25",
        "grace_s": 5,
    }
    done = runs.run(*runs.words(workload))
    assert done.returncode == 20, done.stderr + done.stdout
    (run,) = runs.ids()
    record = runs.check_ended(run)
    runs.check_nothing_left()
    assert (record.outcome, record.turned_in) == ("deadline", "running")
    assert phases(events(done.stdout))[4:7] == ["running", "stopping", "collecting"]
    assert runs.read(run, "out/begin") == b"began\n"
    assert runs.read(run, "out/end") == b"asked\n"


#: Fails, and tells why in a file.
FAILING = {
    "name": "failing",
    "jobs": [
        {"name": "fails", "script": "#!/bin/sh\nmkdir -p out; echo why >out/log; exit 3\n", "memory": 50}
    ],
    "outputs": ["out/*"],
    "deadline": "20",
}


def test_a_failed_run_s_cluster_is_kept_for_who_looks_until_it_is_ordered_to_end(
    project: Callable[..., Runs], tmp_path: Path
) -> None:
    runs = project()
    folder = tmp_path / "record"
    with kept(runs, "2h", "--record", str(folder)) as (driver, run, told):
        ends = runs.record(run).began["kept"] + timedelta(hours=2)
        assert told.startswith(f"it is kept until {ends:%Y-%m-%d %H:%M} UTC")
        login = transport({"kind": "local", "stack": run, "machine": "login-1"}, runs.project.data)
        assert login.run(["cat", f"/home/researcher/{run}/out/log"], timeout_s=30).stdout == "why\n"
        assert runs.run("run", "--cancel", run).returncode == 0
        driver.communicate(timeout=120)
        assert driver.returncode == 14
    record = runs.check_ended(run)
    runs.check_nothing_left()
    assert (record.outcome, record.turned_in) == ("failed", "running")
    assert record.began["down"] < ends
    assert runs.read(run, "out/log") == b"why\n"
    check_kept(folder, record)


def test_a_cluster_that_is_kept_goes_with_a_sweep_once_its_time_is_over(project: Callable[..., Runs]) -> None:
    runs = project()
    with kept(runs, "5s") as (driver, run, _):
        driver.kill()
    assert list_machines(runs.project.data, run)
    done = runs.run("reap", "--results", runs.url)
    assert done.returncode == 0, done.stderr + done.stdout
    record = runs.check_ended(run)
    runs.check_nothing_left()
    assert record.outcome == "failed"
    assert record.began["down"] - record.began["kept"] >= timedelta(seconds=5)


@contextmanager
def kept(runs: Runs, time: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A run that has failed and whose cluster is kept for so long: who drives it, its id, and what is told."""
    with runs.begin(*runs.words(FAILING, "--keep-on-failure", time, *more)) as driver:
        assert driver.stdout is not None
        try:
            texts = (each for each in map(json.loads, driver.stdout) if each["event"] == "text")
            told = next(each for each in texts if "kept until" in each["text"])
            yield driver, told["run"], told["text"]
        finally:
            driver.kill()


def test_a_budget_that_passes_while_jobs_run_ends_them_in_order(project: Callable[..., Runs]) -> None:
    # Ten dollars a second, and nothing before there is a node.
    priced = [{"name": "local", "price_usd_per_hour": 36_000}]
    runs = project(fleets=[{**FLEET, "min_nodes": 0, "infrastructures": priced}])
    workload: dict[str, Any] = {
        "name": "dear",
        "jobs": [{"name": "patient", "script": PATIENT, "memory": 100}],
        "outputs": ["out/*"],
        "budget_usd": 1,
        "grace_s": 5,
    }
    with runs.begin(*runs.words(workload)) as driver:
        assert driver.stdout is not None
        try:
            run = json.loads(driver.stdout.readline())["run"]
            home = runs.project.data / run / "volumes" / "home"
            until(lambda: list(home.glob("*/*/out/begin")) or None, "the job has begun", 60)
        finally:
            # The cost is asked for each half a minute, and by whoever goes on with the run at once.
            driver.kill()
    done = runs.run("run", "--resume", run, "--json")
    assert done.returncode == 21, done.stderr + done.stdout
    record = runs.check_ended(run)
    runs.check_nothing_left()
    assert (record.outcome, record.turned_in) == ("budget", "running")
    assert record.cost.usd >= 1
    assert phases(events(done.stdout))[:3] == ["running", "stopping", "collecting"]
    assert runs.read(run, "out/end") == b"asked\n"


@needs_objectstore
def test_two_people_run_at_one_time_on_inputs_of_theirs(
    project: Callable[..., Runs], objectstore: ObjectStore
) -> None:
    here = project()
    runs = Runs(here.project, objectstore.url("two people"), objectstore.environment)
    people = ("ada", "grace")
    with closing(open_store(objectstore.url("inputs"), objectstore.environment)) as store:
        for name in people:
            store.write(f"{name} herself", f"part N of {name}\n".encode())
    # An array, whose tasks read what came from elsewhere.
    parts = {
        "name": "parts",
        "after": ["make"],
        "array": "0-2%2",
        "script": "#!/bin/sh\nsed s/N/$SLURM_ARRAY_TASK_ID/ out/given >out/part-$SLURM_ARRAY_TASK_ID\n",
        "memory": 50,
    }
    both = []
    for name in people:
        given = {"url": objectstore.url(f"inputs/{name} herself"), "path": "out/given"}
        workload = {**TRIAL, "name": name, "jobs": [*TRIAL["jobs"], parts], "inputs": [given]}
        both.append(runs.begin(*runs.words(workload, name=f"{name}.yaml"), USER=name))
    said = [child.communicate(timeout=300)[0] for child in both]
    assert [child.returncode for child in both] == [0, 0], said
    records = [runs.check_ended(run) for run in runs.ids()]
    runs.check_nothing_left()
    assert [record.outcome for record in records] == ["succeeded"] * 2
    assert {record.order.name for record in records} == {*people}
    assert len({record.order.spec["network"] for record in records}) == 2
    for record in records:
        tasks = [runs.read(record.id, f"out/part-{task}").decode() for task in range(3)]
        assert tasks == [f"part {task} of {record.order.name}\n" for task in range(3)]
        # What was brought in is no result.
        assert "out/given" not in {output.path for output in record.outputs}
    first, second = records
    # They were there together.
    assert first.began["up"] < second.began["down"]
    assert second.began["up"] < first.began["down"]


#: Of requests to the server, in turns: what befalls lines and busy servers.
FAULTS: list[Fault | None] = [
    None,
    "busy",
    None,
    None,
    "cut",
    None,
    None,
    None,
    "lost",
    None,
    "slow",
    None,
    None,
    "half",
]


@needs_objectstore
def test_a_server_that_is_busy_cut_off_and_full_delays_a_run_and_loses_nothing(
    project: Callable[..., Runs],
) -> None:
    server = ObjectStore(most_mib=12)
    begins = (b"GET", b"PUT", b"POST", b"HEAD")
    try:
        with faulty_line(("127.0.0.1", server.port), socket.AF_INET, begins) as line:
            runs = Runs(project().project, server.url("faults", line.port), server.environment)
            words = runs.words(TRIAL)
            line.faults.extend(FAULTS * 20)
            told = ""
            with runs.begin(*words) as child:
                assert child.stdout is not None
                for text in child.stdout:
                    event = json.loads(text)
                    if event["event"] == "text" and "InsufficientStorage" in event["text"]:
                        told = event["text"]
                        server.resize(200)
            line.faults.clear()
            assert child.returncode == 0
            assert "make room there" in told
            (run,) = runs.recorded()
            record = runs.check_ended(run)
            runs.check_nothing_left()
            assert record.outcome == "succeeded", record.because
            assert runs.sha256(run, "out/data") == runs.read(run, "out/sum").decode().split()[0]
    finally:
        server.close()


#: Twenty jobs, ten of which write 20 MB each: what is cheap to make, and of each another.
DAG: dict[str, Any] = {
    "name": "dag",
    "jobs": [
        {"name": "begin", "script": "#!/bin/sh\nmkdir -p out\n", "memory": 50},
        *(
            {
                "name": f"make-{i}",
                "after": ["begin"],
                "script": f"#!/bin/sh\nyes 'part {i} of ten' | head -c 20000000 >out/part-{i}\n",
                "memory": 50,
            }
            for i in range(10)
        ),
        *(
            {
                "name": f"sum-{i}",
                "after": [f"make-{i}", f"make-{i + 1}"],
                "script": f"#!/bin/sh\nsha256sum out/part-{i} out/part-{i + 1} >sums-{i}\n",
                "memory": 50,
            }
            for i in range(8)
        ),
        {
            "name": "end",
            "after": [f"sum-{i}" for i in range(8)],
            "script": "#!/bin/sh\ncat sums-* | sort -u -k 2 >out/sums\nsha256sum out/part-9 >>out/sums\n",
            "memory": 50,
        },
    ],
    "outputs": ["out/*"],
    "deadline": "20",
}


@needs_objectstore
def test_twenty_jobs_that_depend_on_each_other_and_200_megabytes_into_s3(
    project: Callable[..., Runs], objectstore: ObjectStore
) -> None:
    here = project(fleets=[{**FLEET, "min_nodes": 2}])
    runs = Runs(here.project, objectstore.url("dag"), objectstore.environment)
    assert len(DAG["jobs"]) == 20
    done = runs.run(*runs.words(DAG))
    assert done.returncode == 0, done.stderr + done.stdout
    (run,) = runs.ids()
    record = runs.check_ended(run)
    runs.check_nothing_left()
    assert [job.standing for job in record.jobs] == ["succeeded"] * 20
    assert sum(output.size for output in record.outputs) >= 200_000_000
    # What a job saw is what is there now; `check_ended` has asked whether it is what was recorded.
    sums = dict(line.split()[::-1] for line in runs.read(run, "out/sums").decode().splitlines())
    known = {output.path: output.sha256 for output in record.outputs}
    assert sums == {path: sha256 for path, sha256 in known.items() if path != "out/sums"}
    with closing(open_store(runs.url, runs.settings)) as store:
        assert store.unfinished("") == []
    ended_at = {job.name: job.accounting["End"] for job in record.jobs}
    began_at = {job.name: job.accounting["Start"] for job in record.jobs}
    for job in DAG["jobs"]:
        for before in job.get("after", ()):
            assert ended_at[before] <= began_at[job["name"]]

"""A laboratory on real machines: a small campaign of two schedulers that is killed in the middle, goes on, and is whole.

In one of its workloads a machine dies, and comes back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.golden import CONVERGED, golden_store
from tests.toolchain import needs_kubernetes
from tests.whole.cluster import until
from tests.whole.pools import PoolCluster, spec
from tidepool.lab.outcome import ProcessRecord, TrialOutcome
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.history import histories
from tidepool.lab.workload import Workload

LAB: dict[str, Any] = {
    "schedulers": ["slurm", "kubernetes"],
    "workloads": [
        {"name": "bag", "parameters": {"number": 4, "seconds": 1}},
        # Its gang has both machines when one of them dies.
        {
            "name": "deaths",
            "parameters": {
                "number": 1,
                "sizes": [2],
                "seconds": 4,
                "machines": 1,
                "first_s": 3.5,
                "back_after_s": 1,
            },
        },
    ],
    "repeats": 1,
    "limit_s": 120,
    # Other tests run beside it.
    "disturbance": {"stolen_percent": 100, "other_percent": 100},
}


@pytest.mark.slow
@needs_kubernetes
def test_a_campaign_that_is_killed_goes_on_and_is_whole(tmp_path: Path) -> None:
    wanted = spec(2, shape={"cpus": 1, "memory": "512MiB"})
    # Of a job that a node which is back has not got, Slurm believes it once that has run for so many seconds, in sum.
    wanted["slurm_conf"] = {"BatchStartTimeout": 1, "MessageTimeout": 5}
    cluster = PoolCluster.make(tmp_path, golden_store("debian-12", CONVERGED), "labtest", **wanted)
    cluster.config["tidepool:lab"] = LAB
    cluster.write_spec()
    folder = cluster.folder / "results" / "lab" / "labtest"
    try:
        assert _killed_in(cluster, "slurm.deaths.1"), "it had ended before it was killed"
        kept = {trial.id: Results.open(folder).outcome(trial) for trial in Results.open(folder).done()}
        assert {"kubernetes.deaths.1", "kubernetes.bag.1"} <= kept.keys()
        assert "NOT WHOLE" in cluster.tidepool("lab", "show")
        assert json.loads(cluster.tidepool("lab", "show", "--json"))["figures"] is None

        done = cluster.run("lab", "run")
        assert done.returncode == 0, done.stdout + done.stderr + (folder / "machines.log").read_text()
        results = Results.open(folder)
        assert results.is_whole
        for trial in results.done():
            if trial.id in kept and not trial.is_warm_up:
                assert results.outcome(trial) == kept[trial.id]
        outcomes = {(each.scheduler, each.workload): each for each in results.outcomes()}
        for scheduler in LAB["schedulers"]:
            bag, deaths = outcomes[scheduler, "bag"], outcomes[scheduler, "deaths"]
            _assert_what_died_ran_again(deaths, results.workload("deaths", 1))
            # By the seed it comes after that: on the machine that is back.
            assert deaths.began < bag.began
            _assert_all_ran(bag)
        told = json.loads(cluster.tidepool("lab", "show", "--json"))
        assert {each["scheduler"] for each in told["figures"]} == {"slurm", "kubernetes"}
        assert all(0 < each["submit_to_start_seconds"] < 60 for each in told["figures"])
        # Nothing is run again, and nothing of it is left on the machines.
        assert "whole already" in cluster.run("lab", "run").stderr
    finally:
        cluster.down()


def _killed_in(cluster: PoolCluster, trial: str) -> bool:
    """Begin the campaign, and kill its driver when a process of that trial runs."""
    records = cluster.data / cluster.stack / "volumes" / "home" / ".lab" / "records" / trial
    with subprocess.Popen(
        [*cluster.command, "lab", "run"],
        cwd=cluster.folder,
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:

        def runs() -> bool | None:
            assert driver.poll() is None, driver.stderr.read() if driver.stderr else ""
            return True if any(records.glob("*/*")) else None

        try:
            until(runs, f"a process of {trial} runs", 240, 0.2)
        finally:
            os.kill(driver.pid, signal.SIGKILL)
        return driver.wait() == -signal.SIGKILL


def _assert_all_ran(outcome: TrialOutcome) -> None:
    assert len(outcome.jobs) == 4
    for job in outcome.jobs:
        assert job.succeeded, job
        (process,) = job.processes
        assert process.exit_code == 0
        assert process.started_s >= job.submitted_s >= 0
        assert _is_bound(process, outcome)
    assert {process.machine for job in outcome.jobs for process in job.processes} == {"shared-1", "shared-2"}
    assert any(sample.cpu_s > 0 for sample in outcome.usage)
    assert len(outcome.host) >= 2


def _assert_what_died_ran_again(outcome: TrialOutcome, workload: Workload) -> None:
    """Slurm begins the whole gang anew, Kubernetes the task that was lost; both bring it to its end."""
    (death,) = workload.deaths
    (gang,) = histories(outcome, workload)
    assert gang.is_as_expected, gang
    assert gang.restarts == 1
    processes = gang.outcome.processes
    lost = [process for process in processes if process.ended_s is None]
    assert "shared-1" in {process.machine for process in lost}
    assert all(process.started_s < death.at_s + death.back_after_s for process in lost)
    again = {process.rank: process for process in processes if process.attempt == 2}
    assert again.keys() == ({0, 1} if outcome.scheduler == "slurm" else {process.rank for process in lost})
    assert all(process.started_s > death.at_s + death.back_after_s for process in again.values())


def _is_bound(process: ProcessRecord, outcome: TrialOutcome) -> bool:
    """Return whether it may run on the processors of its machine alone."""
    return ", ".join(map(str, process.cpus)) == outcome.environment[f"processors of {process.machine}"]

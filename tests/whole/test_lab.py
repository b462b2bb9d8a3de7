"""A laboratory on real machines: a small campaign of two schedulers that is killed in the middle, goes on, and is whole."""

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
from tidepool.lab.results.store import Results

LAB: dict[str, Any] = {
    "schedulers": ["slurm", "kubernetes"],
    "workloads": [{"name": "bag", "parameters": {"number": 4, "seconds": 1}}],
    "repeats": 2,
    "limit_s": 60,
    # Other tests run beside it.
    "disturbance": {"stolen_percent": 100, "other_percent": 100},
}


@pytest.mark.slow
@needs_kubernetes
def test_a_campaign_that_is_killed_goes_on_and_is_whole(tmp_path: Path) -> None:
    cluster = PoolCluster.make(
        tmp_path,
        golden_store("debian-12", CONVERGED),
        "labtest",
        **spec(2, shape={"cpus": 1, "memory": "512MiB"}),
    )
    cluster.config["tidepool:lab"] = LAB
    cluster.write_spec()
    folder = cluster.folder / "results" / "lab" / "labtest"
    try:
        killed = _killed_after(cluster, folder, trials=1)
        assert killed, "it had ended before it was killed"
        kept = {trial.id: Results.open(folder).outcome(trial) for trial in Results.open(folder).done()}
        assert "NOT WHOLE" in cluster.tidepool("lab", "show")
        assert json.loads(cluster.tidepool("lab", "show", "--json"))["figures"] is None

        done = cluster.run("lab", "run")
        assert done.returncode == 0, done.stdout + done.stderr + (folder / "machines.log").read_text()
        results = Results.open(folder)
        assert results.is_whole
        for trial in results.done():
            if trial.id in kept and not trial.is_warm_up:
                assert results.outcome(trial) == kept[trial.id]
        _assert_all_ran(results)
        told = json.loads(cluster.tidepool("lab", "show", "--json"))
        assert {each["scheduler"] for each in told["figures"]} == {"slurm", "kubernetes"}
        assert all(0 < each["submit_to_start_seconds"] < 60 for each in told["figures"])
        # Nothing is run again, and nothing of it is left on the machines.
        assert "whole already" in cluster.run("lab", "run").stderr
    finally:
        cluster.down()


def _killed_after(cluster: PoolCluster, folder: Path, trials: int) -> bool:
    """Begin the campaign, and kill its driver when so many trials count and the next is under way."""
    with subprocess.Popen(
        [*cluster.command, "lab", "run"],
        cwd=cluster.folder,
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:

        def are_there() -> bool | None:
            assert driver.poll() is None, driver.stderr.read() if driver.stderr else ""
            if not (folder / "campaign.json").exists():
                return None
            counted = [trial for trial in Results.open(folder).done() if not trial.is_warm_up]
            return True if len(counted) >= trials else None

        try:
            until(are_there, f"{trials} trials count", 150, 0.2)
        finally:
            os.kill(driver.pid, signal.SIGKILL)
        return driver.wait() == -signal.SIGKILL


def _assert_all_ran(results: Results) -> None:
    for outcome in results.outcomes():
        where = f"{outcome.scheduler} {outcome.repeat}"
        assert len(outcome.jobs) == 4, where
        for job in outcome.jobs:
            assert job.succeeded, f"{where}: {job}"
            (process,) = job.processes
            assert process.exit_code == 0, where
            assert process.started_s >= job.submitted_s >= 0, where
            bound = outcome.environment[f"processors of {process.machine}"]
            assert ", ".join(map(str, process.cpus)) == bound, where
        assert {process.machine for job in outcome.jobs for process in job.processes} == {
            "shared-1",
            "shared-2",
        }, where
        assert any(sample.cpu_s > 0 for sample in outcome.usage), where
        assert len(outcome.host) >= 2, where

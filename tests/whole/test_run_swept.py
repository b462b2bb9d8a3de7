"""A run that was killed before its cluster could ask for anything is ended by the service of runs, which sweeps by itself."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.clients.slurm.real import free_port
from tests.whole.cluster import until
from tests.whole.runs import Runs, descendants, ended, processes_of
from tidepool.infrastructures.local.kernel import list_machines

pytestmark = pytest.mark.slow

WORKLOAD = {
    "name": "short",
    "jobs": [{"name": "only", "script": "#!/bin/sh\nmkdir -p out; echo once >>out/ran\n", "memory": 50}],
    "outputs": ["out/*"],
    "deadline": "20",
}


def test_what_was_killed_while_its_cluster_came_up_is_ended_by_the_service(
    images: Path, tmp_path: Path
) -> None:
    with ended(Runs.make(tmp_path / "project", images)) as runs, ExitStack() as ends:
        data = runs.project.data
        with runs.begin(*runs.words(WORKLOAD)) as child:
            assert child.stdout is not None
            run = json.loads(child.stdout.readline())["run"]
            until(lambda: list_machines(data, run) or None, "there is a machine", 60)
            for pid in [child.pid, *descendants(child.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert runs.record(run).phase == "up"
        assert list_machines(data, run)

        listen = ["--listen", f"127.0.0.1:{free_port()}", "--every", "2"]
        service = ends.enter_context(runs.begin("reap", "--results", runs.url, *listen))
        ends.callback(service.kill)
        until(lambda: runs.record(run).phase == "done" or None, "the service has ended it", 120)
        file = runs.project.folder / f"Pulumi.{run}.yaml"
        until(lambda: not file.exists() or None, "its stack is forgotten")
        until(lambda: processes_of(data, run) == [] or None, "nobody drives it any more")
        record = runs.check_ended(run)
        # It is gone on with, as by whoever else comes.
        assert record.outcome == "succeeded", record.because
        assert runs.read(run, "out/ran") == b"once\n"
        service.kill()
        until(lambda: processes_of(data, "") == [] or None, "its sweeper is gone too")
        runs.check_nothing_left()

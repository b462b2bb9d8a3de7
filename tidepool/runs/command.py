"""Runs for programs: the command `tidepool run` in a process of its own, and the record that it leaves.

Where the program dies, `tidepool run --resume` and `tidepool reap` end what it left, in the project's folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.connection import data_folder
from tidepool.runs.ports import NotOrdered, RunError
from tidepool.runs.project import write_project
from tidepool.runs.record import Run
from tidepool.runs.results import open_store
from tidepool.runs.results.records import StoredRecords
from tidepool.runs.workload import Workload
from tidepool.runs.workload_reading import read_workload_file

#: So often it is asked whether the run is to be cancelled, in seconds.
_ASKED_S: Final = 0.5
_TIDEPOOL: Final = (sys.executable, "-m", "tidepool.cli")

Event = Mapping[str, Any]


def run(
    cluster: str | ClusterSpec,
    workload: Workload | Path | str,
    *,
    results: str,
    changes: Mapping[str, Any] | None = None,
    keep_on_failure: str = "0",
    folder: Path | str | None = None,
    told: Callable[[Event], None] = lambda _event: None,
    cancelled: Callable[[], bool] = lambda: False,
    env: Mapping[str, str] | None = None,
) -> Run:
    """Make a cluster for a workload, keep its results, take it down, and return the record.

        done = run("physics", "workload.yaml", results="s3://lab/runs", changes={"fleets.cpu.max_nodes": 8})
        assert done.outcome == "succeeded", done.because

    Args:
        cluster: a stack of the project in ``folder``, whose file describes the cluster; or a spec.
        workload: a workload, or its file.
        results: the URL where results are kept: ``s3://BUCKET/FOLDER``, ``file:///FOLDER``.
        changes: values of the spec, by paths: ``fleets.cpu.max_nodes``.
        keep_on_failure: how long the cluster stays where the run did not succeed: ``30`` (minutes), ``2:00:00``.
        folder: of the project; this one by default.
        told: hears of each change: the documents that `tidepool run --json` writes.
        cancelled: is asked whether the run is to end in order; its outputs are kept then.
        env: the environment, where it is another than this process's.

    Raises:
        NotOrdered: something is wrong with what was asked; the text tells of all of it, and nothing was made.
        RunError: it was left, and how it is gone on with.
        WorkloadError: the workload's file has mistakes.
    """
    environment = dict(os.environ if env is None else env)
    if isinstance(cluster, ClusterSpec):
        folder, cluster = write_project(data_folder(environment), cluster)
    if not isinstance(workload, Workload):
        workload = read_workload_file(Path(workload))
    words = [f"--set={path}={json.dumps(value)}" for path, value in (changes or {}).items()]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "workload.yaml"
        file.write_text(json.dumps(workload.model_dump(mode="json", by_alias=False)))
        with (Path(scratch) / "said").open("w+") as said:
            child = subprocess.Popen(
                [
                    *(*_TIDEPOOL, "run", cluster, str(file), "--results", results, "--json"),
                    *("--keep-on-failure", keep_on_failure, *words),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=environment,
                cwd=folder,
            )
            id = _followed(child, told, cancelled, environment, folder)
            said.seek(0)
            text = said.read().strip().removeprefix("error: ")
    if not id:
        raise NotOrdered(text or f"`tidepool run` ended with exit code {child.returncode}")
    with closing(open_store(results, environment)) as store:
        found = StoredRecords(store).read(id)
    if found is None or found.is_under_way:
        raise RunError(f"run {id} was left; `tidepool run --resume {id}` goes on with it. {text}".strip())
    return found


def _followed(
    child: subprocess.Popen[str],
    told: Callable[[Event], None],
    cancelled: Callable[[], bool],
    environment: Mapping[str, str],
    folder: Path | str | None,
) -> str:
    """Tell of all that the child says until it ends; returns the run's id, or nothing where there was none."""
    id = ""

    def cancel() -> bool:
        if not id or not cancelled():
            return False
        words = [*_TIDEPOOL, "run", "--cancel", id]
        # One that is at its end already is not cancelled any more, which is what it says.
        subprocess.run(words, env=environment, cwd=folder, capture_output=True, check=False)
        return True

    assert child.stdout is not None
    with _asking(cancel), child.stdout:
        for line in child.stdout:
            event = json.loads(line)
            id = event["run"]
            told(event)
    child.wait()
    return id


@contextmanager
def _asking(ask: Callable[[], bool]) -> Iterator[None]:
    """Ask again and again, in a thread, until the answer is yes or this is left."""
    over = threading.Event()

    def ask_again() -> None:
        while not over.wait(_ASKED_S) and not ask():
            pass

    thread = threading.Thread(target=ask_again, name="cancel", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

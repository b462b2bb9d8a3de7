"""kill -9 of a run's driver at each step of its journal, as they are found by running them all: each ends as it would have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.objectstore import ObjectStore, objectstore
from tests.toolchain import needs_objectstore
from tests.whole.runs import Runs, ended
from tidepool.runs.record import Run

__all__ = ["objectstore"]
pytestmark = [pytest.mark.slow, needs_objectstore]

#: Two jobs, so that one may be submitted when the other is not. It says how often it ran. What is large goes in parts.
WORKLOAD: dict[str, Any] = {
    "name": "kills",
    "jobs": [
        {"name": "one", "script": "#!/bin/sh\nmkdir -p out; echo one >>out/one\n", "memory": 50},
        {
            "name": "two",
            "after": ["one"],
            "script": "#!/bin/sh\ncat out/one >>out/two; yes | head -c 9000000 >out/large\n",
            "memory": 50,
        },
    ],
    "outputs": ["out/*"],
    "deadline": "20",
}
#: Not steps of the run's, but of whoever drives it; and when Slurm was heard of last.
_NO_STEPS = {"driver/since", "cluster/answered"}


@dataclass(frozen=True, slots=True)
class Sample:
    """Runs of one project, with results in a folder and in S3; and the steps of one that nobody killed, in their order."""

    runs: Runs
    in_s3: Runs
    steps: tuple[str, ...]


@pytest.fixture(scope="module")
def sample(
    images: Path, tmp_path_factory: pytest.TempPathFactory, objectstore: ObjectStore
) -> Iterator[Sample]:
    with ended(Runs.make(tmp_path_factory.mktemp("kills"), images)) as runs:
        done = runs.run(*runs.words(WORKLOAD))
        assert done.returncode == 0, done.stderr + done.stdout
        (run,) = runs.ids()
        began = runs.check_ended(run).began
        steps = tuple(step for step in sorted(began, key=began.__getitem__) if step not in _NO_STEPS)
        assert {"checked/claimed", "up/made", "staging/staged", "running/released", "down/abandoned"} <= {
            *steps
        }
        in_s3 = Runs(runs.project, objectstore.url("kills"), objectstore.environment)
        yield Sample(runs, in_s3, steps)
        runs.check_nothing_left()


def test_killed_at_any_step_it_is_gone_on_with(sample: Sample) -> None:
    """Each step in turns before it is written, and after; by --resume and by the sweeper in turns; and so with results in S3."""
    for number, step in enumerate(sample.steps):
        when = ("after", "before")[number % 2]
        runs = (sample.runs, sample.in_s3)[number // 4 % 2]
        run = _killed(runs, step, when)
        if run is None:  # it had not been ordered
            assert (step, when) == ("checked", "before")
            continue
        words = ("run", "--resume", run) if number % 4 < 2 else ("reap", "--results", runs.url)
        done = runs.run(*words)
        assert done.returncode == 0, (step, when, done.stderr + done.stdout)
        _check(runs, run)


def test_killed_at_every_step_one_after_the_other_a_run_ends_as_it_would(sample: Sample) -> None:
    """One run, whose drivers are all killed, each one step later, before it is written and after."""
    runs = sample.runs
    run = _killed(runs, "checked", "after")
    assert run is not None
    for step in sample.steps[1:]:
        for when in ("before", "after"):
            # The last one is over by then.
            assert runs.killed_at(step, when, "run", "--resume", run), (step, when)
    done = runs.run("run", "--resume", run)
    assert done.returncode == 0, done.stderr + done.stdout
    _check(runs, run)


def _killed(runs: Runs, step: str, when: str) -> str | None:
    """A run whose driver was killed at that step; None where nothing was ordered."""
    before = {run.id for run in runs.journaled()}
    assert runs.killed_at(step, when, *runs.words(WORKLOAD)), (step, when)
    return next((run.id for run in runs.journaled() if run.id not in before), None)


def _check(runs: Runs, run: str) -> Run:
    record = runs.check_ended(run)
    assert record.outcome == "succeeded", record.because
    # Each job ran once.
    assert runs.read(run, "out/one") == b"one\n"
    assert runs.read(run, "out/two") == b"one\n"
    assert all(output.is_verified for output in record.outputs)
    return record

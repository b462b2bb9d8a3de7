"""Effects of decisions on Slurm, just before an `up` carries out the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.scaling.act.test_validity import machine, node, recheck
from tests.scaling.decide.cluster_states import AT
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import JobState
from tidepool.clients.slurm.request import JobRequest, Slots
from tidepool.scaling.act.act import Hands
from tidepool.scaling.decision import Remove
from tidepool.scaling.observe.observation import Recheck
from tidepool.scaling.ports import Intent

GOES = Intent(1, 1, 1, AT, Remove("cpu", ("cpu-1",), "its machine stopped"))
BUSY = node("ALLOCATED", cpus_alloc=2)


def hands(seen: Recheck, slurm: Any = None) -> Hands:
    observer: Any = SimpleNamespace(recheck=lambda _names, machines: seen, slurm=slurm)
    unused: Any = None
    return Hands(observer, unused, unused, lambda: AT, lambda: True)


@pytest.mark.parametrize(
    ("seen", "dead"),
    [
        (recheck(BUSY, machines=(machine("stopped"),)), {"cpu-1"}),
        (recheck(BUSY, machines=()), {"cpu-1"}),
        (recheck(node(), machines=(machine("stopped"),)), set()),
        (recheck(BUSY), set()),
        (recheck(BUSY, machines=None), set()),
    ],
    ids=["stopped", "gone", "without jobs", "runs", "not looked for"],
)
def test_jobs_are_given_back_of_machines_that_surely_do_not_run(seen: Recheck, dead: set[str]) -> None:
    assert hands(seen).batch([GOES], {}).dead == dead


def test_a_job_of_a_machine_that_does_not_run_waits_again() -> None:
    slurm = FakeSlurm()
    slurm.create_slots(Slots("cpu-1", addresses="10.0.0.1", cpus=2, memory_mib=64))
    slurm.boot("cpu-1")
    job = slurm.submit(JobRequest("#!/bin/sh\n")).job_id
    hands(recheck(), slurm).give_back_jobs({"cpu-1"})
    (waits,) = slurm.job(job)
    assert (waits.state, waits.restarts) == (JobState.PENDING, 1)


def test_where_slurm_does_not_answer_the_up_says_so() -> None:
    hands(recheck(), FakeSlurm()).give_back_jobs({"cpu-9"})

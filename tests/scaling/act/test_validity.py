"""Whether an action is still right just before it is taken."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import Job, JobState, Node, NodeBase, NodeFlag, NodeState, Reason
from tidepool.clients.slurm.request import JobRequest, Slots
from tidepool.infrastructures import Machine, MachineKey
from tidepool.scaling.act.validity import (
    wrong_delete_orphan,
    wrong_drain,
    wrong_release_slot,
    wrong_remove,
    wrong_repair,
    wrong_undrain,
)
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.observe.observation import Recheck

OURS = Reason("tidepool: idle for 5 s", "root")
KEY = MachineKey("dev", "cpu-1", "first")
NEXT = MachineKey("dev", "cpu-1", "second")
RECORDED = Recorded(machine=True, membership=True)


def node(state: str = "IDLE+DYNAMIC_NORM", *, reason: Reason | None = None, cpus_alloc: int = 0) -> Node:
    return Node("cpu-1", NodeState.parse(state), cpus=2, cpus_alloc=cpus_alloc, reason=reason)


def machine(state: Any = "running", key: MachineKey = KEY) -> Machine:
    return Machine(key, IPv4Address("10.0.0.1"), state)


def recheck(
    node: Node | None = None,
    *,
    jobs: tuple[Job, ...] = (),
    machines: tuple[Machine, ...] | None = (machine(),),
    recorded: Recorded | None = RECORDED,
) -> Recheck:
    return Recheck(
        {node.name: node} if node else {}, jobs, machines, {"cpu-1": recorded} if recorded is not None else {}
    )


def a_job_on(name: str) -> Job:
    slurm = FakeSlurm()
    slurm.create_slots(Slots(name, addresses="10.0.0.1", cpus=2, memory_mib=64))
    slurm.boot(name)
    slurm.submit(JobRequest("#!/bin/sh\n"))
    (job,) = slurm.jobs()
    assert job.state is JobState.RUNNING
    return job


DRAINED = node("IDLE+DRAIN", reason=OURS)
BUSY = node("MIXED+DRAIN", reason=OURS, cpus_alloc=1)
THEIRS = node("IDLE+DRAIN", reason=Reason("new disk", "root"))
SLOT = node("FUTURE")


@pytest.mark.parametrize(
    ("slurm_status", "wrong"),
    [
        (recheck(node()), ""),
        (recheck(None), "no such node"),
        (recheck(SLOT), "no such node"),
        (recheck(DRAINED), "drained already"),
        (recheck(node("MIXED", cpus_alloc=1)), "a job has started"),
        (recheck(node("IDLE+COMPLETING")), "a job has started"),
        (recheck(node(), jobs=(a_job_on("cpu-1"),)), "a job has started"),
    ],
)
def test_only_what_is_still_idle_is_drained(slurm_status: Recheck, wrong: str) -> None:
    said = wrong_drain(slurm_status, "cpu-1", {"cpu-1"})
    assert wrong in said
    assert bool(said) == bool(wrong)


def test_what_was_busy_when_it_was_decided_may_be_drained_busy() -> None:
    assert wrong_drain(recheck(node("MIXED", cpus_alloc=1)), "cpu-1", set()) == ""


@pytest.mark.parametrize(
    ("slurm_status", "wrong"),
    [
        (recheck(DRAINED), ""),
        (recheck(BUSY), ""),
        (recheck(node()), "not drained"),
        (recheck(THEIRS), "somebody else"),
        (recheck(SLOT), "no such node"),
    ],
)
def test_only_what_is_ours_is_undrained(slurm_status: Recheck, wrong: str) -> None:
    assert wrong in wrong_undrain(slurm_status, "cpu-1")
    assert bool(wrong_undrain(slurm_status, "cpu-1")) == bool(wrong)


@pytest.mark.parametrize(
    ("slurm_status", "wrong"),
    [
        (recheck(DRAINED), ""),
        (recheck(None), ""),
        (recheck(SLOT), ""),
        (recheck(node("DOWN", reason=Reason("Not responding", "slurm"))), ""),
        (recheck(node()), "not drained"),
        (recheck(BUSY), "it has jobs"),
        (recheck(node("IDLE+DRAIN+COMPLETING", reason=OURS)), "it has jobs"),
        (recheck(DRAINED, jobs=(a_job_on("cpu-1"),)), "it has jobs"),
        (recheck(THEIRS), "somebody else"),
        # Dead is dead, whatever Slurm still believes.
        (recheck(BUSY, machines=()), ""),
        (recheck(BUSY, machines=(machine("stopped"),)), ""),
        # Whose host does not answer may live, and what was not looked for is not known to be dead.
        (recheck(BUSY, machines=(machine("unknown"),)), "it has jobs"),
        (recheck(BUSY, machines=None), "it has jobs"),
    ],
)
def test_only_what_is_drained_and_empty_or_dead_is_removed(slurm_status: Recheck, wrong: str) -> None:
    assert wrong in wrong_remove(slurm_status, "cpu-1")
    assert bool(wrong_remove(slurm_status, "cpu-1")) == bool(wrong)


def test_what_is_well_again_is_not_mended() -> None:
    assert wrong_repair(recheck(node()), "cpu-1", is_desired=True) == "it is well again"
    for amiss in (
        recheck(node(), machines=()),
        recheck(node(), recorded=Recorded(machine=True)),
        recheck(node(), recorded=Recorded(machine=True, membership=True, pending=True)),
        recheck(node("DOWN")),
        recheck(None),
    ):
        assert wrong_repair(amiss, "cpu-1", is_desired=True) == ""
    # By mending what is not wished, it goes.
    assert wrong_repair(recheck(BUSY), "cpu-1", is_desired=False) == "it has jobs"


@pytest.mark.parametrize(
    ("slurm_status", "wrong"),
    [
        (recheck(DRAINED, machines=(), recorded=None), ""),
        (recheck(node("DOWN"), machines=(), recorded=None), ""),
        (recheck(node("DOWN"), recorded=None), "has a machine"),
        (recheck(node("DOWN"), machines=None, recorded=None), "has a machine"),
        (recheck(node("DOWN"), machines=()), "recorded"),
        (recheck(BUSY, machines=(), recorded=None), "has jobs"),
        (recheck(SLOT, machines=(), recorded=None), "a slot already"),
        (recheck(node(), machines=(), recorded=None), "somebody else"),
    ],
)
def test_only_what_is_gone_is_forgotten(slurm_status: Recheck, wrong: str) -> None:
    assert wrong in wrong_release_slot(slurm_status, "cpu-1")
    assert bool(wrong_release_slot(slurm_status, "cpu-1")) == bool(wrong)


@pytest.mark.parametrize(
    ("slurm_status", "wrong"),
    [
        (recheck(None, recorded=None), ""),
        (recheck(SLOT, recorded=None), ""),
        (recheck(DRAINED, recorded=None), ""),
        (recheck(None), "recorded"),
        (recheck(None, recorded=Recorded(pending=True)), "recorded"),
        (recheck(None, machines=(), recorded=None), "no such machine"),
        (recheck(None, machines=None, recorded=None), "no such machine"),
        (recheck(BUSY, recorded=None), "has jobs"),
        (recheck(node(), recorded=None), "takes jobs"),
        # Its successor is what is recorded, and is not seen: it may be this one.
        (recheck(node(), recorded=replace(RECORDED, machine_id="second")), "recorded"),
        # Its successor is there, and takes jobs.
        (
            recheck(
                node(),
                machines=(machine(), machine(key=NEXT)),
                recorded=replace(RECORDED, machine_id="second"),
            ),
            "",
        ),
        (
            recheck(
                BUSY, machines=(machine(), machine(key=NEXT)), recorded=replace(RECORDED, machine_id="second")
            ),
            "has jobs",
        ),
        (
            recheck(
                node(),
                machines=(machine(), machine(key=NEXT)),
                recorded=replace(RECORDED, machine_id="first"),
            ),
            "recorded",
        ),
    ],
)
def test_only_what_no_record_knows_and_runs_nothing_is_swept(slurm_status: Recheck, wrong: str) -> None:
    assert wrong in wrong_delete_orphan(slurm_status, KEY, is_busy=False)
    assert bool(wrong_delete_orphan(slurm_status, KEY, is_busy=False)) == bool(wrong)
    assert wrong_delete_orphan(slurm_status, KEY, is_busy=True) != ""


_STATES = st.builds(
    NodeState, st.sampled_from(NodeBase), st.frozensets(st.sampled_from(NodeFlag), max_size=3)
)


@given(
    state=_STATES,
    cpus_alloc=st.integers(0, 2),
    reason=st.sampled_from([None, OURS, Reason("new disk", "alice")]),
    is_recorded=st.booleans(),
)
def test_no_machine_that_runs_jobs_is_ever_taken_away(
    state: NodeState, cpus_alloc: int, reason: Reason | None, is_recorded: bool
) -> None:
    slurm_status = recheck(
        Node("cpu-1", state, cpus=2, cpus_alloc=cpus_alloc, reason=reason),
        recorded=RECORDED if is_recorded else None,
    )
    if slurm_status.has_jobs("cpu-1") and not state.is_slot:
        assert wrong_remove(slurm_status, "cpu-1")
        assert wrong_repair(slurm_status, "cpu-1", is_desired=False)
    if slurm_status.has_jobs("cpu-1"):
        assert wrong_delete_orphan(slurm_status, KEY, is_busy=False)
        assert wrong_release_slot(slurm_status, "cpu-1")

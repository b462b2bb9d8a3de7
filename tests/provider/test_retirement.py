"""Nodes leave when they run nothing; what runs jobs goes on. Against the Slurm in memory."""

from __future__ import annotations

import pytest

from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import JobRequest, Node, NodeBase, NodeFlag, NodeState, Slots
from tidepool.provider.retirement import REASON, Leaving, Outcome, retire, why_it_stays

_JOB = JobRequest("#!/bin/sh\nsleep 300\n", tasks=1)


@pytest.fixture
def slurm() -> FakeSlurm:
    """Four slots, of which three are nodes that are up."""
    made = FakeSlurm()
    made.create_slots(Slots("cpu-[1-4]", "10.77.1.[1-4]", cpus=1, memory_mib=500, features=("cpu",)))
    for name in ("cpu-1", "cpu-2", "cpu-3"):
        made.boot(name)
    return made


def _retire(slurm: FakeSlurm, *names: str, dead: tuple[str, ...] = ()) -> dict[str, str]:
    leaving = [Leaving(name, name not in dead) for name in names]
    return {each.name: outcome.reason for each, outcome in retire(slurm, leaving).items()}


def _busy(slurm: FakeSlurm) -> tuple[int, str]:
    """A job that runs, and its node."""
    job_id = slurm.submit(_JOB).job_id
    (job,) = slurm.job(job_id)
    assert job.nodelist
    return job_id, job.nodelist


def _node(slurm: FakeSlurm, name: str) -> Node:
    return slurm.nodes(name)[0]


def test_nodes_without_jobs_are_slots_again(slurm: FakeSlurm) -> None:
    assert _retire(slurm, "cpu-1", "cpu-2") == {"cpu-1": "", "cpu-2": ""}
    assert [node.state.is_slot for node in slurm.nodes()] == [True, True, False, True]


def test_what_has_left_already_leaves_again(slurm: FakeSlurm) -> None:
    assert _retire(slurm, "cpu-4", "unheard-of") == {"cpu-4": "", "unheard-of": ""}


def test_a_node_with_a_job_goes_on_as_before_and_the_job_is_named(slurm: FakeSlurm) -> None:
    job_id, name = _busy(slurm)
    said = _retire(slurm, "cpu-1", "cpu-2", "cpu-3")
    assert said.pop(name) == why_it_stays(name, [job_id])
    assert set(said.values()) == {""}
    assert not _node(slurm, name).state.is_draining


def test_a_drain_of_a_person_stays(slurm: FakeSlurm) -> None:
    job_id, name = _busy(slurm)
    slurm.drain(name, "a bad fan")
    assert str(job_id) in _retire(slurm, name)[name]
    assert _node(slurm, name).state.is_draining


def test_a_drain_of_ours_that_was_cut_off_is_taken_back(slurm: FakeSlurm) -> None:
    _, name = _busy(slurm)
    slurm.drain(name, REASON)
    assert _retire(slurm, name)[name]
    assert not _node(slurm, name).state.is_draining


def test_jobs_of_a_machine_that_is_gone_are_put_back_and_its_node_leaves(slurm: FakeSlurm) -> None:
    job_id, name = _busy(slurm)
    assert _retire(slurm, name, dead=(name,)) == {name: ""}
    assert _node(slurm, name).state.is_slot
    assert slurm.job(job_id)[0].state == "PENDING"


def test_a_node_that_is_down_leaves(slurm: FakeSlurm) -> None:
    slurm.down("cpu-1", "no answer")
    assert _retire(slurm, "cpu-1", "cpu-2", dead=("cpu-2",)) == {"cpu-1": "", "cpu-2": ""}
    assert _node(slurm, "cpu-1").state.base is NodeBase.FUTURE


def test_a_node_whose_job_is_ending_is_asked_again(slurm: FakeSlurm) -> None:
    job_id, name = _busy(slurm)
    patient, impatient = Leaving(name, True, may_wait=True), Leaving(name, True)
    slurm.finish(job_id)
    # As Slurm tells between the end of a job and the end of its last process.
    node = slurm._nodes[name]
    slurm._nodes[name] = node._replace(state=NodeState.parse("IDLE+COMPLETING"), cpus_alloc=1)
    assert retire(slurm, [patient]) == {patient: Outcome(is_ending=True)}
    assert _node(slurm, name).state.is_draining
    assert "the end of a job" in retire(slurm, [impatient])[impatient].reason
    assert not _node(slurm, name).state.is_draining
    slurm._nodes[name] = node
    assert retire(slurm, [patient]) == {patient: Outcome()}


def test_nodes_that_slurm_miscounts_leave(slurm: FakeSlurm) -> None:
    slurm._nodes["cpu-1"] = _node(slurm, "cpu-1")._replace(state=NodeState.parse("ALLOCATED"), cpus_alloc=0)
    assert _retire(slurm, "cpu-1", "cpu-2") == {"cpu-1": "", "cpu-2": ""}


# Nodes of Slurm's power saving


@pytest.fixture
def cloud() -> FakeSlurm:
    """As ``slurm``, in the cloud."""
    made = FakeSlurm()
    slots = Slots("cpu-[1-4]", "10.77.1.[1-4]", cpus=1, memory_mib=500, features=("cpu",), state="CLOUD")
    made.create_slots(slots)
    for name in ("cpu-1", "cpu-2", "cpu-3"):
        made.boot(name)
    return made


def _flags(slurm: FakeSlurm, name: str) -> frozenset[str]:
    return _node(slurm, name).state.flags


def test_nodes_of_the_cloud_are_powered_down_and_stay_in_the_cloud(cloud: FakeSlurm) -> None:
    assert _retire(cloud, "cpu-1", "cpu-4") == {"cpu-1": "", "cpu-4": ""}
    assert _flags(cloud, "cpu-1") == {NodeFlag.CLOUD, NodeFlag.POWERING_DOWN}
    cloud.switched_off("cpu-1")
    assert _node(cloud, "cpu-1").state.is_slot
    assert _node(cloud, "cpu-4").state.is_slot


def test_what_slurm_powers_down_is_not_drained_which_would_stay_with_its_slot(cloud: FakeSlurm) -> None:
    cloud.power_down("cpu-1")
    before = _node(cloud, "cpu-1")
    assert _retire(cloud, "cpu-1") == {"cpu-1": ""}
    assert _node(cloud, "cpu-1") == before


def test_a_node_of_the_cloud_with_a_job_goes_on(cloud: FakeSlurm) -> None:
    job_id, name = _busy(cloud)
    assert _retire(cloud, name) == {name: why_it_stays(name, [job_id])}
    assert _flags(cloud, name) == {NodeFlag.CLOUD, NodeFlag.DYNAMIC_NORM}


def test_jobs_of_a_machine_of_the_cloud_that_is_gone_are_put_back(cloud: FakeSlurm) -> None:
    job_id, name = _busy(cloud)
    assert _retire(cloud, name, dead=(name,)) == {name: ""}
    assert cloud.job(job_id)[0].state == "PENDING"
    assert NodeFlag.POWERING_DOWN in _flags(cloud, name)

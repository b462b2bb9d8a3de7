"""The laws themselves: deciders that break them are caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.laws import Broken
from tests.simulation.scene import Scene
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decision import Decision, Drain, Launch, Remove, Undrain
from tidepool.scaling.memory import Memory

Decide = Callable[[ClusterState, Memory], Decision]


def _removes_what_is_busy(state: ClusterState, memory: Memory) -> Decision:
    busy = tuple(node.name for node in state.nodes if node.cpus_alloc)
    decision = decide(state, memory)
    return replace(decision, actions=(Remove("cpu", busy, "why not"),)) if busy else decision


def _undrains_what_a_person_drained(state: ClusterState, memory: Memory) -> Decision:
    drained = tuple(node.name for node in state.nodes if node.state.is_draining)
    decision = decide(state, memory)
    return replace(decision, actions=(Undrain("cpu", drained, "why not"),)) if drained else decision


def _forgets_a_job(state: ClusterState, memory: Memory) -> Decision:
    decision = decide(state, memory)
    return replace(decision, waiting=dict(list(decision.waiting.items())[1:]))


def _launches_too_much(state: ClusterState, memory: Memory) -> Decision:
    names = tuple(f"cpu-{number}" for number in range(1, 20))
    launch = Launch("cpu", names, "why not")
    return replace(decide(state, memory), actions=(launch,), desired={"cpu": HostSet.from_names(names)})


def _goes_by_the_order(state: ClusterState, memory: Memory) -> Decision:
    return replace(decide(state, memory), actions=(Drain("cpu", (state.nodes[0].name,), "the first"),))


def _never_rests(state: ClusterState, memory: Memory) -> Decision:
    return replace(decide(state, memory), actions=(Drain("cpu", ("cpu-1",), "once more"),))


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (_removes_what_is_busy, "is to be removed, and has jobs"),
        (_undrains_what_a_person_drained, "somebody else drained it"),
        (_forgets_a_job, "without a reason"),
        (_launches_too_much, "are wished"),
        (_goes_by_the_order, "order of what is seen"),
        (_never_rests, "decided once more"),
    ],
)
def test_a_decider_that_breaks_a_law_is_caught(broken: Decide, law: str) -> None:
    scene = Scene()
    jobs = scene.submit(2, seconds=1000)
    scene.until_running(jobs)
    scene.cluster.slurm.drain_by("root", "cpu-1", "new memory")
    scene.laws._decide = broken
    scene.submit(1)
    with pytest.raises(Broken, match=law):
        scene.pass_time(600)


def test_a_node_that_a_person_drained_is_watched() -> None:
    scene = Scene()
    jobs = scene.submit(1, seconds=1000)
    scene.until_running(jobs)
    scene.cluster.slurm.drain_by("root", "cpu-1", "new memory")
    scene.laws.drained_by_people.add("cpu-1")
    scene.cluster.slurm.undrain("cpu-1")
    with pytest.raises(Broken, match="drained by a person"):
        scene.pass_time(10)


def test_machines_that_go_with_a_job_or_under_a_hand_are_seen() -> None:
    scene = Scene()
    jobs = scene.submit(1, seconds=1000)
    scene.until_running(jobs)
    (key,) = scene.cluster.machines.running()
    with pytest.raises(Broken, match="ran the jobs"):
        scene.cluster.machines.delete(key)
    with pytest.raises(Broken, match="was set down"):
        scene.cluster.slurm.down("cpu-1", "why not")


def test_a_machine_that_nobody_knows_is_seen() -> None:
    scene = Scene()
    jobs = scene.submit(1, seconds=10)
    scene.until_running(jobs)
    scene.until(lambda: not scene.cluster.slurm.queue.running)
    scene.daemon.stopped = True
    scene.cluster.stack.lose("cpu-1")
    for hour in range(2):
        scene.cluster.clock.after(3600 * (hour + 1), scene.cluster.slurm.queue.touch)
    with pytest.raises(Broken, match="no record knows of it"):
        scene.pass_time(3 * 3600)

"""The same steps for each scheduler; a person's mistakes are said before anything starts."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.scale import measure
from tidepool.lab.scale.cluster import Times, Waits
from tidepool.lab.scale.kubernetes_objects import FULL, MANY, is_ready, node, pod
from tidepool.lab.scale.launches import BURST, SINGLE, Launch
from tidepool.lab.scale.measure import steps
from tidepool.lab.scale.namespaces import enclosed
from tidepool.lab.scale.plan import CHOICES, Plan, choice
from tidepool.lab.scale.slurm import SimulatedSlurm

PLAN = Plan("slurm", 20, [1000, 100], rounds=2, burst=5, singles=3, ready_s=10.0)


class _Instant:
    """A cluster where each job starts a second after the one before it, and each waits for nothing."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self._now_s = 0.0

    def queue(self, count: int) -> None:
        self.seen.append(("queue", count))

    def launch(self, count: int) -> Sequence[Times]:
        self.seen.append(("launch", count))
        self._now_s += 1.0
        return [Times(self._now_s, self._now_s, self._now_s)] * count


def test_the_queue_grows_and_the_round_that_warms_up_is_not_kept() -> None:
    cluster, kept = _Instant(), list[Launch]()
    steps(PLAN, cluster, kept.append)
    queues = [count for what, count in cluster.seen if what == "queue"]
    assert queues == [100, 1000]
    assert {each.round for each in kept} == {1, 2}
    assert sum(each.way == SINGLE for each in kept) == 2 * 2 * 3
    assert sum(each.way == BURST for each in kept) == 2 * 2 * 5
    assert len([what for what, _ in cluster.seen if what == "launch"]) == 2 * 3 * 4


def test_a_plan_goes_to_another_process_and_comes_back() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN


def test_a_scheduler_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(LabError, match=r"no scheduler 'pbs'.*choose of slurm, "):
        choice("pbs")
    assert choice("volcano") is CHOICES["volcano"]


@pytest.mark.parametrize("nodes", [0, 20_000])
def test_more_nodes_than_there_are_ports_are_refused(nodes: int) -> None:
    with pytest.raises(LabError, match=r"from 1 to 10,000"):
        SimulatedSlurm(nodes, "", Waits())


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="run it with sudo"):
        enclosed(("true",))


def test_pods_that_wait_want_the_node_that_is_full() -> None:
    taken, other = node(0), node(7)
    waits, runs = pod("a", FULL, "volcano"), pod("b", MANY, "volcano")
    assert taken["metadata"]["labels"] == waits["spec"]["nodeSelector"]
    assert other["metadata"]["labels"] == runs["spec"]["nodeSelector"]
    # One pod takes all of it.
    (container,) = waits["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == taken["status"]["allocatable"]["cpu"]
    assert not is_ready(other)
    assert is_ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})


def test_a_measurement_that_was_ended_is_not_taken_for_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "lacking", lambda _: ())
    monkeypatch.setattr(measure, "enclosed", lambda _: ("true",))
    with pytest.raises(SchedulerFailed, match="slurm, 20 nodes: the process that measured was ended"):
        list(measure.measured(PLAN))

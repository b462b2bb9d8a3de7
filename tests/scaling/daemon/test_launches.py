"""Launches as the daemon sees them: which are written down, and how the times of their machines come to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from tests.cli.explain.records import job, nodes, spec
from tidepool.clients.slurm import JobState, TimedOut
from tidepool.cluster.frozen import FrozenDict
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.boot_times import BootTimes
from tidepool.scaling.cluster_state import ClusterState, Recorded
from tidepool.scaling.daemon.launches import AskBoot, LaunchWatch
from tidepool.scaling.decision import Cost, Decision, Phase
from tidepool.scaling.journal import open_journal
from tidepool.scaling.memory import Launch, Memory
from tidepool.scaling.ports import Journal, LaunchRecord

AT = datetime(2026, 11, 27, 12, tzinfo=UTC)
CONNECTION = {"kind": "ssh", "stack": "dev", "address": "10.80.1.1", "user": "root"}
BOOT = BootTimes({"kernel": 9.0, "units": 6.0, "slurmd": 2.0})


def after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


class Scene:
    """A watch that is shown looks at one node."""

    def __init__(self, folder: Path) -> None:
        self.journal: Journal = open_journal(folder, {}, power_safe=False)
        lease = self.journal.acquire("one", AT, 1e6)
        assert lease is not None
        self.lease = lease
        self.answer: Future[tuple[datetime, BootTimes]] = Future()
        self.memory = Memory()
        self.asked: list[Mapping[str, Any]] = []
        self.watch = self.started(self.ask)

    def started(self, ask: AskBoot | None) -> LaunchWatch:
        return LaunchWatch(self.journal, ask)

    def ask(self, connection: Mapping[str, Any]) -> Future[tuple[datetime, BootTimes]]:
        self.asked.append(connection)
        return self.answer

    def look(
        self,
        at_s: float,
        phase: Phase,
        *,
        machine: Machine | None = None,
        runs: bool = False,
        under_way: Collection[str] = (),
        since_s: float = 0,
        begun_s: float | None = None,
        is_suspended: bool = False,
        connections: Mapping[str, Mapping[str, Any]] = FrozenDict({"cpu-1": CONNECTION}),
    ) -> None:
        launch = Launch(after(since_s), after(600), begun=None if begun_s is None else after(begun_s))
        launches = {"cpu-1": launch} if phase is Phase.LAUNCHING else {}
        memory = replace(Memory(), launches=FrozenDict(launches))
        decision = Decision(after(at_s), (), {}, {}, nodes(cpu_1=phase), memory, Cost())
        jobs = (job(7, JobState.RUNNING, nodelist="cpu-1", start_time=after(at_s)),) if runs else ()
        state = ClusterState(
            after(at_s),
            spec(),
            (),
            jobs,
            machines=(machine,) if machine else (),
            recorded={"cpu-1": Recorded(True, True, infrastructure="libvirt", is_suspended=is_suspended)},
        )
        self.watch.looked(self.lease, state, self.memory, decision, connections, under_way)
        self.memory = memory

    def launches(self) -> tuple[LaunchRecord, ...]:
        return self.journal.launches()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def machine(since_s: float | None = None) -> Machine:
    key = MachineKey("dev", "cpu-1", "7", "libvirt")
    return Machine(key, IPv4Address("10.80.1.1"), "running", None if since_s is None else after(since_s))


def test_a_machine_is_asked_once_when_its_node_is_in_service(scene: Scene) -> None:
    scene.look(0, Phase.LAUNCHING)
    scene.look(3, Phase.LAUNCHING, machine=machine(), begun_s=1)
    assert scene.asked == []
    scene.look(12, Phase.IDLE, under_way={"cpu-1"})
    assert scene.asked == [], "of a node that an `up` is about, what is recorded is old"
    scene.look(12.5, Phase.IDLE, connections={})
    assert scene.launches() == (), "how it is reached is known later"
    scene.look(13, Phase.IDLE)
    scene.look(14, Phase.IDLE)
    assert scene.asked == [CONNECTION]
    assert scene.launches() == ()
    scene.answer.set_result((after(13), BOOT))
    scene.look(15, Phase.IDLE)
    (launch,) = scene.launches()
    assert (launch.infrastructure, launch.registered) == ("libvirt", after(12))
    assert launch.began == {
        "asked": AT,
        "making": after(1),
        "firmware": after(3),
        "kernel": after(4),
        "units": after(7),
        "slurmd": after(11),
    }


def test_the_first_job_is_added_to_what_is_written(scene: Scene) -> None:
    scene.watch = scene.started(None)
    scene.look(0, Phase.LAUNCHING)
    scene.look(5, Phase.IDLE)
    assert [each.first_job for each in scene.launches()] == [None]
    scene.look(6, Phase.BUSY, runs=True)
    scene.look(9, Phase.BUSY, runs=True)
    assert [each.first_job for each in scene.launches()] == [after(6)]


def test_a_launch_that_did_not_come_up_is_none(scene: Scene) -> None:
    scene.look(0, Phase.LAUNCHING)
    scene.look(5, Phase.ILL)
    scene.look(6, Phase.IDLE)
    assert (scene.launches(), scene.asked) == ((), [])


def test_a_machine_that_does_not_answer_is_asked_again(scene: Scene) -> None:
    scene.look(0, Phase.LAUNCHING)
    scene.look(5, Phase.IDLE)
    scene.answer.set_exception(TimedOut("sh did not end", where="here", remedy="look"))
    scene.answer = Future()
    scene.look(6, Phase.IDLE)
    assert scene.asked == [CONNECTION], (
        "an error that comes at once wakes the daemon, and is not to keep it busy"
    )
    scene.look(10, Phase.IDLE)
    assert (scene.asked, scene.launches()) == ([CONNECTION] * 2, ())
    scene.answer.set_result((after(10), BootTimes({"slurmd": 8.0})))
    scene.look(11, Phase.IDLE)
    assert [dict(each.began) for each in scene.launches()] == [{"asked": AT, "slurmd": after(2)}]


@pytest.mark.parametrize(
    ("at_s", "phase"), [(130, Phase.IDLE), (6, Phase.ABSENT)], ids=["for two minutes", "and is gone"]
)
def test_of_a_machine_that_does_not_answer_the_rest_is_written(
    scene: Scene, at_s: float, phase: Phase
) -> None:
    scene.look(0, Phase.LAUNCHING)
    scene.look(5, Phase.IDLE)
    scene.answer.set_exception(TimedOut("sh did not end", where="here", remedy="look"))
    scene.look(at_s, phase)
    assert [dict(each.began) for each in scene.launches()] == [{"asked": AT}]


def test_an_answer_that_never_comes_is_not_waited_for(scene: Scene) -> None:
    scene.look(0, Phase.LAUNCHING)
    scene.look(5, Phase.IDLE)
    scene.look(100, Phase.IDLE)
    assert scene.launches() == ()
    scene.look(130, Phase.IDLE)
    assert [each.registered for each in scene.launches()] == [after(5)]


def test_the_predecessor_that_is_still_seen_is_not_the_machine(scene: Scene) -> None:
    scene.watch = scene.started(None)
    scene.look(0, Phase.LAUNCHING, machine=machine(-500))
    scene.look(2, Phase.LAUNCHING, machine=machine(1))
    scene.look(9, Phase.IDLE)
    (launch,) = scene.launches()
    assert launch.began == {"asked": AT, "image": after(1)}


def test_a_name_that_is_launched_again_is_another_launch(scene: Scene) -> None:
    scene.watch = scene.started(None)
    for second in (0, 50):
        scene.look(second, Phase.LAUNCHING, since_s=second)
        scene.look(second + 5, Phase.IDLE)
    assert [each.since for each in scene.launches()] == [AT, after(50)]


def test_what_came_up_while_no_daemon_ran_is_written_by_the_next(scene: Scene) -> None:
    scene.look(0, Phase.LAUNCHING, begun_s=2)
    scene.watch = scene.started(scene.ask)
    scene.look(9, Phase.IDLE)
    scene.answer.set_result((after(10), BootTimes({"slurmd": 4.0})))
    scene.look(11, Phase.IDLE)
    assert [dict(each.began) for each in scene.launches()] == [
        {"asked": AT, "making": after(2), "slurmd": after(6)}
    ]


def test_a_daemon_that_ends_writes_what_came_up(scene: Scene) -> None:
    scene.look(0, Phase.LAUNCHING)
    scene.look(9, Phase.IDLE)
    scene.answer.set_result((after(9), BOOT))
    scene.watch.end(scene.lease)
    assert [list(each.began) for each in scene.launches()] == [["asked", "kernel", "units", "slurmd"]]


def test_a_machine_that_was_suspended_is_told_from_one_that_booted(scene: Scene) -> None:
    scene.look(0, Phase.LAUNCHING, is_suspended=True)
    there = Machine(MachineKey("dev", "cpu-1", "m-1", "libvirt"), IPv4Address("10.80.1.1"), "running")
    scene.look(3, Phase.LAUNCHING, begun_s=1, machine=there)
    scene.look(5, Phase.IDLE)
    scene.answer.set_result((after(5), BOOT))
    scene.look(6, Phase.IDLE)
    (record,) = scene.launches()
    assert [*record.began] == ["asked", "resuming", "slurmd"]

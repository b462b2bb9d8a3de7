"""The daemon's turns, in the simulated cluster: who leads, what a person does meanwhile, what cannot be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from tests.simulation.machines import FaultyCluster, FaultyDaemon, faulty_scaler
from tidepool.clients.slurm import ControllerDown, JobRequest, JobState
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec
from tidepool.scaling.daemon.loop import Loop
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.scaling.decision import Drain, Launch, Remove
from tidepool.scaling.ports import Intent, JournalError, NotUp, Pause
from tidepool.simulation.cluster import Speeds, sleeping

IDLE_S = 30
LEASE_S = 10.0
PAST_LEASE_S = 60.0


def spec(**changes: Any) -> ClusterSpec:
    fleet = {
        "name": "cpu",
        "subnet": "10.95.1.0/24",
        "max_nodes": 4,
        "shape": {"cpus": 2, "memory": "4GiB"},
        "idle_timeout_s": IDLE_S,
        **changes,
    }
    return read_spec(
        {
            "name": "simulated",
            "network": "10.95.0.0/16",
            "fleets": [fleet],
            "partitions": [{"name": "main", "default": True}],
        }
    )


@dataclass
class Scene:
    """A simulated cluster, and all that its daemons said."""

    cluster: FaultyCluster = field(default_factory=lambda: FaultyCluster(spec(), speeds=Speeds(boot=2)))
    said: list[tuple[str, str]] = field(default_factory=list)

    def daemon(self, holder: str = "one") -> FaultyDaemon:
        return self.cluster.run_scaler(lambda: self.loop(holder))

    def loop(self, holder: str = "one") -> Loop:
        def say(name: str, **_: Any) -> None:
            self.said.append((holder, name))

        return faulty_scaler(
            self.cluster, decide=decide, remember=remember, holder=holder, say=say, lease_s=LEASE_S
        )

    def submit(self, seconds: float = 60) -> int:
        return self.cluster.submit(JobRequest(sleeping(seconds), exclusive=True))

    def until(self, holds: Callable[[], object], seconds: float = 600) -> None:
        assert self.cluster.run(seconds, until=lambda: bool(holds()))

    def state(self, job: int) -> JobState:
        return self.cluster.slurm.job(job)[0].state

    def nodes(self) -> list[str]:
        """Those that are more than slots."""
        return [node.name for node in self.cluster.slurm.nodes() if not node.state.is_slot]

    def who_acted(self) -> set[str]:
        return {holder for holder, name in self.said if name == "up-begins"}

    def intents(self, *kinds: type) -> list[Intent]:
        return [each for each in self.cluster.journal.intents() if isinstance(each.action, kinds)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_breathes(scene: Scene) -> None:
    scene.daemon()
    job = scene.submit()
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    scene.until(lambda: not scene.nodes() and not scene.cluster.journal.open_intents())
    kinds = [type(each.action) for each in reversed(scene.cluster.journal.intents())]
    assert kinds == [Launch, Drain, Remove]
    assert {each.result for each in scene.cluster.journal.intents()} == {"done"}
    assert scene.cluster.journal.open_intents() == ()


def test_a_launch_that_came_up_is_written_down_with_its_phases_and_its_first_job(scene: Scene) -> None:
    scene.daemon()
    job = scene.submit()
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    scene.until(lambda: not scene.nodes())
    (launch,) = scene.cluster.journal.launches()
    (intent,) = scene.intents(Launch)
    assert (launch.node, launch.fleet) == ("cpu-1", "cpu")
    assert abs(launch.since - intent.at) < timedelta(milliseconds=1)
    assert launch.since <= launch.began["making"] <= launch.registered
    assert launch.first_job is not None
    assert "kernel" not in launch.began, "a simulated machine tells of no boot"


# Who leads


def test_of_two_one_acts_and_the_other_stands_by(scene: Scene) -> None:
    one, other = scene.loop("one"), scene.loop("other")
    assert [one.turn().role, other.turn().role] == ["leads", "stands by"]
    scene.cluster.slurm.submit(JobRequest(sleeping(1)))
    assert [other.turn().role, one.turn().role] == ["stands by", "leads"]
    scene.cluster.run(5)
    assert scene.nodes() == ["cpu-1"]
    assert scene.who_acted() == {"one"}
    # One that ends lets the other lead at once.
    one.stop()
    assert other.turn().role == "leads"


def test_one_that_stands_by_looks_again_when_the_lease_ends(scene: Scene) -> None:
    one, other = scene.loop("one"), scene.loop("other")
    assert one.turn().role == "leads"
    scene.cluster.run(LEASE_S - 1)
    turn = other.turn()
    assert turn.role == "stands by"
    assert 0 < turn.again_in_s <= 1
    scene.cluster.run(1)
    assert other.turn().role == "leads"


def test_a_leader_that_was_stopped_past_its_lease_does_nothing_more(scene: Scene) -> None:
    one, other = scene.loop("one"), scene.loop("other")
    assert one.turn().role == "leads"
    scene.cluster.run(PAST_LEASE_S)
    assert other.turn().role == "leads"
    scene.cluster.slurm.submit(JobRequest(sleeping(1)))
    assert one.turn().role == "stands by"
    assert other.turn().role == "leads"
    scene.cluster.run(5)
    assert one.turn().role == "stands by"
    assert scene.nodes() == ["cpu-1"]
    assert scene.who_acted() == {"other"}


def test_one_that_ends_and_lost_its_lease_takes_no_note_of_its_up(scene: Scene) -> None:
    scene.cluster = FaultyCluster(spec(), speeds=Speeds(up_overhead=PAST_LEASE_S))
    loop = scene.loop()
    scene.submit()
    assert any(loop.turn().role == "leads" and loop.is_at_work for _ in range(9))
    scene.cluster.run(2 * PAST_LEASE_S)
    loop.finish()
    assert not loop.is_at_work
    assert ("one", "up-ended") not in scene.said


def test_one_that_ends_while_the_disk_is_full_waits_for_its_up_and_no_longer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise JournalError("the disk is full")

    scene.cluster = FaultyCluster(spec(), speeds=Speeds(up_overhead=PAST_LEASE_S))
    loop = scene.loop()
    scene.submit()
    assert any(loop.turn().role == "leads" and loop.is_at_work for _ in range(9))
    # Not even that it leads can be written.
    monkeypatch.setattr(scene.cluster.journal, "acquire", refuse)
    for _ in range(int(2 * PAST_LEASE_S)):
        loop.finish()
        scene.cluster.run(1)
    assert not loop.is_at_work
    assert [name for _, name in scene.said].count("journal-failed") == 1


def test_a_leader_that_is_stopped_between_its_decision_and_its_effect_has_no_effect(scene: Scene) -> None:
    """It wakes up in the midst of a turn, and another has the lease."""
    cluster, journal = scene.cluster, scene.cluster.journal
    loop = scene.loop("one")
    loop.turn()
    decided = journal.decided

    def slowly(*arguments: Any) -> Any:
        intents = decided(*arguments)
        # SIGSTOP; the lease ends; another takes it; SIGCONT.
        cluster.clock.advance(cluster.clock.true + timedelta(seconds=PAST_LEASE_S))
        assert journal.acquire("other", cluster.clock(), PAST_LEASE_S) is not None
        return intents

    journal.decided = slowly  # type: ignore[assignment, method-assign]
    scene.cluster.slurm.submit(JobRequest(sleeping(1)))
    loop.turn()
    assert ("one", "intends") in scene.said
    assert ("one", "up-begins") not in scene.said
    assert loop.turn().role == "stands by"


def test_what_the_last_daemon_was_about_is_done_by_the_next(scene: Scene) -> None:
    loop = scene.loop("one")
    loop.turn()
    scene.cluster.slurm.submit(JobRequest(sleeping(1)))
    begun = scene.cluster.executor.submit
    # Killed between its decision and its `up`.
    scene.cluster.executor.submit = lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        loop.turn()
    scene.cluster.executor.submit = begun  # type: ignore[method-assign]
    (intent,) = scene.cluster.journal.open_intents()
    scene.daemon("other")
    scene.until(lambda: scene.nodes() and not scene.cluster.journal.open_intents())
    assert ("other", "inherited") in scene.said
    (done,) = scene.intents(Launch)
    assert done == replace(intent, result="done", ended=done.ended)


# What a person does


def test_paused_it_looks_and_decides_and_does_nothing(scene: Scene) -> None:
    daemon, journal = scene.daemon(), scene.cluster.journal
    journal.pause(Pause("alice", scene.cluster.clock(), "we look"))
    job = scene.submit()
    scene.cluster.run(60)
    assert daemon.last is not None
    assert (daemon.last.role, daemon.last.text) == ("paused", "paused by alice: we look")
    assert daemon.last.decision is not None
    assert [type(action) for action in daemon.last.decision.actions] == [Launch]
    assert (scene.nodes(), journal.intents()) == ([], ())
    journal.pause(None)
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)


def test_after_a_pause_nodes_are_idle_anew(scene: Scene) -> None:
    scene.daemon()
    job = scene.submit(5)
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    scene.cluster.run(IDLE_S / 2)
    scene.cluster.journal.pause(Pause("alice", scene.cluster.clock()))
    scene.cluster.wake()
    scene.cluster.run(10 * IDLE_S)
    scene.cluster.journal.pause(None)
    scene.cluster.wake()
    scene.cluster.run(IDLE_S / 2)
    assert scene.nodes() == ["cpu-1"]
    scene.until(lambda: not scene.nodes())


def test_somebodys_operation_is_waited_for_and_its_nodes_are_not_lost(scene: Scene) -> None:
    scene.daemon()
    scene.cluster.stack.locked = True
    job = scene.submit()
    scene.cluster.run(30)
    assert scene.nodes() == []
    assert ("one", "occupied") in scene.said
    scene.cluster.stack.locked = False
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    assert [each.result for each in scene.intents(Launch)] == ["done"]


def test_what_a_person_brings_up_meanwhile_is_adopted(scene: Scene) -> None:
    scene.daemon()
    job = scene.submit()
    scene.until(lambda: scene.state(job) is JobState.RUNNING)
    scene.cluster.bring_up(spec(max_nodes=6, min_nodes=2))
    scene.until(lambda: len(scene.nodes()) == 2)
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    scene.cluster.run(10 * IDLE_S)
    assert len(scene.nodes()) == 2


def test_what_failed_for_the_last_daemon_is_no_persons_change_to_the_next(scene: Scene) -> None:
    """The outputs name a node that could not be made, until there is another `up`."""
    one = scene.daemon()
    scene.cluster.machines.fake.stock = 0
    scene.submit()
    scene.until(lambda: any(each.result == "failed" for each in scene.intents(Launch)))
    scene.until(lambda: not (scene.cluster.journal.kept().desired or {}).get("cpu"))
    assert scene.cluster.stack.read().fleets["cpu"] == HostSet("cpu-1")
    del scene.said[:]
    one.kill()
    scene.until(lambda: ("one", "leads") in scene.said)
    scene.cluster.run(5)
    assert ("one", "adopted") not in scene.said


def test_a_cluster_that_was_taken_down_is_waited_for_and_begins_anew(scene: Scene) -> None:
    daemon, stack = scene.daemon(), scene.cluster.stack
    job = scene.submit()
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    read = stack.read

    def is_down() -> Any:
        raise NotUp("the cluster is not up")

    stack.read = is_down  # type: ignore[method-assign]
    scene.cluster.run(60)
    assert daemon.last is not None
    assert daemon.last.role == "waits"
    assert scene.cluster.journal.kept().desired == {}
    scene.cluster.run(86_400)
    counted = scene.cluster.journal.kept().memory.spent
    stack.read = read  # type: ignore[method-assign]
    again = scene.submit()
    scene.until(lambda: scene.state(again) is JobState.COMPLETED)
    # What was not there meanwhile is not counted: the controller and the login machine.
    spent = scene.cluster.journal.kept().memory.spent
    assert counted is not None
    assert spent is not None
    own = [each.machines[f"{spent.until:%Y-%m}"][""].seconds for each in (counted, spent)]
    assert own[1] - own[0] < 3600


# What cannot be seen, or written


def test_without_slurm_it_holds_still_and_goes_on_when_it_is_back(scene: Scene) -> None:
    daemon = scene.daemon()
    job = scene.submit(5)
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    there = scene.nodes()
    scene.cluster.slurm.controller = "down"
    scene.cluster.run(20 * IDLE_S)
    assert daemon.last is not None
    assert daemon.last.role == "holds still"
    scene.cluster.slurm.controller = "up"
    assert scene.nodes() == there
    scene.until(lambda: not scene.nodes())


def test_trouble_is_looked_at_less_and_less_often() -> None:
    scene = Scene()
    loop = scene.loop()
    loop.turn()
    scene.cluster.slurm.controller = "down"
    pauses = [loop.turn().again_in_s for _ in range(8)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1 < pauses[-1] <= 10
    scene.cluster.slurm.controller = "up"
    assert loop.turn().role == "leads"
    scene.cluster.slurm.fail(ControllerDown("gone", where="here", remedy="wait"))
    assert loop.turn().again_in_s == pauses[0]


def test_what_cannot_be_written_down_is_not_done(scene: Scene) -> None:
    daemon = scene.daemon()
    scene.cluster.run(5)
    scene.cluster.journal.full = True
    job = scene.submit()
    scene.cluster.run(60)
    assert daemon.last is not None
    assert daemon.last.role == "holds still"
    assert "journal" in daemon.last.text
    assert scene.nodes() == []
    scene.cluster.journal.full = False
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)


@pytest.mark.parametrize(
    "failing", [(), ("looked",), ("sample",), ("decided", "sample", "write_kept", "saw")]
)
def test_as_long_as_the_disk_is_full_it_says_nothing_else(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    """All that is written fails, or what is small goes through; with an `up` that ends meanwhile."""
    loop, journal = scene.loop(), scene.cluster.journal

    def turns(seconds: float) -> list[tuple[str, str]]:
        told: list[tuple[str, str]] = []
        end_s = scene.cluster.clock.monotonic_s() + seconds
        while scene.cluster.clock.monotonic_s() < end_s:
            turn = loop.turn()
            told.append((turn.role, turn.text))
            scene.cluster.run(max(turn.again_in_s, 0.01))
        return told

    def refuse(*_: object) -> None:
        raise JournalError("the disk is full")

    turns(5)
    jobs = [scene.submit(5)]
    while not loop.is_at_work:
        turns(0.1)
    with monkeypatch.context() as full:
        journal.full = not failing
        for name in failing:
            full.setattr(journal, name, refuse)
        jobs.append(scene.submit(5))
        (first, *told) = turns(60)
        assert first[0] in ("leads", "holds still")
        ((role, text),) = set(told)
        assert role == "holds still"
        assert text.startswith("the journal: ")
        # It is looked at less and less often.
        assert len(told) < 40
        journal.full = False
    assert turns(30)[-1] == ("leads", "")
    while not all(scene.state(each) is JobState.COMPLETED for each in jobs):
        turns(1)


def test_a_node_that_gets_a_job_between_its_drain_and_its_end_is_wished_again(scene: Scene) -> None:
    """Only Slurm can do so: the node is drained, and yet something runs on it by the time of the `up`."""
    scene.daemon()
    job = scene.submit(5)
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)
    scene.cluster.stack.locked = True
    scene.until(lambda: scene.intents(Remove))
    (node,) = scene.nodes()
    scene.cluster.slurm.undrain(node)
    other = scene.submit(60)
    scene.cluster.run(1)
    scene.cluster.stack.locked = False
    scene.until(lambda: scene.state(other) is JobState.COMPLETED)
    assert scene.cluster.slurm.job(other)[0].restarts == 0
    assert scene.intents(Remove)[-1].result == "overtaken"
    scene.until(lambda: not scene.nodes())


def test_an_up_that_fails_is_told_and_tried_again(scene: Scene) -> None:
    scene.daemon()
    scene.cluster.stack.failing = "the program ends with an error"
    job = scene.submit()
    scene.until(lambda: any(each.result == "failed" for each in scene.intents(Launch)))
    assert "the program ends with an error" in scene.intents(Launch)[-1].text
    scene.cluster.stack.failing = ""
    scene.until(lambda: scene.state(job) is JobState.COMPLETED)

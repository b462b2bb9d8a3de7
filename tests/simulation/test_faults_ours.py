"""Our own faults, by their names in docs/faults.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.simulation.machines import Killed
from tests.simulation.mortal import Edge, Steps
from tests.simulation.scene import Scene
from tidepool.scaling.decision import Drain, Launch, Remove
from tidepool.scaling.ports import Intent
from tidepool.simulation.cluster import Speeds

#: More than any of the stories below has; the last ones change nothing.
MOST_STEPS = 400


def _story(scene: Scene) -> None:
    """A grow, a drain with a job that comes back, a shrink."""
    first = scene.submit(3, seconds=100)
    scene.until_running(first)
    scene.pass_time(100 + 30)
    second = scene.submit(1, seconds=30)
    scene.until_running(second)
    scene.ends_well()


def _killed_at(step: int) -> Steps:
    """The story, with a daemon that is killed at its effect number ``step``."""

    def die() -> None:
        raise Killed

    scene = Scene()
    steps = Steps(step, die)
    _replace_edges(scene, steps)
    _story(scene)
    return steps


def _replace_edges(scene: Scene, at: Callable[[str], None]) -> None:
    """The daemon that runs is made anew, with edges at which something can happen."""
    cluster = scene.cluster
    scene.daemon.stopped = True
    scene.daemon = scene.start(
        journal=Edge(cluster.journal, at),
        slurm=Edge(cluster.slurm, at),
        machines=Edge(cluster.machines, at),
        beside=Edge(cluster.executor, at),
    )


@pytest.fixture(scope="module")
def steps() -> list[str]:
    """The effects of a daemon that nobody kills."""
    scene = Scene()
    counted = Steps(0, lambda: None)
    _replace_edges(scene, counted)
    _story(scene)
    assert {"after decided", "before submit", "after drain", "after ended"} <= set(counted.names)
    return counted.names


@pytest.mark.slow
def test_kill_9_of_the_daemon_at_every_step_of_a_grow_a_drain_a_shrink(steps: list[str]) -> None:
    assert 40 < len(steps) < MOST_STEPS
    for step in range(1, len(steps) + 1):
        names = _killed_at(step).names
        assert names[step - 1] == steps[step - 1]


def _moments(total_s: float, every_s: float) -> Iterator[float]:
    return (place * every_s for place in range(int(total_s / every_s) + 1))


@pytest.mark.parametrize("victim", ["engine", "provider"])
def test_kill_9_of_the_engine_or_the_provider_at_every_step_of_a_grow_and_a_shrink(victim: str) -> None:
    cut_short = 0
    for phase_begin_s in (0.0, 160.5):
        for moment_s in _moments(4, 0.25):
            scene = Scene()
            stack = scene.cluster.stack
            kill = stack.cut if victim == "engine" else stack.kill_provider

            def strike(kill: Callable[[], None] = kill, scene: Scene = scene) -> None:
                nonlocal cut_short
                cut_short += scene.cluster.stack.is_busy()
                kill()

            scene.cluster.clock.after(phase_begin_s + moment_s, strike)
            scene.submit(3, seconds=100)
            scene.ends_well()
    assert cut_short > 4


def test_two_daemons_at_once() -> None:
    scene = Scene(lease_s=10, speeds=Speeds(latest=3))
    other = scene.start("two")
    _story(scene)
    roles = {scene.daemon.last and scene.daemon.last.role, other.last and other.last.role}
    assert roles == {"leads", "stands by"}
    assert scene.made() <= 4


@pytest.mark.parametrize("name", ["before decided", "after decided", "before ended", "after acquire"])
def test_a_leader_paused_past_its_lease_and_woken(name: str) -> None:
    scene = Scene(lease_s=10, speeds=Speeds(latest=3))
    cluster = scene.cluster
    first = scene.daemon
    woken: list[str] = []
    paused = False

    def pause(step: str) -> None:
        nonlocal paused
        if paused:
            woken.append(step)
        elif step == name and scene.jobs:
            paused = True
            # It is in the midst of a look, so it takes no other; the world goes on, and the second daemon acts.
            scene.start("two")
            cluster.run(40)

    _replace_edges(scene, pause)
    first.stopped = True
    jobs = scene.submit(2, seconds=200)
    scene.until(lambda: paused and scene.running(jobs))
    leader = cluster.journal.leader()
    assert leader is not None
    assert leader.holder == "two"
    assert not {"after decided", "before submit", "after drain", "after delete"} & set(woken)
    scene.ends_well()
    assert scene.made() == 2


def test_state_locked_by_a_persons_pulumi_up() -> None:
    scene = Scene()
    scene.cluster.stack.locked = True
    jobs = scene.submit(2)
    scene.pass_time(120)
    assert scene.made() == 0
    assert scene.cluster.stack.ups == 0
    scene.cluster.stack.locked = False
    scene.until_running(jobs, 30)
    scene.ends_well()


def test_a_state_file_that_is_truncated() -> None:
    scene = Scene()
    jobs = scene.submit(2, seconds=100)
    scene.until_running(jobs)
    scene.cluster.stack.unreadable = "the state ends in the middle of a line"
    scene.pass_time(600)
    assert len(scene.cluster.machines.running()) == 2, "what is recorded is not known: nothing is removed"
    scene.cluster.stack.unreadable = ""
    scene.ends_well()


def test_a_state_file_that_is_older_than_the_world() -> None:
    scene = Scene()
    jobs = scene.submit(3, seconds=400)
    scene.until_running(jobs)
    for name in ("cpu-1", "cpu-2"):
        scene.cluster.stack.lose(name)
    scene.pass_time(200)
    assert scene.running(jobs)
    scene.ends_well()


def test_disk_full() -> None:
    scene = Scene()
    first = scene.submit(1, seconds=1000)
    scene.until_running(first)
    scene.cluster.journal.full = True
    second = scene.submit(2, seconds=100)
    scene.pass_time(300)
    assert scene.made() == 1, "what cannot be written down is not done"
    assert len(scene.cluster.machines.running()) == 1
    scene.until(lambda: scene.daemon.last is not None and scene.daemon.last.role == "holds still", 5)
    scene.cluster.journal.full = False
    scene.until_running(second, 60)
    scene.ends_well()


@pytest.mark.parametrize("seconds", [3600.0, 86400.0 * 40])
@pytest.mark.parametrize("moment_s", [1.0, 5.0, 130.0])
def test_the_clock_jumps_forward(seconds: float, moment_s: float) -> None:
    _clock_jumps(seconds, moment_s)


@pytest.mark.parametrize("seconds", [-3600.0, -86400.0 * 40])
@pytest.mark.parametrize("moment_s", [1.0, 5.0, 130.0])
def test_the_clock_jumps_back(seconds: float, moment_s: float) -> None:
    _clock_jumps(seconds, moment_s)


def _clock_jumps(seconds: float, moment_s: float) -> None:
    scene = Scene()

    def jump() -> None:
        scene.cluster.clock.ahead_s = seconds
        scene.cluster.wake()

    scene.cluster.clock.after(moment_s, jump)
    jobs = scene.submit(2, seconds=100)
    scene.until_running(jobs, 120)
    scene.ends_well()
    assert scene.made() <= 4


def test_died_between_drain_and_terminate() -> None:
    """Nomad autoscaler 628."""
    scene = Scene()
    jobs = scene.submit(2, seconds=50)
    scene.until_running(jobs)
    scene.until(lambda: scene.node("cpu-1").state.is_drained, 300)
    scene.daemon.kill()
    scene.ends_well()
    kinds = [type(about["intent"].action) for what, about in scene.said if what == "intends"]
    assert kinds.count(Drain) == 1, "it goes on from where it was, and does not begin anew"


def test_one_long_drain_holds_back_no_other() -> None:
    """Nomad autoscaler 672."""
    scene = Scene()
    long = scene.submit(1, seconds=5000)
    short = scene.submit(2, seconds=50)
    scene.until_running([*long, *short])
    scene.cluster.bring_up(scene.cluster.spec)
    # The scaler's own drain of a node with a job, as of one that is above a lowered limit.
    scene.cluster.slurm.drain(scene.node("cpu-1").name, "tidepool: above max_nodes")
    scene.until(lambda: len(scene.cluster.machines.running()) == 1, 300)
    assert scene.running(long)
    scene.ends_well()


def test_every_intent_says_what_came_of_it() -> None:
    scene = Scene()
    _story(scene)
    ended: list[Intent] = [about["intent"] for what, about in scene.said if what == "ended"]
    assert {type(intent.action) for intent in ended} >= {Launch, Drain, Remove}
    assert {intent.result for intent in ended} <= {"done", "overtaken"}

"""Machines of pools move between the two queues: a whole cluster in simulated time, by the daemon's own turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.properties import HUNTED
from tests.simulation.pool_scene import PoolScene, pool
from tests.simulation.pool_story import PoolStory
from tidepool.clients.slurm import JobState
from tidepool.cluster.hostlist import HostSet
from tidepool.conversion.record import Order


def test_pods_get_idle_machines_and_jobs_get_them_back(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path)
    pods = scene.want(2, seconds=120)
    took_s = scene.until(lambda: scene.run_now(pods))
    assert took_s < 15, "the idle time, two conversions and a start"
    assert scene.count("kubernetes") == 2
    jobs = scene.submit(8, seconds=100)
    scene.until(lambda: scene.done(jobs) and scene.have_run(pods), 900)
    assert scene.count("slurm") == 4
    scene.judge_stays()


def test_only_as_many_machines_move_as_demand_needs(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path)
    small = scene.want(4, seconds=300, cpu_milli=500)
    scene.until(lambda: scene.run_now(small))
    scene.pass_time(200)
    assert scene.count("kubernetes") == 1
    assert sum(map(len, scene.moves.values())) == 1


def test_the_machine_that_runs_slurmctld_goes_after_all_others(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path, controller={"runs_on": "shared-1"})
    pods = scene.want(3, seconds=300)
    scene.until(lambda: scene.run_now(pods))
    assert scene.roles()["shared-1"] == "slurm"
    more = scene.want(1, seconds=300)
    scene.until(lambda: scene.run_now(more))
    assert scene.roles()["shared-1"] == "kubernetes"


def test_minimums_are_kept_however_much_the_others_want(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path, pool(slurm_min=2, kubernetes_min=1))
    assert scene.count("kubernetes") == 1
    pods = scene.want(6, seconds=100)
    scene.pass_time(60)
    assert scene.count("slurm") == 2
    scene.until(lambda: scene.have_run(pods), 1200)
    jobs = scene.submit(6, seconds=50)
    scene.until(lambda: scene.done(jobs), 1200)
    assert scene.count("kubernetes") >= 1


@pytest.mark.parametrize("seed", range(HUNTED or 15))
def test_demand_in_turns_is_served_and_nothing_flaps(seed: int, tmp_path: Path) -> None:
    PoolStory(seed, tmp_path, accidents=False).tell()


@pytest.mark.parametrize("seed", range(HUNTED or 15))
def test_after_accidents_and_people_everything_runs_in_the_end(seed: int, tmp_path: Path) -> None:
    PoolStory(seed, tmp_path, accidents=True).tell()


def test_a_move_that_a_person_tried_in_vain_does_not_shorten_a_stay(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path, pool(machines=1, minimum_stay_s=300))
    pods = scene.want(1, seconds=10)
    scene.until(lambda: scene.have_run(pods))
    (job,) = scene.submit(1, seconds=60)
    scene.until(lambda: scene.states([job]) == {JobState.RUNNING})
    order = Order(
        "shared-1", "shared", "kubernetes", scene.cluster.clock.true, "person", "a test", deadline_s=1
    )
    scene.pools.journal.order(order, "slurm")
    scene.cluster.stack.convert({"shared": HostSet.from_names(["shared-1"])}, ["shared-1"])
    scene.until(lambda: scene.pools.journal.conversions(limit=1)[0].phase == "stopped")
    more = scene.want(1, seconds=10)
    scene.until(lambda: scene.have_run(more))
    assert len(scene.moves["shared-1"]) == 3
    scene.judge_stays()


def test_while_kubernetes_is_away_nothing_moves_that_is_told_and_fleets_go_on(tmp_path: Path) -> None:
    fleet = {
        "name": "cpu",
        "subnet": "10.95.1.0/24",
        "max_nodes": 2,
        "shape": {"cpus": 2, "memory": "4GiB"},
        "idle_timeout_s": 60,
    }
    scene = PoolScene(tmp_path, fleets=[fleet])
    scene.pass_time(5)
    pods = scene.want(2)
    scene.pools.kubernetes.api = "down"
    jobs = scene.submit(6, seconds=100)
    scene.pass_time(120)
    assert not scene.pools.journal.conversions()
    trouble = scene.cluster.journal.trouble()
    assert trouble is not None
    assert "the API server does not answer" in trouble.complaints[0]
    assert "does not answer" in scene.decisions[-1].machines["shared-1"].reason
    assert len(scene.states(jobs)) == 1, "on four machines and two new nodes"
    scene.pools.kubernetes.api = "up"
    scene.cluster.wake()
    scene.until(lambda: scene.have_run(pods), 300)
    assert scene.cluster.journal.trouble() is None


def test_what_was_decided_and_cannot_be_looked_at_once_more_is_left(tmp_path: Path) -> None:
    scene = PoolScene(tmp_path)
    scene.pass_time(20)
    decide_before = scene.on_decision

    def goes_away() -> None:
        decide_before()
        if scene.moves:
            scene.pools.kubernetes.api = "down"

    scene.on_decision = goes_away
    pods = scene.want()
    scene.until(lambda: bool(scene.moves), 60)
    scene.pass_time(30)
    assert not scene.pools.journal.conversions()
    (intent,) = [about["intent"] for what, about in scene.said if what == "ended"]
    assert intent.result == "overtaken"
    assert "the API server does not answer" in intent.text
    assert not scene.decisions[-1].memory.pools.moving
    scene.on_decision = decide_before
    scene.pools.kubernetes.api = "up"
    scene.cluster.wake()
    scene.until(lambda: scene.have_run(pods), 300)


@pytest.mark.slow
def test_killed_at_any_effect_the_next_daemon_goes_on(tmp_path: Path) -> None:
    def tell(fatal: int) -> int:
        folder = tmp_path / str(fatal)
        folder.mkdir()
        scene = PoolScene(folder)
        steps = scene.die_at(fatal)
        pods = scene.want(2, seconds=20)
        scene.until(lambda: scene.have_run(pods), 600)
        jobs = scene.submit(4, seconds=10)
        scene.until(lambda: scene.done(jobs), 600)
        scene.judge_stays()
        return len(steps.names)

    effects = tell(0)
    assert effects > 50
    for fatal in range(1, effects + 1, 1 if HUNTED else effects // 20):
        tell(fatal)

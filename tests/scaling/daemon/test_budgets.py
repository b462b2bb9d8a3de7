"""Budgets of accounts over a daemon's turns: what is told once, and held whatever is killed in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tests.scaling.observe.test_account_watch import Records
from tests.simulation.machines import FaultyCluster, FaultyDaemon, faulty_scaler
from tidepool.clients.slurm import JobRequest
from tidepool.clients.slurm.usage import JobTime
from tidepool.cluster.spec_reading import read_spec
from tidepool.scaling.daemon.loop import Loop
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.scaling.observe.account_watch import AccountWatch
from tidepool.scaling.observe.kubernetes_watch import AtOnce
from tidepool.scaling.usage import clipped
from tidepool.simulation.cluster import Speeds, sleeping

MAPPING: dict[str, Any] = {
    "name": "simulated",
    "network": "10.95.0.0/16",
    "controller": {"accounting": {}},
    "fleets": [
        {"name": "cpu", "subnet": "10.95.1.0/24", "max_nodes": 4, "shape": {"cpus": 2, "memory": "4GiB"}}
    ],
    "partitions": [{"name": "main", "default": True}],
    "accounts": [{"name": "physics", "budget": {"node_hours_per_month": 1}}, {"name": "biology"}],
}
SPEC = read_spec(MAPPING)


class Hours(Records):
    """slurmdbd that says how long one node was used this month."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._now = now
        self._times: list[JobTime] = []

    def used(self, seconds: int) -> None:
        """From now on so much was used: what is new of it until just now."""
        end, more = int(self._now().timestamp()), seconds - sum(each.elapsed_s for each in self._times)
        self._times.append(JobTime("physics", "ada", "cpu-1", end - more, end, more, 2))

    def job_times(self, begin: int, end: int) -> tuple[JobTime, ...]:
        self._answer()
        self.asked.append((begin, end))
        return tuple(clipped(self._times, begin, end))


class Scene:
    def __init__(self) -> None:
        self.cluster = FaultyCluster(SPEC, speeds=Speeds(boot=2))
        self.records = Hours(lambda: self.cluster.clock.true)
        self.told: list[str] = []

    def loop(self) -> Loop:
        def say(name: str, **more: Any) -> None:
            if name.startswith("account-"):
                self.told.append(f"{name} {more.get('percent', '')}".strip())

        watch = AccountWatch(lambda *_: self.records, AtOnce(), self.cluster.clock.monotonic_s)
        return faulty_scaler(self.cluster, decide=decide, remember=remember, say=say, accounts=watch)

    def daemon(self) -> FaultyDaemon:
        return self.cluster.run_scaler(self.loop)

    def used(self, seconds: int) -> list[str]:
        """What is told when so much is used, over many turns."""
        self.told.clear()
        self.records.used(seconds)
        for _ in range(10):
            self.cluster.wake()
            self.cluster.run(20)
        return self.told


def test_each_part_of_a_budget_is_told_once_and_a_spent_one_is_held_over_kills_and_silence() -> None:
    scene = Scene()
    daemon = scene.daemon()
    assert scene.used(2800) == []
    assert scene.used(3000) == ["account-budget 83"]
    assert scene.used(3100) == []
    assert scene.used(3500) == ["account-budget 97"]
    daemon.kill()
    assert scene.used(3550) == []
    assert scene.used(3600) == ["account-budget 100", "account-held"]
    assert scene.records.held == {"physics": "0"}

    # Killed before it was held, say: the next daemon does it, and has nothing to tell.
    daemon.kill()
    scene.records.held.clear()
    assert scene.used(3600) == ["account-held"]

    # slurmdbd is silent, and a new daemon begins: what is known holds.
    daemon.kill()
    scene.records.is_down = True
    job = scene.cluster.submit(JobRequest(sleeping(30), exclusive=True, account="physics"))
    scene.cluster.run(60)
    look = scene.cluster.journal.last_look()
    assert look is not None
    assert "the budget of the account physics is spent" in look.decision.waiting[job].reason
    assert all(node.state.is_slot for node in scene.cluster.slurm.nodes())


def test_what_is_counted_while_a_job_runs_keeps_nobody_awake() -> None:
    scene = Scene()
    scene.cluster.submit(JobRequest(sleeping(3000), exclusive=True, account="physics"))
    loop = scene.loop()

    def asked_within(seconds: float) -> int:
        before, until_s = len(scene.records.asked), scene.cluster.clock.monotonic_s() + seconds
        while scene.cluster.clock.monotonic_s() < until_s:
            scene.cluster.run(max(loop.turn().again_in_s, 0.1))
            # As much is used with each count.
            scene.records.used(int(scene.cluster.clock.monotonic_s()))
        return len(scene.records.asked) - before

    asked_within(60)
    # As often as while nothing is going on.
    assert 1 < asked_within(60) <= 4


def test_who_loses_a_budget_that_is_spent_is_let_go_whatever_was_held_meanwhile() -> None:
    scene = Scene()
    daemon = scene.daemon()
    assert scene.used(3600) == ["account-budget 100", "account-held"]
    daemon.kill()
    # An `up` has let it go, and the daemon held it again before it saw the new spec.
    scene.cluster.bring_up(read_spec({**MAPPING, "accounts": [{"name": "physics"}, {"name": "biology"}]}))
    scene.daemon()
    assert scene.used(3600) == ["account-freed"]
    assert scene.records.held == {"physics": "-1"}
    # From now on it is somebody's own hand.
    scene.records.held["physics"] = "0"
    assert scene.used(3600) == []
    assert scene.records.held == {"physics": "0"}

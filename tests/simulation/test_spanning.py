"""Fleets over several infrastructures, in simulated days: demand moves on, comes back, and nothing is lost on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from ipaddress import IPv4Address
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.infrastructure import FakeInfrastructure
from tests.simulation.laws import Laws
from tests.simulation.machines import FaultyCluster, faulty_scaler
from tests.simulation.story import left
from tidepool.clients.slurm import JobRequest, JobState
from tidepool.cluster.failures import Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.several import Several
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.scaling.decision import Decision, Launch
from tidepool.scaling.memory import Memory
from tidepool.simulation.cluster import Speeds, sleeping
from tidepool.simulation.machines import MachineRequest

pytestmark = pytest.mark.slow

SPOT = {"name": "aws", "offering": "spot", "price_usd_per_hour": 0.5}
DEAR = {"name": "aws", "price_usd_per_hour": 2}
#: So long a job may wait while some infrastructure has had machines all the time: boots that fail, pauses, and a margin.
PATIENCE = timedelta(minutes=20)


def spec_on(*infrastructures: Any, max_nodes: int = 8, **more: Any) -> ClusterSpec:
    return read_spec(
        {
            "name": "simulated",
            "network": "10.95.0.0/16",
            "fleets": [
                {
                    "name": "cpu",
                    "subnet": "10.95.1.0/24",
                    "max_nodes": max_nodes,
                    "shape": {"cpus": 2, "memory": "4GiB"},
                    "idle_timeout_s": 60,
                    "infrastructures": list(infrastructures),
                }
            ],
            "partitions": [{"name": "main"}],
            "scaling": {"boot_timeout_s": 60},
            **more,
        }
    )


@dataclass
class Scene:
    """A cluster with its scaler. ``launched`` counts nodes by where they were launched."""

    spec: ClusterSpec
    launched: Counter[str] = field(default_factory=Counter)
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = FaultyCluster(self.spec, speeds=Speeds(look=1))
        machines = self.cluster.machines
        machines.fakes |= {
            name: FakeInfrastructure(lambda: self.cluster.clock.true)
            for name in self.spec.infrastructure_names
        }
        self.laws = Laws(self.cluster, decide)
        several = Several(machines.by_name)
        self.daemon = self.cluster.run_scaler(
            lambda: faulty_scaler(self.cluster, decide=self._decide, remember=remember, machines=several)
        )

    def _decide(self, state: ClusterState, memory: Memory) -> Decision:
        decision = self.laws.decide(state, memory)
        self.decisions.append(decision)
        for action in decision.actions:
            if isinstance(action, Launch):
                self.launched[action.location] += len(action.nodes)
        return decision

    def on(self, name: str) -> FakeInfrastructure:
        return self.cluster.machines.fakes[name]

    def submit(self, jobs: int, seconds: float = 120) -> list[int]:
        return [
            self.cluster.submit(JobRequest(sleeping(seconds), exclusive=True, time_limit_s=3600))
            for _ in range(jobs)
        ]

    def locations(self) -> dict[str, str]:
        return {
            name: record.location for name, record in self.cluster.stack.recorded.items() if record.machine
        }

    def run_until_done(self, most_s: float = 86400) -> bool:
        queue = self.cluster.slurm.queue
        return self.cluster.run(most_s, until=lambda: not (queue.waiting or queue.running))

    def run_until_running(self, jobs: int, most_s: float = 3600) -> bool:
        queue = self.cluster.slurm.queue
        return self.cluster.run(most_s, until=lambda: len(queue.running) >= jobs)


def test_the_first_is_taken_up_to_its_most_and_then_the_next() -> None:
    scene = Scene(spec_on({"name": "local", "max_nodes": 2}, SPOT, DEAR))
    scene.submit(3)
    assert scene.run_until_running(3)
    assert Counter(scene.locations().values()) == {"local": 2, "aws/spot": 1}
    assert scene.run_until_done()
    assert scene.cluster.run(3600, until=lambda: not left(scene.cluster)), left(scene.cluster)


def test_a_stock_out_moves_demand_on_at_once() -> None:
    scene = Scene(spec_on("local", "aws"))
    scene.on("local").stock = 1
    began = scene.cluster.clock.true
    scene.submit(4)
    assert scene.run_until_running(4)
    assert scene.cluster.clock.true - began < timedelta(seconds=15)
    assert Counter(scene.locations().values()) == {"local": 1, "aws": 3}
    (why,) = {
        action.reason.partition("; ")[2]
        for decision in scene.decisions
        for action in decision.actions
        if isinstance(action, Launch) and action.location == "aws"
    }
    assert why.startswith("on aws, for local is left alone until ")
    assert "there is no such machine to be had now" in why


def test_with_as_many_jobs_as_names_none_waits_for_a_name_that_failed_elsewhere() -> None:
    scene = Scene(spec_on("local", "aws", max_nodes=4))
    scene.on("local").stock = 0
    began = scene.cluster.clock.true
    scene.submit(4)
    assert scene.run_until_running(4)
    assert scene.cluster.clock.true - began < timedelta(seconds=15)
    assert set(scene.locations().values()) == {"aws"}


def test_demand_returns_to_the_first_when_its_quarantine_is_over() -> None:
    scene = Scene(spec_on("local", "aws"))
    scene.on("local").stock = 0
    scene.submit(1, seconds=10)
    assert scene.run_until_done()
    scene.on("local").stock = None
    scene.cluster.run(120)
    scene.submit(1, seconds=10)
    assert scene.run_until_running(1)
    assert "local" in scene.locations().values()


def test_a_stock_out_that_lasts_is_tried_less_and_less_often() -> None:
    scene = Scene(spec_on("local", "aws"))
    scene.on("local").stock = 0
    for _ in range(48):
        scene.submit(1, seconds=600)
        scene.cluster.run(1800)
    assert scene.run_until_done()
    assert scene.launched["aws"] == 48
    assert scene.launched["local"] <= 32, "a day, doubled from a minute up to an hour"


def test_what_is_sold_out_is_asked_for_one_machine_and_not_for_all_of_a_wave() -> None:
    scene = Scene(spec_on("local", "aws"))
    scene.on("local").stock = 0
    waits: list[timedelta] = []
    for _ in range(24):
        began = scene.cluster.clock.true
        scene.submit(8, seconds=600)
        assert scene.run_until_running(8)
        waits.append(scene.cluster.clock.true - began)
        assert scene.run_until_done()
        scene.cluster.run(1800)
    waves = scene.launched["local"]
    assert waves <= 8 + 24, "the first wave, then one of each"
    assert max(waits) < timedelta(seconds=30), "nobody waits for what comes of it but one job"
    scene.on("local").stock = None
    scene.cluster.run(7200)
    for _ in range(2):
        scene.submit(8, seconds=600)
        assert scene.run_until_done()
        scene.cluster.run(1800)
    assert scene.launched["local"] == waves + 1 + 8, "one comes, and the next wave is all there"


def test_a_node_type_that_never_boots_closes_itself_and_not_the_fleet() -> None:
    scene = Scene(spec_on({"name": "local", "max_nodes": 1}, SPOT, DEAR))
    scene.on("aws").mute(*(f"cpu-{number}" for number in range(1, 6)))
    scene.submit(3, seconds=7200)
    assert scene.run_until_running(3, most_s=3600)
    assert scene.locations()["cpu-1"] == "local", "it went on all the time"
    scene.on("aws").unmute(*(f"cpu-{number}" for number in range(1, 6)))
    assert scene.run_until_done()


def test_what_is_wrong_for_good_on_one_does_not_keep_the_names_from_another() -> None:
    scene = Scene(spec_on("local", "aws", max_nodes=3))
    scene.cluster.machines.fakes["local"] = _Wrong(lambda: scene.cluster.clock.true)
    scene.submit(3)
    assert scene.run_until_running(3, most_s=60)
    assert set(scene.locations().values()) == {"aws"}


def test_one_that_cannot_be_asked_loses_no_node_and_holds_up_no_other() -> None:
    scene = Scene(spec_on({"name": "local", "max_nodes": 1}, "aws"))
    scene.submit(2, seconds=7200)
    assert scene.run_until_running(2)
    scene.cluster.machines.silent.add("aws")
    before = scene.locations()
    scene.cluster.run(7200 / 2)
    assert scene.locations() == before
    assert scene.run_until_done()
    # Those of the one that answers go; nothing is done about the others but what their own state says.
    scene.cluster.run(600)
    assert "local" not in scene.locations().values()
    assert len(scene.cluster.slurm.queue.waiting) == 0
    scene.cluster.machines.silent.clear()
    assert scene.cluster.run(3600, until=lambda: not left(scene.cluster)), left(scene.cluster)


def test_a_machine_whose_answer_was_lost_is_swept_where_it_is_and_its_namesake_stays() -> None:
    scene = Scene(spec_on("local", "aws"))
    scene.submit(1, seconds=3600)
    assert scene.run_until_running(1)
    key = MachineKey("simulated", "cpu-1", infrastructure="aws")
    lost = scene.cluster.machines.known(MachineKey("simulated", "cpu-1", infrastructure="local"))
    assert lost is not None
    scene.cluster.machines.fakes["aws"].haunt(key, like=_made(scene, key))
    assert scene.run_until_done()
    scene.cluster.run(300)
    assert scene.cluster.run(3600, until=lambda: not left(scene.cluster)), left(scene.cluster)


class _Wrong(FakeInfrastructure):
    """Makes none."""

    def create(self, request: MachineRequest) -> Machine:
        raise Permanent("the image is of another architecture")


def _made(scene: Scene, key: MachineKey) -> MachineKey:
    """A machine of that name on another infrastructure, of which no state knows."""
    like = replace(key, node="cpu-8")
    request = MachineRequest(like, IPv4Address("10.95.1.8"), 2, 4096, "sha256:1", "cpu")
    scene.cluster.machines.fakes["aws"].create(request)
    return like


class Weather:
    """Stock-outs, silence and lost answers that come and go, on one infrastructure or another."""

    def __init__(self, scene: Scene, random: Random, hours: float) -> None:
        self._scene, self._random = scene, random
        self._names = list(scene.spec.infrastructure_names)
        clock = scene.cluster.clock
        scene.laws.hampered = True
        for _ in range(int(hours * 2)):
            clock.after(random.uniform(0, hours * 3600), self._change)
        clock.after(hours * 3600, self._fair)

    def _change(self) -> None:
        scene, random = self._scene, self._random
        name = random.choice(self._names)
        fake = scene.on(name)
        match random.choice(["out", "some", "back", "back", "silent", "speaks", "lost", "refuses"]):
            case "out":
                fake.stock = 0
            case "some":
                fake.stock = random.randint(1, 3)
            case "back":
                fake.stock = None
            case "silent":
                scene.cluster.machines.silent.add(name)
            case "speaks":
                scene.cluster.machines.silent.discard(name)
            case "lost":
                fake.lose_answers(random.randint(1, 2))
            case "refuses":
                node = f"cpu-{random.randint(1, 8)}"
                fake.refuse_deletion(node)
                scene.cluster.clock.after(900, lambda: fake.release(node))
        scene.cluster.wake()

    def _fair(self) -> None:
        for name in self._names:
            self._scene.on(name).stock = None
        self._scene.cluster.machines.silent.clear()
        self._scene.laws.hampered = False
        self._scene.laws.forgive()
        # It looks every few seconds; simulated, it is told when there is something to see.
        self._scene.cluster.wake()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_the_weather_all_jobs_run_no_node_moves_and_nothing_is_left(seed: int) -> None:
    random, hours = Random(seed), 12.0
    first = {"name": "local", "max_nodes": random.randint(1, 8)}
    scene = Scene(spec_on(first, *random.sample([SPOT, DEAR, {"name": "libvirt"}], random.randint(1, 3))))
    Weather(scene, random, hours)
    submitted: list[int] = []
    clock = scene.cluster.clock
    for _ in range(20):
        clock.after(
            random.uniform(0, hours * 3600),
            lambda: submitted.extend(scene.submit(random.randint(1, 3), random.uniform(10, 1500))),
        )
    before: dict[str, str] = {}
    lives: dict[str, str] = {}

    def watch() -> None:
        nonlocal before
        scene.laws.watch()
        now = scene.locations()
        for name, location in now.items():
            # A node that is there stays where it is for as long as it is there.
            assert before.get(name, location) == location, f"{name} moved from {before[name]} to {location}"
        before = now
        lives.update(now)

    scene.cluster.watch = watch
    scene.cluster.run(hours * 3600)
    assert scene.run_until_done(), scene.cluster.slurm.queue.waiting
    assert {scene.laws.ended[job] for job in submitted} <= {JobState.COMPLETED}
    assert scene.cluster.run(86400, until=lambda: not left(scene.cluster)), left(scene.cluster)
    assert sum(scene.launched.values()) < 40 * len(submitted), "it comes to rest"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_no_job_waits_for_long_while_another_infrastructure_has_machines(seed: int) -> None:
    random = Random(seed)
    scene = Scene(spec_on("local", SPOT, {"name": "libvirt"}))
    steady = random.choice(["local", "aws", "libvirt"])
    for name in {"local", "aws", "libvirt"} - {steady}:
        scene.on(name).stock = random.choice([0, 0, 1, 2])
    jobs = scene.submit(random.randint(1, 8), seconds=60)
    assert scene.run_until_done(PATIENCE.total_seconds()), f"only {steady} has machines, and they wait"
    assert all(scene.laws.ended[job] is JobState.COMPLETED for job in jobs)

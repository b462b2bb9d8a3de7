"""What is looked at, how often, and what is not believed at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from tests.scaling.journal.values import SPEC
from tests.simulation.infrastructure import FakeInfrastructure
from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import ControllerDown
from tidepool.clients.slurm.request import JobRequest, Slots
from tidepool.cluster.failures import Transient
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.scaling import Queue, Scaling, Warm
from tidepool.infrastructures import MachineKey
from tidepool.scaling.cluster_state import Recorded
from tidepool.scaling.observe.observation import Observation
from tidepool.scaling.observe.observe import Observer, Unseen
from tidepool.scaling.observe.policies_file import PoliciesFile
from tidepool.scaling.ports import NotUp, Stack, StackError, StackOutputs, UpOutcome
from tidepool.simulation.machines import MachineRequest

SLOTS = Slots("cpu-[1-4]", addresses="10.77.1.[1-4]", cpus=2, memory_mib=64, features=("cpu",))


@dataclass
class StandIn:
    """A stack that says what it is told to."""

    told: StackOutputs = field(
        default_factory=lambda: StackOutputs(
            "1", SPEC, {}, {"cpu": HostSet("cpu-1")}, {"cpu-1": Recorded(machine=True)}
        )
    )
    error: StackError | None = None

    def read(self) -> StackOutputs:
        if self.error:
            raise self.error
        return self.told

    def up(
        self, desired: Any, nodes: Any, *, locations: Any = (), refresh: Any = (), suspended: Any = ()
    ) -> UpOutcome:
        raise NotImplementedError

    def convert(self, kubernetes: Any, nodes: Any, *, refresh: Any = ()) -> UpOutcome:
        raise NotImplementedError

    def is_busy(self) -> bool:
        return False

    def preview(self, desired: Any, nodes: Any, *, locations: Any = (), suspended: Any = ()) -> str:
        return ""


@dataclass
class Scene:
    """All that an observer looks at. Looks take as long as ``cost_s`` says, by call."""

    now_s: float = 0
    cost_s: dict[str, float] = field(default_factory=dict)
    stack: StandIn = field(default_factory=StandIn)
    policies: PoliciesFile | None = None

    def __post_init__(self) -> None:
        self.slurm = FakeSlurm(lambda: datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=self.now_s))
        self.slurm.create_slots(SLOTS)
        self.machines = FakeInfrastructure(lambda: datetime(2026, 11, 21, tzinfo=UTC))
        self.asked: list[str] = []
        self.answers: dict[str, list[Any]] = {}
        self.observer = self.new_observer()

    def new_observer(self) -> Observer:
        stack: Stack = self.stack
        return Observer(
            "dev", stack, self.machines, lambda _: _Counted(self), self.policies, lambda: self.now_s
        )

    def look(self, *, is_active: bool = True) -> Observation:
        return self.observer.look(is_active=is_active)

    def counts(self, looks: int, every_s: float, *, is_active: bool) -> Mapping[str, int]:
        """How often each was asked for in so many looks."""
        self.asked.clear()
        for _ in range(looks):
            self.look(is_active=is_active)
            self.now_s += every_s
        return {name: self.asked.count(name) for name in ("jobs", "nodes", "partitions", "reservations")}


class _Counted:
    """A client that counts, takes its time, and may be made to give other answers."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __getattr__(self, name: str) -> Any:
        behind = getattr(self._scene.slurm, name)

        def called(*arguments: Any) -> Any:
            self._scene.asked.append(name)
            self._scene.now_s += self._scene.cost_s.get(name, 0)
            answers = self._scene.answers.get(name)
            return answers.pop(0) if answers else behind(*arguments)

        return called


# How often


def test_at_rest_only_the_queue_is_looked_at_often() -> None:
    scene = Scene()
    scene.look(is_active=False)
    counts = scene.counts(60, 1, is_active=False)
    assert counts["jobs"] == 60
    assert counts["nodes"] <= 12
    assert counts["partitions"] <= 3
    assert counts["reservations"] <= 6


def test_what_is_dear_is_looked_at_less_often() -> None:
    cheap, dear = Scene(), Scene(cost_s={"nodes": 0.1})
    assert dear.counts(60, 1, is_active=False)["nodes"] < cheap.counts(60, 1, is_active=False)["nodes"]
    # And while something goes on, more often than at rest.
    assert Scene(cost_s={"nodes": 0.1}).counts(60, 1, is_active=True)["nodes"] > 30


def test_a_queue_that_changes_has_the_nodes_looked_at() -> None:
    scene = Scene()
    scene.look(is_active=False)
    scene.asked.clear()
    scene.look(is_active=False)
    assert "nodes" not in scene.asked
    scene.slurm.submit(JobRequest("#!/bin/sh\n"))
    assert len(scene.look(is_active=False).seen.jobs) == 1
    assert "nodes" in scene.asked


def test_what_was_changed_is_looked_at_again() -> None:
    scene = Scene()
    scene.look(is_active=False)
    scene.slurm.boot("cpu-1")
    assert scene.look(is_active=False).seen.nodes[0].state.is_slot
    scene.observer.expect()
    assert not scene.look(is_active=False).seen.nodes[0].state.is_slot


# What is not believed


def test_nodes_that_are_told_of_no_more_are_asked_for_again_until_it_is_certain() -> None:
    scene = Scene()
    before = scene.look().seen.nodes
    scene.answers["nodes"] = [(), before[:2], before]
    for _ in range(2):
        scene.observer.expect()
        with pytest.raises(Unseen, match=r"not of .*cpu-"):
            scene.look()
    scene.observer.expect()
    assert scene.look().seen.nodes == before
    # A controller that lost them for good says so each time.
    scene.slurm.delete_nodes("cpu-[3-4]")
    for _ in range(3):
        scene.observer.expect()
        with pytest.raises(Unseen):
            scene.look()
    scene.observer.expect()
    assert len(scene.look().seen.nodes) == 2


def test_a_person_may_take_slots_away() -> None:
    scene = Scene()
    scene.look()
    scene.slurm.delete_nodes("cpu-[3-4]")
    scene.stack.told = replace(scene.stack.told, version="2")
    assert len(scene.look().seen.nodes) == 2


def test_no_jobs_where_processors_are_allocated_is_not_believed_at_once() -> None:
    scene = Scene()
    scene.slurm.boot("cpu-1")
    scene.slurm.submit(JobRequest("#!/bin/sh\n"))
    jobs = scene.look().seen.jobs
    scene.answers["jobs"] = [()] * 4
    for _ in range(2):
        with pytest.raises(Unseen, match="tells of no job"):
            scene.look()
    assert scene.look().seen.jobs == jobs


def test_the_end_of_the_last_job_is_believed_at_once() -> None:
    scene = Scene()
    scene.slurm.boot("cpu-1")
    job = scene.slurm.submit(JobRequest("#!/bin/sh\n")).job_id
    scene.look()
    scene.slurm.finish(job)
    assert scene.look(is_active=False).seen.jobs == ()


# What fails


def test_without_an_answer_of_slurms_there_is_nothing_to_decide_on() -> None:
    scene = Scene()
    scene.look()
    scene.slurm.controller = "down"
    with pytest.raises(Unseen, match="slurmctld does not answer") as error:
        scene.look()
    assert not error.value.is_down
    scene.slurm.controller = "up"
    assert len(scene.look().seen.nodes) == 4


def test_a_stack_that_cannot_be_read_is_unknown_and_no_empty_one() -> None:
    scene = Scene()
    assert scene.look().seen.recorded == {"cpu-1": Recorded(machine=True)}
    scene.stack.error = StackError("half of it is there")
    scene.now_s += 10
    found = scene.look()
    assert found.seen.recorded is None
    assert found.complaints == {"stack": "half of it is there"}
    scene.stack.error = None
    scene.now_s += 10
    assert scene.look().complaints == {}


def test_a_stack_that_was_never_read_is_nothing_to_decide_on() -> None:
    scene = Scene(stack=StandIn(error=StackError("truncated")))
    with pytest.raises(Unseen, match="truncated"):
        scene.look()


def test_a_cluster_that_is_not_up_is_waited_for() -> None:
    scene = Scene(stack=StandIn(error=NotUp("the cluster is not up")))
    with pytest.raises(Unseen, match="tidepool up") as error:
        scene.look()
    assert error.value.is_down


def test_machines_that_cannot_be_listed_are_unknown_and_not_gone() -> None:
    scene = Scene()
    for name in ("cpu-1", "login-1", "ctl"):
        key = MachineKey("dev", name)
        scene.machines.create(MachineRequest(key, IPv4Address("10.77.1.1"), 1, 64, "image", "boot"))
    listed = scene.look().seen.machines
    assert listed is not None
    assert [each.key.node for each in listed] == ["cpu-1"]
    scene.machines.fail(Transient("too many requests"))
    scene.observer.expect()
    found = scene.look()
    assert found.seen.machines is None
    assert found.complaints == {"machines": "too many requests"}


def test_a_fresh_look_is_not_from_before() -> None:
    scene = Scene()
    scene.look()
    scene.slurm.boot("cpu-2")
    found = scene.observer.recheck(["cpu-2", "cpu-9"])
    assert list(found.nodes) == ["cpu-2"]
    assert not found.nodes["cpu-2"].state.is_slot
    assert found.machines is None
    assert scene.observer.recheck(["cpu-2"], machines=True).machines == ()
    scene.slurm.fail(ControllerDown("slurmctld does not answer", where="here", remedy="wait"))
    with pytest.raises(Unseen):
        scene.observer.recheck(["cpu-2"])


# Policies


def test_policies_follow_the_file_and_mistakes_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    said: list[Scaling | Exception] = []

    def read() -> Scaling:
        if isinstance(said[-1], Exception):
            raise said[-1]
        return said[-1]

    def write(what: Scaling | Exception) -> None:
        said.append(what)
        file.write_text("x" * len(said))

    write(Scaling(boot_timeout_s=7))
    scene = Scene(policies=PoliciesFile(file, read, (ValueError,)))
    assert scene.look().seen.spec.scaling.boot_timeout_s == 7
    assert scene.look().seen.spec.fleets == SPEC.fleets
    write(ValueError("policies: there is no policy queu; nodes: at least 1"))
    found = scene.look()
    assert found.seen.spec.scaling.boot_timeout_s == 7
    assert "queu; nodes: at least 1" in found.complaints["policies"]
    # Right by itself, and not for the fleets that were brought up.
    write(Scaling(policies=(Queue(), Warm(name="warm", fleet="gpu", nodes=1))))
    found = scene.look()
    assert found.seen.spec == SPEC
    assert "gpu" in found.complaints["policies"]
    write(Scaling(boot_timeout_s=9))
    assert scene.look().seen.spec.scaling.boot_timeout_s == 9
    assert scene.look().complaints == {}
    file.unlink()
    assert scene.look().seen.spec.scaling.boot_timeout_s == 9

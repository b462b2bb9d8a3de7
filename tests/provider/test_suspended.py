"""A node whose machine is suspended and goes on: what is done, in which order, and what is left where it cannot be."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.slurm import FakeSlurm
from tidepool.clients.slurm import Completed, JobRequest, Slots
from tidepool.cluster.failures import InsufficientCapacity, Permanent
from tidepool.infrastructures.suspension import MachineState
from tidepool.provider import node as module
from tidepool.provider.node import NodeKind
from tidepool.provider.suspended import AFTER, BEFORE
from tidepool.resources.declarations import NodeModel
from tidepool.resources.kind import AS_KNOWN, Home, Refusal, Task

NOW_S = 1_764_000_000.5
MACHINE = {"kind": "ssh", "stack": "dev", "address": "10.77.1.1", "user": "root"}


@dataclass
class World:
    """A machine of the node cpu-1, which is up in Slurm; ``done`` is what was asked, in its order."""

    slurm: FakeSlurm
    state_is: MachineState = "running"
    is_full: bool = False
    breaks: str = ""
    done: list[str] = field(default_factory=list)
    where: str = "on 10.77.1.1"

    # The machine's way of being suspended

    def state(self) -> MachineState:
        return self.state_is

    def suspend(self) -> None:
        assert self.slurm.nodes("cpu-1")[0].state.is_slot, "Slurm knows it no more"
        if self.is_full:
            raise InsufficientCapacity("no space left on device")
        self.done.append("suspend")
        self.state_is = "suspended"

    def resume(self) -> None:
        self.done.append("resume")
        self.state_is = "running"

    # The way to it

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        script = argv[2] if len(argv) > 2 else argv[0]
        name = {BEFORE: "before", AFTER: "after"}.get(script, script)
        if self.breaks == name:
            return Completed(1, "", "Unit tidepool-munged.service not found.")
        if name == "after":
            assert argv[4] == f"{NOW_S:.3f}"
            self.slurm.boot("cpu-1")
        if name != "true":
            self.done.append(name)
        return Completed(0, "", "")

    def close(self) -> None:
        """Nothing is kept."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    slurm = FakeSlurm()
    slurm.create_slots(Slots("cpu-[1-2]", "10.77.1.[1-2]", cpus=1, memory_mib=500))
    slurm.boot("cpu-1")
    it = World(slurm)
    monkeypatch.setattr(module, "transport", lambda *_: it)
    monkeypatch.setattr(module, "Slurm", lambda _: slurm)

    def suspension_of(said: Any) -> World:
        if said != {"kind": "libvirt"}:
            raise Permanent("it does not suspend machines")
        return it

    monkeypatch.setattr(module, "suspension_of", suspension_of)
    return it


@pytest.fixture
def kind(world: World, tmp_path: Path) -> NodeKind:
    return NodeKind(Home(tmp_path, tmp_path), lambda: NOW_S)


def task() -> Task:
    """An operation that has 20 seconds, and tells nobody."""

    def say(_: str) -> None:
        return

    return Task("urn", 20, time.monotonic() + 20, say, say, say)


def a_node(**power: Any) -> NodeModel:
    controller = {**MACHINE, "address": "10.77.0.2"}
    return NodeModel(controller=controller, node="cpu-1", machine=MACHINE, slots="s", **power)


RUNS, SUSPENDED = a_node(), a_node(power="suspended", suspension={"kind": "libvirt"})


def test_it_leaves_slurm_before_its_memory_is_saved_and_comes_back_by_the_right_time(
    world: World, kind: NodeKind
) -> None:
    assert kind.update("cpu-1", RUNS, SUSPENDED, task()) == {}
    assert world.done == ["before", "suspend"]
    assert kind.look("cpu-1", SUSPENDED) is AS_KNOWN
    # Done again, after one that was cut off, it is as it is; and so it is where the state had lost it.
    assert kind.update("cpu-1", RUNS, SUSPENDED, task()) == {}
    assert kind.create(SUSPENDED, task()).outputs == {}
    assert world.done == ["before", "suspend"]
    assert kind.update("cpu-1", SUSPENDED, RUNS, task()) == {}
    assert world.done == ["before", "suspend", "resume", "after"]
    assert not world.slurm.nodes("cpu-1")[0].state.is_slot


def test_one_that_runs_jobs_is_not_suspended(world: World, kind: NodeKind) -> None:
    world.slurm.submit(JobRequest("#!/bin/sh\n", tasks=1))
    with pytest.raises(Refusal, match="runs the jobs"):
        kind.update("cpu-1", RUNS, SUSPENDED, task())
    assert (world.done, world.state_is) == ([], "running")


def test_on_a_disk_that_is_full_it_goes_on_as_it_ran(world: World, kind: NodeKind) -> None:
    world.is_full = True
    with pytest.raises(Refusal, match="no space left on device") as raised:
        kind.update("cpu-1", RUNS, SUSPENDED, task())
    assert raised.value.cause == "capacity"
    assert (world.done, world.state_is) == (["before", "after"], "running")


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_what_its_machine_says_is_told(breaks: str, world: World, kind: NodeKind) -> None:
    world.breaks = breaks
    first, then = (RUNS, SUSPENDED) if breaks == "before" else (SUSPENDED, RUNS)
    if breaks == "after":
        world.state_is = "suspended"
    with pytest.raises(Refusal, match=r"munged\.service not found"):
        kind.update("cpu-1", first, then, task())


@pytest.mark.parametrize("state", ["stopped", "gone"])
def test_memory_that_is_lost_is_seen_and_nothing_is_done_about_it(
    state: MachineState, world: World, kind: NodeKind
) -> None:
    kind.update("cpu-1", RUNS, SUSPENDED, task())
    world.state_is = state
    assert kind.look("cpu-1", SUSPENDED) == {"state": "lost"}
    assert kind.update("cpu-1", SUSPENDED, SUSPENDED, task()) == {"state": "lost"}
    assert world.done == ["before", "suspend"]
    kind.delete("cpu-1", SUSPENDED, task())


def test_one_whose_infrastructure_does_not_suspend_is_refused_before(kind: NodeKind) -> None:
    (mistake,) = kind.mistakes(a_node(power="suspended", suspension={"kind": "local"}))
    assert mistake.property == "suspension"

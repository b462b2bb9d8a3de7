"""The scaler has `kubectl` tell where machines of pools are, beside its turns: what changed, and no more often."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.contract import KubernetesClient, Unreachable
from tidepool.conversion.journal import Journal
from tidepool.scaling.observe.pool_machines import PoolMachineState, PoolMachinesWriter

ACCESS = {"access": "kubernetes"}


class Scene:
    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0
        self.fake = FakeKubernetes()
        self.opened = 0
        self.fails = False
        self.gate = threading.Event()
        self.gate.set()
        self.writer = PoolMachinesWriter(
            "dev",
            self._open,
            lambda: Journal(folder / "conversions.db", power_safe=False),
            lambda: self.now_s,
        )

    def _open(self, _access: Mapping[str, Any]) -> KubernetesClient:
        self.opened += 1
        self.gate.wait()
        if self.fails:
            raise Unreachable("no route to host")
        return self.fake

    def show(self, *machines: PoolMachineState) -> None:
        self.writer.show(ACCESS, machines)
        self.writer.close(patience_s=60)

    @property
    def roles(self) -> dict[str, str]:
        return {each.name: each.role for each in self.fake.pool_machines_there.values()}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def machine(name: str, role: Any = "slurm", jobs: tuple[int, ...] = ()) -> PoolMachineState:
    return PoolMachineState(name, "shared", role, "Absent", jobs, "", ())


def test_each_machine_is_told_of_and_those_that_left_are_not(scene: Scene) -> None:
    scene.show(machine("shared-1", jobs=(4,)), machine("shared-2"))
    assert scene.roles == {"shared-1": "Slurm", "shared-2": "Slurm"}
    assert scene.fake.pool_machines_there["shared-1"].jobs == "4"
    scene.show(machine("shared-1"))
    assert scene.roles == {"shared-1": "Slurm"}


def test_what_has_not_changed_is_looked_at_again_after_a_while(scene: Scene) -> None:
    for _ in range(3):
        scene.show(machine("shared-1"))
    assert scene.opened == 1
    scene.fake.delete_pool_machine("shared-1")
    scene.now_s += 31
    scene.show(machine("shared-1"))
    assert scene.roles == {"shared-1": "Slurm"}


def test_a_kubernetes_that_does_not_answer_is_silent_and_asked_again_later(scene: Scene) -> None:
    scene.fails = True
    scene.show(machine("shared-1"))
    scene.fails = False
    scene.show(machine("shared-1"))
    assert scene.roles == {}
    scene.now_s += 31
    scene.show(machine("shared-1"))
    assert scene.roles == {"shared-1": "Slurm"}


def test_a_turn_waits_for_none_of_it_and_the_newest_is_written_in_the_end(scene: Scene) -> None:
    scene.gate.clear()
    scene.writer.show(ACCESS, (machine("shared-1"),))
    scene.writer.show(ACCESS, (machine("shared-1", "kubernetes"),))
    scene.gate.set()
    scene.writer.close(patience_s=60)
    assert scene.roles == {"shared-1": "Slurm"}
    scene.show(machine("shared-1", "kubernetes"))
    assert scene.roles == {"shared-1": "Kubernetes"}

"""A place on Kubernetes is asked in each check; a machine there is waited for, and why it does not come is told by its kind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kubernetes.real import RealKubernetes, shared
from tests.clients.kubernetes.world import Clock
from tests.provider.calls import Calls, Preflights
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.objects import Right
from tidepool.clients.slurm import Completed, Unreachable
from tidepool.cluster.failures import InsufficientCapacity, Permanent
from tidepool.infrastructures.kubernetes.kinds import KubernetesMachineKind
from tidepool.infrastructures.kubernetes.resources import KubernetesMachineModel
from tidepool.resources.kind import Home, Task, Unfinished

PODS: dict[str, Any] = {
    "path": "fleets[0].infrastructures[0].options",
    "names": "cpu-[1-2]",
    "kind": "pods",
    "cpuMilli": 1000,
    "memoryMib": 512,
    "architecture": "amd64",
    "autoscaled": True,
}
PLACE: dict[str, Any] = {
    "stack": "dev",
    "path": "controller.infrastructure.options",
    "namespace": "physics",
    "ownNamespace": True,
    "uses": ["pods"],
    "demands": [PODS],
}


@pytest.fixture
def places(tmp_path: Path) -> Preflights:
    return Preflights(tmp_path, "kubernetes")


def kubeconfig(folder: Path, real: RealKubernetes, *who: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(real.kubeconfig(*who))
    return str(path)


@pytest.fixture(scope="module")
def real() -> RealKubernetes:
    return shared()


@pytest.mark.slow
def test_a_place_that_has_all_passes_the_check(
    places: Preflights, tmp_path: Path, real: RealKubernetes
) -> None:
    inputs = {**PLACE, "kubeconfig": kubeconfig(tmp_path, real, "admin", "system:masters")}
    assert places.failures(inputs) == {}


@pytest.mark.slow
def test_each_right_that_a_real_server_does_not_give_is_named(
    places: Preflights, tmp_path: Path, real: RealKubernetes
) -> None:
    told = places.failures({**PLACE, "kubeconfig": kubeconfig(tmp_path, real, "nobody")})["path"]
    assert told.startswith("controller.infrastructure.options.kubeconfig: its user may not list nodes; ")
    assert "create, delete, get, list, patch, watch pods in physics" in told
    assert "create, delete, get, patch secrets in physics" in told


def test_a_kubeconfig_that_is_not_there_is_told_with_its_key(places: Preflights, tmp_path: Path) -> None:
    told = places.failures({**PLACE, "kubeconfig": str(tmp_path / "none")})["path"]
    assert told.startswith("controller.infrastructure.options.kubeconfig: ")
    assert "No such file" in told


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"cpuMilli": 0}, "demands[0].cpuMilli", "at least 1"),
        ({"colour": "red"}, "demands[0].colour", "there is no such input"),
    ],
)
def test_what_is_no_demand_is_refused(
    places: Preflights, change: dict[str, Any], key: str, words: str
) -> None:
    inputs = {**PLACE, "kubeconfig": "/none", "demands": [{**PODS, **change}]}
    assert words in places.failures(inputs)[key]


# Machines


class Silent:
    """A machine that answers after so many questions."""

    where = "on cpu-1"

    def __init__(self, after: int) -> None:
        self.left = after

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        self.left -= 1
        if self.left >= 0:
            raise Unreachable("no route to host", where=self.where, remedy="wait")
        return Completed(0, "", "")

    def close(self) -> None:
        return


class Waiting:
    """The kind, with a Kubernetes in memory and a clock of its own."""

    def __init__(self, folder: Path, answers_after: int = 10**6) -> None:
        self.clock = Clock()
        self.fake = FakeKubernetes(self.clock)
        self.said: list[str] = []
        silent = Silent(answers_after)
        self.kind = KubernetesMachineKind(
            Home(folder, folder),
            open=lambda *_: self.fake,
            reach=lambda *_: silent,
            now=self.seconds,
            sleep=self.clock.forward,
        )

    def seconds(self) -> float:
        return self.clock.now.timestamp()

    def create(self, kind: str = "pods", timeout_s: float = 0.5) -> Mapping[str, Any]:
        return self.kind.create(machine(kind), self.task(timeout_s)).outputs

    def delete(self, kind: str = "pods", object: str = "uid") -> None:
        self.kind.delete("physics/cpu-1", machine(kind, object), self.task(60))

    def task(self, timeout_s: float) -> Task:
        deadline = time.monotonic() + timeout_s
        return Task("urn", timeout_s, deadline, self.said.append, self.said.append, self.said.append)


def machine(kind: str, object: str = "uid") -> KubernetesMachineModel:
    return KubernetesMachineModel(
        stack="dev",
        kubeconfig="/kubeconfig",
        namespace="physics",
        kind=kind,
        machine="cpu-1",
        object=object,
        address="10.77.10.1",
        access="dev",
        room_s=20,
    )


LABELS = {"tidepool/stack": "dev", "tidepool/node": "cpu-1"}


def test_a_machine_that_answers_is_reached_by_ssh_at_its_address(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, answers_after=2)
    waiting.fake.add_node("node-1")
    waiting.fake.add_pod("cpu-1", "physics", labels=LABELS)
    assert waiting.create(timeout_s=60) == {
        "connection": {"kind": "ssh", "stack": "dev", "address": "10.77.10.1", "user": "root"}
    }
    assert waiting.said[-1] == "waiting for cpu-1: no route to host"


def test_a_pod_that_nothing_has_room_for_is_want_of_capacity_after_a_while(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.fake.add_pod("cpu-1", "physics", labels=LABELS)
    begun = waiting.seconds()
    with pytest.raises(InsufficientCapacity, match=r"no room for physics/cpu-1: 0/0 nodes are available"):
        waiting.create(timeout_s=60)
    assert waiting.seconds() - begun >= 19
    # Once, however often it is tried: not a line for each second.
    assert waiting.said == ["waiting for cpu-1: 0/0 nodes are available"]


def test_a_pod_that_finds_room_in_time_is_waited_for(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, answers_after=15)
    waiting.fake.add_pod("cpu-1", "physics", labels=LABELS)
    waiting.clock.forward(5)
    waiting.fake.add_node("node-1")
    assert waiting.create(timeout_s=60)


def test_an_image_that_will_never_be_there_is_for_good(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.fake.add_node("node-1")
    waiting.fake.add_pod(
        "cpu-1", "physics", labels=LABELS, waiting="ErrImageNeverPull: not present with Never"
    )
    with pytest.raises(Permanent, match="physics/cpu-1 will not run: ErrImageNeverPull"):
        waiting.create(timeout_s=60)


def test_a_pod_that_is_silent_until_the_end_tells_what_kubernetes_said_last(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.fake.add_node("node-1")
    waiting.fake.add_pod("cpu-1", "physics", labels=LABELS, waiting="ImagePullBackOff: not found")
    with pytest.raises(Unfinished) as raised:
        waiting.create()
    assert raised.value.cause == "boot"
    assert "ImagePullBackOff: not found. See `kubectl --namespace physics describe pods cpu-1`" in str(
        raised.value
    )


def test_a_machine_without_a_host_is_want_of_capacity_and_a_failed_one_for_good(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.fake.add_cluster_machine(
        "cpu-1", "physics", labels=LABELS, phase="Provisioning", why_not="No available host found"
    )
    with pytest.raises(InsufficientCapacity, match="Provisioning: No available host found"):
        waiting.create("machines", timeout_s=60)
    waiting.fake.add_cluster_machine(
        "cpu-1", "physics", labels=LABELS, phase="Failed", why_not="disk is broken"
    )
    with pytest.raises(Permanent, match="Failed: disk is broken"):
        waiting.create("machines", timeout_s=60)


def test_a_machine_that_answers_is_held_until_it_is_taken_away(tmp_path: Path) -> None:
    """Somebody who deletes it meanwhile waits for its jobs; one of an earlier release is held when it is looked at."""
    waiting = Waiting(tmp_path, answers_after=0)
    made = waiting.fake.add_cluster_machine("cpu-1", "physics", labels=LABELS)
    there = machine("machines", made.uid)
    assert waiting.kind.look("physics/cpu-1", there) == {"state": "unprotected"}
    assert waiting.kind.update("physics/cpu-1", there, there, waiting.task(60)) == {}
    assert waiting.kind.look("physics/cpu-1", there) == {}
    waiting.fake.delete_cluster_machine(made)
    assert len(waiting.fake.cluster_machines("physics")) == 1
    waiting.delete("machines", made.uid)
    assert waiting.fake.cluster_machines("physics") == ()
    waiting.delete("machines", made.uid)


def test_a_machine_that_cannot_be_held_is_there_and_that_is_seen(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, answers_after=0)
    made = waiting.fake.add_cluster_machine("cpu-1", "physics", labels=LABELS)
    waiting.fake.denied.add(Right("patch", "machines", "cluster.x-k8s.io", "physics"))
    created = waiting.kind.create(machine("machines", made.uid), waiting.task(60))
    assert created.outputs["state"] == "unprotected"


def test_a_server_that_is_silent_too_is_no_reason_to_give_up(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, answers_after=3)
    waiting.fake.api = "down"
    assert waiting.create(timeout_s=60)
    assert "Kubernetes cannot be asked" in waiting.said[-1]


def test_a_pod_that_goes_has_ended_before_another_can_have_its_name(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.fake.add_node("node-1")
    waiting.fake.add_pod("cpu-1", "physics", labels=LABELS)
    (pod,) = waiting.fake.pods_in("physics")
    begun = waiting.seconds()
    waiting.delete(object=pod.uid)
    assert waiting.fake.pods_in("physics") == ()
    assert waiting.seconds() > begun
    waiting.delete(object=pod.uid)


def test_what_is_there_by_its_name_is_left_where_it_is_another_one(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.fake.add_pod("cpu-1", "physics", labels=LABELS)
    waiting.fake.add_cluster_machine("cpu-1", "physics", labels=LABELS, phase="Running", why_not="")
    waiting.delete(object="another")
    waiting.delete("machines")
    assert len(waiting.fake.pods_in("physics")) == len(waiting.fake.cluster_machines("physics")) == 1


def test_another_object_is_another_machine_at_the_same_address(tmp_path: Path) -> None:
    calls = Calls(tmp_path, "tidepool:kubernetes:Machine")
    inputs = {
        "stack": "dev", "kubeconfig": "/k", "namespace": "physics", "kind": "pods", "machine": "cpu-1", "object": "a",
        "address": "10.77.10.1", "access": "dev", "roomS": 20.0,
    }  # fmt: skip
    assert calls.diff(inputs, {**inputs, "object": "b"}).replaces == ["object"]
    assert calls.diff(inputs, {**inputs, "roomS": 60.0}).replaces in (None, [])
    assert "allowed are 'pods', 'machines'" in calls.failures({**inputs, "kind": "sets"})["kind"]

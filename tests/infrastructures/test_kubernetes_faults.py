"""What goes wrong with machines of a Kubernetes, and what the contract promises in it."""

from __future__ import annotations

import pytest

from tests.infrastructures.conftest import a_request
from tests.infrastructures.kubernetes_world import NAMESPACE, ROOM_S, KubernetesWorld
from tidepool.clients.kubernetes.contract import Unreachable
from tidepool.clients.kubernetes.objects import Right
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.simulation.machines import MachineRequest


def request(number: int = 1) -> MachineRequest:
    return a_request("one", number)


def nodes(world: KubernetesWorld) -> list[str]:
    return [machine.key.node for machine in world.infrastructure.list("one")]


def test_where_no_node_has_room_it_is_told_as_that_in_the_schedulers_words() -> None:
    world = KubernetesWorld(nodes=0)
    before = world.seconds()
    with pytest.raises(InsufficientCapacity, match=r"no room for physics/cpu-1: 0/0 nodes are available"):
        world.infrastructure.create(request())
    # It waits for room for a while, and is there until somebody takes it away.
    assert ROOM_S <= world.seconds() - before < ROOM_S + 2
    assert nodes(world) == ["cpu-1"]
    world.infrastructure.delete(request().key)
    assert nodes(world) == []


def test_half_of_what_is_asked_for_is_granted() -> None:
    world = KubernetesWorld(nodes=1)
    for number in (1, 2):
        world.infrastructure.create(request(number))
    for number in (3, 4):
        with pytest.raises(InsufficientCapacity, match=f"cpu-{number}"):
            world.infrastructure.create(request(number))
    running = [
        each.key.node for each in world.infrastructure.list("one") if world.pod(each.key).phase == "Running"
    ]
    assert running == ["cpu-1", "cpu-2"]


def test_a_quota_that_is_reached_is_no_room_either() -> None:
    world = KubernetesWorld()
    world.infrastructure.quota.append(1)
    world.infrastructure.create(request(1))
    with pytest.raises(InsufficientCapacity, match="exceeded quota"):
        world.infrastructure.create(request(2))
    world.infrastructure.delete(request(1).key)
    world.infrastructure.create(request(2))


def test_a_lost_answer_leaves_one_machine_which_the_next_call_finds() -> None:
    world = KubernetesWorld()
    world.fake.lose_answer()
    with pytest.raises(Transient, match="no answer"):
        world.infrastructure.create(request())
    (made,) = world.infrastructure.list("one")
    assert world.infrastructure.create(request()) == made


def test_a_lost_answer_to_a_delete_leaves_nothing_or_is_asked_again() -> None:
    world = KubernetesWorld()
    world.infrastructure.create(request())
    world.fake.lose_answer()
    with pytest.raises(Transient, match="no answer"):
        world.infrastructure.delete(request().key)
    world.infrastructure.delete(request().key)
    assert nodes(world) == []


def test_a_new_machine_is_not_listed_for_a_while_and_still_made_once() -> None:
    world = KubernetesWorld()
    world.fake.unseen_s = 60
    made = world.infrastructure.create(request())
    assert nodes(world) == []
    assert world.infrastructure.read(request().key) is None
    assert world.infrastructure.create(request()) == made
    world.clock.forward(60)
    assert world.infrastructure.list("one") == (made,)


def test_a_pod_with_finalizers_of_others_is_kept_and_who_keeps_it_is_told() -> None:
    world = KubernetesWorld()
    world.infrastructure.create(request())
    pod = world.pod(request().key)
    world.fake.pin(pod, "backup.site/snapshot")
    with pytest.raises(Permanent, match=r"pod physics/cpu-1 is kept by backup\.site/snapshot"):
        world.infrastructure.delete(request().key)
    assert nodes(world) == ["cpu-1"]
    world.fake.unpin(world.pod(request().key))
    world.infrastructure.delete(request().key)
    assert nodes(world) == []


def test_a_delete_that_is_not_allowed_is_for_good_and_names_the_right() -> None:
    world = KubernetesWorld()
    world.infrastructure.create(request())
    world.fake.denied.add(Right("delete", "pods"))
    with pytest.raises(Permanent, match="may not delete pods"):
        world.infrastructure.delete(request().key)
    assert nodes(world) == ["cpu-1"]


def test_a_pod_whose_kubelet_is_gone_ends_late_and_that_is_told_as_passing() -> None:
    world = KubernetesWorld(nodes=1)
    world.infrastructure.create(request())
    world.fake.stop_kubelet("node-1")
    with pytest.raises(Transient, match="still ending after 45 s"):
        world.infrastructure.delete(request().key)
    assert nodes(world) == ["cpu-1"]


def test_an_api_server_that_does_not_answer_says_nothing_of_machines() -> None:
    world = KubernetesWorld()
    world.infrastructure.create(request())
    world.fake.api = "down"
    for ask in (lambda: world.infrastructure.list("one"), lambda: world.infrastructure.read(request().key)):
        with pytest.raises(Transient, match="connection refused"):
            ask()


def test_a_call_that_fails_on_its_way_does_nothing() -> None:
    world = KubernetesWorld()
    world.fake.fail(Unreachable("no route to host"))
    with pytest.raises(Transient, match="no route"):
        world.infrastructure.create(request())
    assert nodes(world) == []


def test_machines_of_cluster_api_are_found_and_taken_beside_pods() -> None:
    world = KubernetesWorld()
    world.infrastructure.create(request(1))
    key = request(2).key
    labels = {"tidepool/stack": "one", "tidepool/node": "cpu-2", "tidepool/address": "10.77.1.2"}
    world.fake.add_cluster_machine("cpu-2", NAMESPACE, labels=labels, phase="Provisioned")
    world.fake.add_cluster_machine("somebodys", NAMESPACE)
    both = world.with_machines()
    assert [machine.key.node for machine in both.list("one")] == ["cpu-1", "cpu-2"]
    machine = both.read(key)
    assert machine is not None
    assert (machine.state, str(machine.address)) == ("running", "10.77.1.2")
    both.delete(key)
    assert both.read(key) is None
    assert (NAMESPACE, "somebodys") in world.fake.machines


def test_a_machine_of_cluster_api_that_somebody_deletes_is_told_and_taken_by_its_stack() -> None:
    world = KubernetesWorld()
    key = request(2).key
    labels = {"tidepool/stack": "one", "tidepool/node": "cpu-2", "tidepool/address": "10.77.1.2"}
    made = world.fake.add_cluster_machine("cpu-2", NAMESPACE, labels=labels)
    world.fake.hold_cluster_machine(made)
    world.fake.delete_cluster_machine(made)
    machine = world.with_machines().read(key)
    assert machine is not None
    assert (machine.state, machine.is_ending) == ("running", True)
    world.with_machines().delete(key)
    assert world.with_machines().read(key) is None


def test_a_deletion_that_is_cut_off_without_the_hook_is_done_by_the_next() -> None:
    world = KubernetesWorld()
    labels = {"tidepool/stack": "one", "tidepool/node": "cpu-2"}
    made = world.fake.add_cluster_machine("cpu-2", NAMESPACE, labels=labels)
    world.fake.hold_cluster_machine(made)
    world.fake.denied.add(Right("delete", "machines", "cluster.x-k8s.io", NAMESPACE))
    with pytest.raises(Permanent):
        world.with_machines().delete(request(2).key)
    assert not world.fake.machines[NAMESPACE, "cpu-2"].is_held
    world.fake.denied.clear()
    world.with_machines().delete(request(2).key)
    assert world.fake.machines == {}


def test_without_cluster_api_machines_cannot_be_listed_and_none_is_taken_for_gone() -> None:
    world = KubernetesWorld()
    world.fake.has_cluster_api = False
    with pytest.raises(Permanent, match="install Cluster API"):
        world.with_machines().list("one")

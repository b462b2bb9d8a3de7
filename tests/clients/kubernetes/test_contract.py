"""What every client of Kubernetes promises: in memory, and of a real API server."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from tests.clients.kubernetes.world import World
from tidepool.clients.kubernetes.contract import Conflict, EvictionRefused, Invalid, NotFound
from tidepool.clients.kubernetes.objects import POOL_LABEL, Node, Pod


def node_of(world: World, name: str) -> Node:
    seen = world.client.node(name)
    assert seen
    return seen


def names(pods: tuple[Pod, ...]) -> set[str]:
    return {pod.name for pod in pods}


def test_its_version_is_told(world: World) -> None:
    assert world.client.version() == "v1.36.3"


def test_nodes_are_seen_whole_and_by_pool(world: World) -> None:
    world.add_node("shared-1", {POOL_LABEL: "shared"})
    world.add_node("other-1")
    assert {node.name for node in world.client.nodes()} == {"shared-1", "other-1"}
    assert [node.name for node in world.client.nodes("shared")] == ["shared-1"]
    seen = node_of(world, "shared-1")
    assert seen.takes_pods
    assert (seen.allocatable.cpu_milli, seen.allocatable.memory_bytes) == (2000, 2**30)
    assert seen.labels[POOL_LABEL] == "shared"
    assert seen.uid
    assert world.client.node("shared-2") is None


def test_what_nobody_made_is_known_to_be_none(world: World) -> None:
    assert world.client.nodes() == ()
    assert world.client.pods() == ()
    assert world.client.budgets() == ()
    assert world.client.signing_requests() == ()
    assert world.client.lease("shared-1") is None


def test_a_cordon_is_ours_and_can_be_undone(world: World) -> None:
    world.add_node("shared-1")
    world.client.cordon("shared-1", "it leaves for Slurm")
    seen = node_of(world, "shared-1")
    assert (seen.unschedulable, seen.reason, seen.takes_pods) == (True, "it leaves for Slurm", False)
    world.client.cordon("shared-1", "once more")
    assert node_of(world, "shared-1").reason == "once more"
    world.client.uncordon("shared-1")
    assert (node_of(world, "shared-1").unschedulable, node_of(world, "shared-1").reason) == (False, "")
    world.until(lambda: node_of(world, "shared-1").takes_pods)


def test_a_persons_cordon_stays_a_persons(world: World) -> None:
    world.add_node("shared-1")
    world.cordon_by_hand("shared-1")
    world.client.cordon("shared-1", "it leaves")
    assert (node_of(world, "shared-1").unschedulable, node_of(world, "shared-1").reason) == (True, "")


def test_a_node_that_is_not_there_is_not_cordoned_labelled_or_tainted(world: World) -> None:
    with pytest.raises(NotFound):
        world.client.cordon("shared-9", "it leaves")
    with pytest.raises(NotFound):
        world.client.uncordon("shared-9")
    with pytest.raises(NotFound):
        world.client.label("shared-9", {"a": "b"})


def test_labels_are_set_and_taken_away_others_stay(world: World) -> None:
    world.add_node("shared-1", {"stays": "yes", "goes": "soon"})
    world.client.label("shared-1", {"goes": None, "comes": "now"})
    labels = node_of(world, "shared-1").labels
    assert (labels["stays"], labels["comes"], "goes" in labels) == ("yes", "now", False)


def test_pods_are_seen_with_what_they_ask_for(world: World) -> None:
    world.add_node("shared-1")
    pod = world.add_pod("web", cpu_milli=250, labels={"app": "web"}, runs=True)
    assert (pod.node, pod.phase, pod.requests.cpu_milli) == ("shared-1", "Running", 250)
    assert (pod.key, pod.labels["app"], pod.owner) == ("default/web", "web", "")
    assert names(world.client.pods("shared-1")) == {"web"}
    assert world.client.pods("shared-2") == ()


def test_pods_without_room_wait_and_say_why(world: World) -> None:
    world.add_node("shared-1")
    world.add_pod("large", cpu_milli=9000)
    world.add_pod("elsewhere", node_selector={"where": "else"})
    world.until(lambda: all(pod.unschedulable for pod in world.client.pods()))
    waiting = {pod.name: pod for pod in world.client.pods()}
    assert set(waiting) == {"large", "elsewhere"}
    assert "nodes are available" in waiting["large"].unschedulable
    assert waiting["elsewhere"].node_selector == {"where": "else"}


def test_a_cordoned_node_gets_no_pods_until_it_is_uncordoned(world: World) -> None:
    world.add_node("shared-1")
    world.client.cordon("shared-1", "it leaves")

    def waiting() -> set[str]:
        return {pod.name for pod in world.client.pods() if pod.unschedulable}

    def one_waits() -> bool:
        # The scheduler hears of nodes by itself, so a pod right after the cordon may still go there.
        pod = world.add_pod(f"pod-{next(numbers)}")
        world.until(lambda: pod.name in waiting() | names(world.client.pods("shared-1")))
        return bool(waiting())

    numbers = itertools.count()
    world.until(one_waits)
    waited = waiting()
    world.client.uncordon("shared-1")
    world.until(lambda: waited <= names(world.client.pods("shared-1")))


def test_who_owns_a_pod_and_whether_it_counts(world: World) -> None:
    world.add_node("shared-1")
    pods = {
        pod.name: pod
        for pod in (
            world.add_pod("web-0", owner="ReplicaSet/web", node="shared-1"),
            world.add_pod("log-0", owner="DaemonSet/log", node="shared-1"),
            world.add_pod("alone", node="shared-1"),
        )
    }
    assert {name: pod.owner for name, pod in pods.items()} == {
        "web-0": "ReplicaSet/web",
        "log-0": "DaemonSet/log",
        "alone": "",
    }
    assert {name for name, pod in pods.items() if pod.is_daemon} == {"log-0"}


def test_an_eviction_takes_a_pod_away(world: World) -> None:
    world.add_node("shared-1")
    pod = world.add_pod("web", runs=True)
    world.client.evict(pod)
    world.until(lambda: world.client.pods() == ())
    world.client.evict(pod)


def test_an_eviction_is_under_its_budget(world: World) -> None:
    world.add_node("shared-1")
    world.add_budget("web", {"app": "web"}, min_available=1)
    pod = world.add_pod("web-0", labels={"app": "web"}, runs=True)
    world.until(lambda: [budget.name for budget in world.client.budgets()] == ["web"])
    with pytest.raises(EvictionRefused) as refused:
        world.client.evict(pod)
    assert refused.value.budget == "web"
    world.add_pod("web-1", labels={"app": "web"}, runs=True)
    world.until(lambda: [budget.allowed for budget in world.client.budgets()] == [1])
    world.client.evict(pod)
    world.until(lambda: names(world.client.pods()) == {"web-1"})


def test_a_pod_under_two_budgets_is_not_evicted(world: World) -> None:
    world.add_node("shared-1")
    world.add_budget("web", {"app": "web"}, min_available=0)
    world.add_budget("all", {"app": "web"}, min_available=0)
    pod = world.add_pod("web-0", labels={"app": "web"}, runs=True)
    with pytest.raises(EvictionRefused):
        world.client.evict(pod)
    assert names(world.client.pods()) == {"web-0"}


def test_a_deletion_asks_no_budget(world: World) -> None:
    world.add_node("shared-1")
    world.add_budget("web", {"app": "web"}, min_available=1)
    pod = world.add_pod("web-0", labels={"app": "web"}, runs=True)
    world.client.delete_pod(pod, 1)
    world.until(lambda: world.client.pods() == ())
    world.client.delete_pod(pod, 1)


def test_another_pod_of_its_name_is_left_alone(world: World) -> None:
    world.add_node("shared-1")
    first = world.add_pod("web", runs=True)
    world.client.delete_pod(first, 0)
    world.until(lambda: world.client.pods() == ())
    second = world.add_pod("web", runs=True)
    assert second.uid != first.uid
    world.client.evict(first)
    world.client.delete_pod(first, 0)
    assert [pod.deleting_until for pod in world.client.pods()] == [None]


def test_a_pod_of_a_kubelet_that_is_gone_stays_until_nobody_waits_for_it(world: World) -> None:
    world.add_node("shared-1")
    pod = world.add_pod("web", grace_s=20, runs=True)
    world.cut_off("shared-1")
    world.client.evict(pod)
    (going,) = world.client.pods()
    assert going.deleting_until
    assert timedelta(0) < going.deleting_until - world.now() <= timedelta(seconds=21)
    world.client.delete_pod(going, 0)
    assert world.client.pods() == ()


def test_its_owner_is_told(world: World) -> None:
    world.add_node("shared-1")
    pod = world.add_pod("web", runs=True)
    world.client.tell(pod, "MachineConverted", "shared-1 goes to Slurm")
    assert world.told() == [("default/web", "MachineConverted", "shared-1 goes to Slurm")]


def test_a_node_goes_with_its_lease_and_only_if_it_is_the_one(world: World) -> None:
    world.add_node("shared-1")
    seen = node_of(world, "shared-1")
    lease = world.client.lease("shared-1")
    assert lease
    assert lease.holder == "shared-1"
    assert lease.renewed
    with pytest.raises(Conflict):
        world.client.delete_node("shared-1", "another")
    assert world.client.node("shared-1")
    assert world.client.lease("shared-1")
    world.cut_off("shared-1")
    world.client.delete_node("shared-1", seen.uid)
    assert world.client.node("shared-1") is None
    assert world.client.lease("shared-1") is None
    world.client.delete_node("shared-1", seen.uid)


def test_a_kubelet_is_admitted_by_its_own_token_only(world: World) -> None:
    until = world.now() + timedelta(minutes=5)
    mine, other = world.client.create_token("shared-1", until), world.client.create_token("shared-2", until)
    assert mine.secret not in repr(mine)
    world.ask_for_certificate("shared-1", mine)
    (asked,) = world.client.signing_requests()
    assert (asked.node, asked.requestor, asked.is_approved) == (
        "shared-1",
        f"system:bootstrap:{mine.id}",
        False,
    )
    assert "system:bootstrappers:tidepool" in asked.groups
    with pytest.raises(Invalid, match="shared-1, not for shared-2"):
        world.client.approve(asked, "shared-2", mine.id)
    with pytest.raises(Invalid, match="not with the token"):
        world.client.approve(asked, "shared-1", other.id)
    assert [one.is_approved for one in world.client.signing_requests()] == [False]
    world.client.approve(asked, "shared-1", mine.id)
    world.client.approve(asked, "shared-1", mine.id)
    assert [one.is_approved for one in world.client.signing_requests()] == [True]
    world.client.delete_signing_request(asked.name)
    world.client.delete_signing_request(asked.name)
    assert world.client.signing_requests() == ()
    with pytest.raises(NotFound):
        world.client.approve(asked, "shared-1", mine.id)
    for token in (mine, other):
        world.client.delete_token(token.id)
        world.client.delete_token(token.id)


def test_a_token_takes_the_place_of_an_earlier_one_of_its_id(world: World) -> None:
    until = world.now() + timedelta(minutes=5)
    first = world.client.create_token("shared-1", until, "abc123")
    second = world.client.create_token("shared-1", until, "abc123")
    assert (first.id, second.id) == ("abc123", "abc123")
    assert first.secret != second.secret
    world.client.delete_token("abc123")


def test_who_may_everything_lacks_nothing(world: World) -> None:
    assert world.client.missing_rights() == ()


def test_pods_of_one_namespace_are_seen_by_their_labels(world: World) -> None:
    world.add_node("shared-1")
    world.add_pod("cpu-1", labels={"tidepool/stack": "dev", "tidepool/node": "cpu-1"}, runs=True)
    world.add_pod("web", labels={"app": "web"})
    assert names(world.client.pods_in("default")) == {"cpu-1", "web"}
    (found,) = world.client.pods_in("default", {"tidepool/stack": "dev", "tidepool/node": "cpu-1"})
    assert (found.name, found.finalizers, found.waiting) == ("cpu-1", (), "")
    assert world.client.pods_in("default", {"tidepool/stack": "another"}) == ()
    assert world.client.pods_in("nowhere") == ()


def test_a_namespace_is_seen_and_one_that_is_not_there_is_none(world: World) -> None:
    seen = world.client.namespace("default")
    assert seen is not None
    assert (seen.name, seen.is_ending) == ("default", False)
    assert world.client.namespace("nowhere") is None

"""Kubernetes' side of a conversion: on the cluster in memory, and on a real API server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.clients.kubernetes.real import RealKubernetes, shared
from tests.clients.kubernetes.world import FakeWorld, RealWorld, World
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import NEEDED, Forbidden, TimedOut
from tidepool.clients.kubernetes.control_plane import ControlPlane
from tidepool.clients.kubernetes.exchange import dial_here
from tidepool.clients.kubernetes.first_objects import TIDEPOOL_USER, first_objects
from tidepool.clients.kubernetes.objects import POOL_LABEL, STACK_LABEL, BootstrapToken, Right, Taint
from tidepool.conversion.kubernetes_side import KubernetesSide
from tidepool.conversion.ports import ConversionError, Refused, Side

NODE = "shared-1"
OURS = {STACK_LABEL: "dev", POOL_LABEL: "shared"}


@pytest.fixture(scope="session")
def real() -> RealKubernetes:
    return shared()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        yield FakeWorld()
        return
    found = RealWorld(request.getfixturevalue("real"))
    yield found
    found.clear()


class Pool:
    """The side of one machine, and the tokens that its kubelet was given."""

    def __init__(self, world: World, stack: str = "dev") -> None:
        self.tokens: list[BootstrapToken] = []
        self.side = KubernetesSide(
            world.client, NODE, "shared", stack, self.tokens.append, {"disk": "fast"}, world.now
        )
        self.port: Side = self.side


@pytest.fixture
def pool(world: World) -> Pool:
    return Pool(world)


def serve(world: World) -> None:
    world.add_node(NODE, {**OURS, "disk": "fast"})


def pods_there(world: World) -> set[str]:
    return {pod.name for pod in world.client.pods(NODE)}


def test_a_machine_that_it_does_not_know_is_absent(pool: Pool) -> None:
    assert pool.side.see() == "absent"
    assert pool.side.work() == ()
    pool.side.hold("it leaves")
    pool.side.release()
    pool.side.ask_to_leave(pool.side.work())
    assert pool.side.force_out(pool.side.work(), "now") == ()
    pool.side.remove_node()
    assert pool.side.see() == "absent"


def test_a_hold_is_a_cordon_and_can_be_taken_back(world: World, pool: Pool) -> None:
    serve(world)
    assert pool.side.see() == "serving"
    pool.side.hold("it leaves")
    assert (pool.side.see(), pool.side.held_by()) == ("held", "")
    pool.side.hold("it leaves")
    pool.side.release()
    world.until(lambda: pool.side.see() == "serving")


def test_a_persons_cordon_is_never_undone(world: World, pool: Pool) -> None:
    serve(world)
    world.cordon_by_hand(NODE)
    pool.side.hold("it leaves")
    assert pool.side.see() == "held"
    assert "kubectl uncordon" in pool.side.held_by()
    pool.side.release()
    pool.side.admit()
    assert pool.side.see() == "held"


def test_a_persons_taint_keeps_nobody_from_serving(world: World, pool: Pool) -> None:
    world.add_node(NODE, {**OURS, "disk": "fast"}, (Taint("dedicated", "NoSchedule", "ml"),))
    assert pool.side.see() == "serving"


def test_pods_that_would_be_lost_are_work_and_others_are_not(world: World, pool: Pool) -> None:
    serve(world)
    world.add_pod("alone", runs=True)
    world.add_pod("web-0", owner="ReplicaSet/web", runs=True)
    world.add_pod("log-0", owner="DaemonSet/log", node=NODE, runs=True)
    assert [(work.kind, work.name, work.owner, work.fate) for work in pool.side.work()] == [
        ("pod", "default/alone", "", "runs"),
        ("pod", "default/web-0", "ReplicaSet/web", "runs"),
    ]
    pool.side.ask_to_leave(pool.side.work())
    world.until(lambda: pool.side.work() == ())
    assert pods_there(world) == {"log-0"}
    told = world.told()
    assert [(pod, "nobody makes it again" in message) for pod, _, message in told] == [
        ("default/alone", True)
    ]


def test_what_came_after_the_look_is_not_touched_before_it_is_written_down(world: World, pool: Pool) -> None:
    serve(world)
    world.add_pod("seen", runs=True)
    seen = pool.side.work()
    pool.side.hold("it leaves")
    # The scheduler had chosen the machine before it was held.
    world.add_pod("late", node=NODE, runs=True)
    pool.side.ask_to_leave(seen)
    world.until(lambda: pods_there(world) == {"late"})
    pool.side.force_out(seen, "it goes")
    assert pods_there(world) == {"late"}
    assert [pod for pod, _, _ in world.told()] == ["default/seen"]
    assert [work.name for work in pool.side.work()] == ["default/late"]


def test_a_budget_holds_a_pod_and_is_named(world: World, pool: Pool) -> None:
    serve(world)
    world.add_budget("web", {"app": "web"}, min_available=1)
    world.add_pod("web-0", labels={"app": "web"}, runs=True)
    pool.side.hold("it leaves")
    pool.side.ask_to_leave(pool.side.work())
    pool.side.ask_to_leave(pool.side.work())
    (work,) = pool.side.work()
    assert work.text == "budget web allows no eviction"
    assert world.told() == []  # it is still there
    done = pool.side.force_out(pool.side.work(), "the machine is needed")
    assert [(work.name, work.fate) for work in done] == [("default/web-0", "killed")]
    assert [(pod, "the machine is needed" in message) for pod, _, message in world.told()] == [
        ("default/web-0", True)
    ]
    world.until(lambda: pool.side.work() == ())


def test_a_pod_that_is_on_its_way_is_asked_once_and_says_until_when(world: World, pool: Pool) -> None:
    serve(world)
    world.add_pod("slow", grace_s=25, owner="ReplicaSet/web", runs=True)
    world.cut_off(NODE)
    pool.side.ask_to_leave(pool.side.work())
    (first,) = pool.side.work()
    assert first.text.startswith("ends by 20")
    pool.side.ask_to_leave(pool.side.work())
    assert pool.side.work() == (first,)


def test_what_its_kubelet_does_not_end_is_killed_without_it_and_told_once(world: World, pool: Pool) -> None:
    serve(world)
    world.add_pod("stuck", grace_s=3600, runs=True)
    world.cut_off(NODE)
    pool.side.ask_to_leave(pool.side.work())

    def forced() -> bool:
        pool.side.force_out(pool.side.work(), "it goes")
        return not pool.side.work()

    world.until(forced)
    assert pods_there(world) == set()
    assert len([told for told in world.told() if told[0] == "default/stuck"]) == 1


def test_a_kubelet_joins_with_its_token_and_leaves_nothing_behind(world: World, pool: Pool) -> None:
    pool.side.prepare()
    (token,) = pool.tokens
    assert token.node == NODE
    assert timedelta(minutes=1) < token.until - world.now() < timedelta(hours=1)
    pool.side.admit()
    world.ask_for_certificate(NODE, token)
    # Whoever goes on after a kill knows the token too.
    Pool(world).side.admit()
    assert [request.is_approved for request in world.client.signing_requests()] == [True]
    pool.side.admit()
    world.add_node(NODE)  # without labels
    assert pool.side.see() == "joining"
    pool.side.admit()
    assert pool.side.see() == "serving"
    node = world.client.node(NODE)
    assert node
    assert {key: node.labels[key] for key in (*OURS, "disk")} == {**OURS, "disk": "fast"}
    world.add_pod("late", node=NODE, runs=True)
    world.add_pod("log-0", owner="DaemonSet/log", node=NODE, runs=True)
    world.cut_off(NODE)
    pool.side.remove_node()
    pool.side.remove_node()
    assert pool.side.see() == "absent"
    assert world.client.lease(NODE) is None
    assert world.client.signing_requests() == ()
    assert pods_there(world) == set()
    assert [pod for pod, *_ in world.told()] == ["default/late"]


def test_a_node_that_was_left_behind_is_taken_away_before_it_comes_again(world: World, pool: Pool) -> None:
    serve(world)
    first = world.client.node(NODE)
    assert first
    pool.side.hold("it left, and Kubernetes could not be told")
    world.cut_off(NODE)
    pool.side.prepare()
    assert pool.side.see() == "absent"
    assert len(pool.tokens) == 1


def test_one_that_has_begun_is_not_taken_away_by_who_goes_on(world: World, pool: Pool) -> None:
    serve(world)
    pool.side.prepare()
    assert pool.side.see() == "serving"


def test_a_hold_of_ours_that_was_left_ends_when_it_serves_again(world: World, pool: Pool) -> None:
    serve(world)
    pool.side.hold("it leaves")
    pool.side.admit()
    world.until(lambda: pool.side.see() == "serving")


@pytest.mark.parametrize("labels", [{}, {STACK_LABEL: "other", POOL_LABEL: "shared"}])
def test_a_node_of_somebody_elses_is_never_touched(world: World, pool: Pool, labels: dict[str, str]) -> None:
    world.add_node(NODE, labels)
    world.add_pod("theirs", runs=True)
    before = world.client.node(NODE)
    side = pool.side
    for call in (
        side.see,
        side.held_by,
        lambda: side.hold("it leaves"),
        side.release,
        lambda: side.ask_to_leave(()),
        lambda: side.force_out((), "now"),
        side.prepare,
        side.admit,
        side.remove_node,
    ):
        with pytest.raises(Refused, match=r"not touched"):
            call()
    after = world.client.node(NODE)
    assert before
    assert after
    assert (after.uid, after.labels, after.unschedulable) == (before.uid, before.labels, False)
    assert [pod.deleting_until for pod in world.client.pods(NODE)] == [None]
    assert pool.tokens == []
    assert world.told() == []


def test_a_request_of_another_node_with_our_token_is_not_approved(world: World, pool: Pool) -> None:
    pool.side.prepare()
    world.ask_for_certificate("shared-2", pool.tokens[0])
    with pytest.raises(Refused, match="for the node shared-2"):
        pool.side.admit()
    assert [request.is_approved for request in world.client.signing_requests()] == [False]


def test_a_request_in_its_name_with_another_token_is_not_approved(world: World, pool: Pool) -> None:
    other = world.client.create_token("shared-2", world.now() + timedelta(minutes=5))
    pool.side.prepare()
    world.ask_for_certificate(NODE, other)
    pool.side.admit()
    assert [request.is_approved for request in world.client.signing_requests()] == [False]
    pool.side.remove_node()
    assert world.client.signing_requests() == ()
    world.client.delete_token(other.id)


def test_a_kubelet_is_let_in_whatever_is_left_of_an_earlier_one(world: World, pool: Pool) -> None:
    serve(world)  # it is Ready as long as nobody has missed it
    world.cut_off(NODE)
    pool.side.prepare()
    world.ask_for_certificate(NODE, pool.tokens[0])
    pool.side.admit()
    assert [request.is_approved for request in world.client.signing_requests()] == [True]


@pytest.mark.slow
def test_a_namespace_that_goes_holds_nobody_up(real: RealKubernetes) -> None:
    """Nobody can be told there, and nothing be evicted: its pods go with it, or by force."""
    world = RealWorld(real)
    pool = Pool(world)
    serve(world)
    world.add_namespace("going")
    world.add_pod("web", namespace="going", grace_s=600, runs=True)
    world.cut_off(NODE)
    world.end_namespace("going")
    pool.side.ask_to_leave(pool.side.work())

    def forced() -> bool:
        pool.side.force_out(pool.side.work(), "it goes")
        return not pool.side.work()

    world.until(forced)
    world.clear()


@pytest.mark.slow
def test_a_finalizer_of_somebodys_holds_nobody_up(real: RealKubernetes) -> None:
    world = RealWorld(real)
    pool = Pool(world)
    serve(world)
    world.add_pod("kept", finalizers=["example.com/kept"], runs=True)
    world.cut_off(NODE)

    def forced() -> bool:
        pool.side.force_out(pool.side.work(), "it goes")
        return not pool.side.work()

    world.until(forced)
    assert pods_there(world) == {"kept"}
    pool.side.remove_node()
    assert pool.side.see() == "absent"
    world.unpin("kept")
    assert pods_there(world) == set()
    world.clear()


def test_what_cannot_be_asked_is_an_error_and_moves_nothing() -> None:
    world = FakeWorld()
    pool = Pool(world)
    serve(world)
    world.add_pod("web", runs=True)
    world.client.api = "down"
    side = pool.side
    for call in (
        side.see,
        side.work,
        lambda: side.hold("it leaves"),
        side.release,
        lambda: side.ask_to_leave(()),
        lambda: side.force_out((), "now"),
        side.prepare,
        side.admit,
        side.remove_node,
    ):
        with pytest.raises(ConversionError, match="does not answer"):
            call()
    world.client.api = "up"
    assert side.see() == "serving"
    assert [pod.deleting_until for pod in world.client.pods()] == [None]


def all_of_it(world: World, pool: Pool) -> None:
    """The machine joins, serves, is held and released, loses its pods by force and by eviction, and leaves."""
    side = pool.side
    side.prepare()
    world.ask_for_certificate(NODE, pool.tokens[0])
    side.admit()
    world.add_node(NODE)
    side.admit()
    assert side.see() == "serving"
    world.add_pod("alone", runs=True)
    world.add_pod("web-0", owner="ReplicaSet/web", runs=True)
    side.hold("it leaves")
    side.release()
    side.hold("it leaves")
    assert len(side.work()) == 2
    side.ask_to_leave(side.work())
    side.force_out(side.work(), "it goes")
    world.until(lambda: not side.work())
    world.cut_off(NODE)
    side.remove_node()
    assert side.see() == "absent"


@pytest.mark.slow
def test_the_rights_that_are_asked_for_are_all_that_it_needs(real: RealKubernetes) -> None:
    world = RealWorld(real)
    with ControlPlane(real.admin_kubeconfig, dial_here) as plane:
        for each in first_objects():
            plane.apply(each)
    with connect(real.kubeconfig(TIDEPOOL_USER)) as client:
        world.until(lambda: client.missing_rights() == ())
        pool = Pool(world)
        pool.side.client = client
        all_of_it(world, pool)
    world.clear()


#: To tell a pod that was changed from another one of its name, where the API speaks of a conflict; and to look at a lease.
RARE = {"get pods", "get leases.coordination.k8s.io in kube-node-lease"}


@pytest.mark.parametrize("right", [right for right in NEEDED if str(right) not in RARE], ids=str)
def test_each_right_that_is_asked_for_is_needed(right: Right) -> None:
    world = FakeWorld()
    all_of_it(world, Pool(world))
    world.client.denied = {right}
    assert world.client.missing_rights() == (right,)
    if str(right) == "list nodes":  # the scaler's
        with pytest.raises(Forbidden):
            world.client.nodes()
        return
    # Who makes the pods of the test looks at them by the same client.
    with pytest.raises((ConversionError, Forbidden), match=re.escape(str(right))):
        all_of_it(world, Pool(world))


def _forgotten(fake: FakeKubernetes) -> bool:
    return (
        fake.node(NODE) is None
        and fake.lease(NODE) is None
        and not fake.signing_requests()
        and not fake.pods(NODE)
    )


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("at", range(1, 10))
def test_forgetting_that_is_cut_off_anywhere_is_done_the_next_time(at: int, lost: bool) -> None:
    """The ``at``-th call of it is not made, or is made and its answer is lost."""
    world = FakeWorld()
    pool = Pool(world)
    fake = world.client
    serve(world)
    world.add_pod("late", runs=True)
    world.add_pod("log", owner="DaemonSet/log", node=NODE, runs=True)
    pool.side.prepare()
    world.ask_for_certificate(NODE, pool.tokens[0])
    fake.stop_kubelet(NODE)
    calls = 0

    def cut(when: str) -> None:
        nonlocal calls
        calls += when == "asked"
        if calls == at and lost == (when == "changed"):
            raise TimedOut("no answer")

    fake.at = cut
    try:
        pool.side.remove_node()
    except ConversionError:
        fake.at = lambda _: None
        Pool(world).side.remove_node()
    else:
        assert lost, "it has fewer calls than that: nothing was cut off"
    fake.at = lambda _: None
    assert _forgotten(fake)
    assert {pod for pod, *_ in world.told()} == {"default/late"}

"""The cluster in memory: what comes to pass in it by itself, by an injected clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.contract import EvictionRefused, KubernetesError, TimedOut, Unreachable
from tidepool.clients.kubernetes.objects import POOL_LABEL


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 22, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fake(clock: Clock) -> Iterator[FakeKubernetes]:
    with FakeKubernetes(clock) as running:
        yield running


def test_a_kubelet_joins_by_its_token_once_it_is_approved(fake: FakeKubernetes, clock: Clock) -> None:
    token = fake.create_token("shared-1", clock() + timedelta(minutes=5))
    fake.start_kubelet("shared-1", token.text, labels={POOL_LABEL: "shared"})
    clock.forward(30)
    assert fake.node("shared-1") is None
    (asked,) = fake.signing_requests()
    assert (asked.node, asked.requestor) == ("shared-1", f"system:bootstrap:{token.id}")
    fake.approve(asked, "shared-1", token.id)
    clock.forward(0.6)
    seen = fake.node("shared-1")
    assert seen
    assert not seen.takes_pods
    clock.forward(0.5)
    assert [node.takes_pods for node in fake.nodes("shared")] == [True]


def test_a_token_that_has_ended_lets_nobody_in(fake: FakeKubernetes, clock: Clock) -> None:
    token = fake.create_token("shared-1", clock() + timedelta(seconds=5))
    clock.forward(6)
    fake.start_kubelet("shared-1", token.text)
    clock.forward(60)
    assert fake.signing_requests() == ()


def test_pods_are_scheduled_where_there_is_room_and_end(fake: FakeKubernetes, clock: Clock) -> None:
    fake.add_node("shared-1", cpus=1)
    first = fake.add_pod("first", cpu_milli=800, run_s=10)
    second = fake.add_pod("second", cpu_milli=800)
    assert first.node == "shared-1"
    assert [(pod.name, pod.node) for pod in fake.pods() if pod.unschedulable] == [("second", "")]
    clock.forward(1)
    assert {pod.name: pod.phase for pod in fake.pods("shared-1")} == {"first": "Running"}
    clock.forward(11)
    assert {pod.name: pod.phase for pod in fake.pods()} == {"first": "Succeeded", "second": "Running"}
    assert fake.containers("shared-1") == {second.uid}


def test_a_budget_holds_evictions_until_another_pod_runs(fake: FakeKubernetes, clock: Clock) -> None:
    fake.add_node("shared-1")
    fake.add_budget("web", {"app": "web"}, min_available=1)
    pod = fake.add_pod("web-0", labels={"app": "web"}, owner="ReplicaSet/web", is_remade=True)
    clock.forward(1)
    assert [budget.allowed for budget in fake.budgets()] == [0]
    with pytest.raises(EvictionRefused) as refused:
        fake.evict(pod)
    assert refused.value.budget == "web"
    fake.add_pod("web-1", labels={"app": "web"})
    clock.forward(1)
    fake.evict(pod)
    clock.forward(2)
    assert {pod.name for pod in fake.pods()} != {"web-0", "web-1"}
    assert len(fake.pods()) == 2


def test_with_grace_0_a_pod_leaves_the_api_before_its_containers_stop(
    fake: FakeKubernetes, clock: Clock
) -> None:
    fake.add_node("shared-1")
    pod = fake.add_pod("slow", stop_s=5)
    clock.forward(1)
    fake.delete_pod(pod, 0)
    assert fake.pods() == ()
    assert fake.containers("shared-1") == {pod.uid}
    clock.forward(6)
    assert fake.containers("shared-1") == set()


def test_a_node_whose_kubelet_is_gone_is_not_ready_and_its_pods_stay(
    fake: FakeKubernetes, clock: Clock
) -> None:
    fake.add_node("shared-1")
    pod = fake.add_pod("stays")
    clock.forward(1)
    fake.stop_kubelet("shared-1")
    fake.evict(pod)
    clock.forward(13)
    seen = fake.node("shared-1")
    assert seen
    assert not seen.ready
    assert [pod.deleting_until is not None for pod in fake.pods()] == [True]
    fake.delete_node("shared-1", seen.uid)
    assert fake.lease("shared-1") is None
    clock.forward(41)
    assert fake.pods() == ()


def test_a_node_that_is_deleted_while_its_kubelet_runs_registers_again(
    fake: FakeKubernetes, clock: Clock
) -> None:
    first = fake.add_node("shared-1")
    fake.delete_node("shared-1")
    assert fake.node("shared-1") is None
    clock.forward(1)
    again = fake.node("shared-1")
    assert again
    assert again.uid != first.uid


@pytest.mark.parametrize(("api", "error"), [("down", Unreachable), ("hanging", TimedOut)])
def test_an_api_that_does_not_answer_is_an_error(
    fake: FakeKubernetes, api: str, error: type[KubernetesError]
) -> None:
    fake.api = api  # type: ignore[assignment]
    with pytest.raises(error):
        fake.nodes()


def test_a_lost_answer_leaves_the_change_made(fake: FakeKubernetes) -> None:
    fake.add_node("shared-1")
    fake.lose_answer()
    with pytest.raises(TimedOut):
        fake.cordon("shared-1", "it leaves")
    assert [node.reason for node in fake.nodes()] == ["it leaves"]


def test_a_thousand_nodes_are_no_burden(fake: FakeKubernetes, clock: Clock) -> None:
    for number in range(1000):
        fake.add_node(f"n-{number}", labels={POOL_LABEL: "shared"})
    for number in range(1000):
        fake.add_pod(f"p-{number}", cpu_milli=2000)
    assert len(fake.nodes("shared")) == 1000
    assert all(pod.node for pod in fake.pods())

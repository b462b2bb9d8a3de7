"""Kubernetes is looked at beside everything else, and what is not known is not taken for nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.contract import Forbidden, Unreachable
from tidepool.scaling.observe.kubernetes_watch import AtOnce, KubernetesWatch

ACCESS: Mapping[str, Any] = {"access": "admin"}


class Scene:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.kubernetes = FakeKubernetes(lambda: datetime(2026, 11, 22, tzinfo=UTC))
        self.opened: list[Mapping[str, Any]] = []
        self.watch = KubernetesWatch(self._open, AtOnce(), lambda: self.now_s)

    def _open(self, access: Mapping[str, Any]) -> FakeKubernetes:
        self.opened.append(access)
        return self.kubernetes

    def latest(self, *, is_active: bool = True) -> Any:
        return self.watch.latest(ACCESS, ["shared-1"], is_active=is_active)


def test_nodes_and_pods_that_wait_or_are_on_machines_of_pools_are_seen() -> None:
    scene = Scene()
    for name in ("shared-1", "somebodys"):
        scene.kubernetes.add_node(name)
        scene.kubernetes.add_pod(f"on-{name}", node=name)
    scene.kubernetes.add_pod("large", cpu_milli=9000)
    scene.kubernetes.add_pod("over", node="shared-1", phase="Succeeded")
    latest, why = scene.latest()
    assert not why
    assert {node.name for node in latest.nodes} == {"shared-1", "somebodys"}
    assert {pod.name for pod in latest.pods} == {"on-shared-1", "large"}
    assert scene.opened == [ACCESS]


@pytest.mark.parametrize(
    "error", [Unreachable("connection refused"), Forbidden("may not list pods", "list pods")]
)
def test_what_fails_is_unknown_and_told_until_it_is_seen_again(error: Exception) -> None:
    scene = Scene()
    scene.latest()
    scene.now_s += 10
    scene.kubernetes.fail(error)  # type: ignore[arg-type]
    assert scene.latest() == (None, str(error))
    assert scene.watch.failure == str(error)
    scene.now_s += 0.9
    assert scene.latest() == (None, str(error))
    scene.now_s += 0.2
    latest, why = scene.latest()
    assert latest is not None
    assert (why, scene.watch.failure) == ("", "")


def test_it_is_looked_at_more_often_while_something_goes_on_and_at_once_where_something_was_changed() -> None:
    scene = Scene()

    def looks(every_s: float, *, is_active: bool) -> int:
        looked = 0
        for number in range(40):
            scene.kubernetes.add_pod(f"{is_active}-{number}", cpu_milli=9000)
            before, _ = scene.latest(is_active=is_active)
            looked += any(pod.name == f"{is_active}-{number}" for pod in before.pods)
            scene.now_s += every_s
        return looked

    assert looks(0.1, is_active=True) == pytest.approx(13, abs=2)
    assert looks(0.1, is_active=False) == pytest.approx(4, abs=1)
    scene.kubernetes.add_pod("new", cpu_milli=9000)
    scene.watch.expect()
    latest, _ = scene.latest(is_active=False)
    assert any(pod.name == "new" for pod in latest.pods)


def test_a_look_that_hangs_holds_nothing_up_and_what_is_old_is_not_believed() -> None:
    scene = Scene()
    scene.kubernetes.add_node("shared-1")
    goes_on = threading.Event()
    woken: list[int] = []

    class Hanging(FakeKubernetes):
        def nodes(self, pool: str | None = None) -> Any:
            goes_on.wait(30)
            return scene.kubernetes.nodes(pool)

    clients: list[Callable[[], FakeKubernetes]] = [lambda: scene.kubernetes]
    with ThreadPoolExecutor(1) as beside:
        watch = KubernetesWatch(lambda _: clients[-1](), beside, lambda: scene.now_s, lambda: woken.append(1))
        assert (
            watch.latest(ACCESS, [], is_active=True) == (None, "Kubernetes has not been looked at yet")
            or woken
        )
        _wait_for(lambda: watch.latest(ACCESS, [], is_active=True)[0] is not None)
        assert woken
        watch.close()
        clients.append(Hanging)
        scene.now_s += 20
        latest, _ = watch.latest(ACCESS, [], is_active=True)
        assert latest is not None
        scene.now_s += 31
        assert watch.latest(ACCESS, [], is_active=True) == (None, "Kubernetes has not answered for 30 s")
        goes_on.set()


def test_a_look_that_failed_late_makes_later_ones_no_rarer() -> None:
    scene = Scene()
    scene.latest()
    scene.now_s += 10
    late = Unreachable("it hangs")

    class Late(FakeKubernetes):
        def nodes(self, pool: str | None = None) -> Any:
            scene.now_s += 15
            raise late

    scene.watch.close()
    real, scene.kubernetes = scene.kubernetes, Late()
    assert scene.latest()[0] is None
    scene.watch.close()
    scene.kubernetes = real
    scene.now_s += 1
    assert scene.latest()[0] is not None
    for _ in range(60):
        scene.now_s += 1
        assert scene.latest(is_active=False)[0] is not None
        assert scene.watch.lag_s < 2


def test_another_access_is_another_kubernetes() -> None:
    scene = Scene()
    scene.latest()
    scene.watch.latest({"access": "other"}, [], is_active=True)
    assert scene.opened == [ACCESS, {"access": "other"}]


def test_a_fault_is_raised_and_not_taken_for_an_answer() -> None:
    failing: Future[int] = AtOnce().submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failing.result()


def _wait_for(holds: Callable[[], bool]) -> None:
    again = threading.Event()
    for _ in range(2000):
        if holds():
            return
        again.wait(0.005)
    raise AssertionError("it was never so")

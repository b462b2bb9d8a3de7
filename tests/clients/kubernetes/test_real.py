"""A real API server that goes away, hangs, comes back, allows less; and lists that come in many pages."""

from __future__ import annotations

import time

import pytest

from tests.clients.kubernetes.real import RealKubernetes, kubeconfig
from tests.clients.kubernetes.world import RealWorld, limited
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import NEEDED, Forbidden, TimedOut, Unauthorized, Unreachable
from tidepool.clients.kubernetes.objects import Right

pytestmark = pytest.mark.slow


def test_a_list_of_many_pages_is_whole(real: RealKubernetes) -> None:
    world = RealWorld(real, page=3)
    for number in range(10):
        world.add_node(f"n-{number}")
    assert {node.name for node in world.client.nodes()} == {f"n-{number}" for number in range(10)}
    world.clear()


def test_each_missing_right_is_named(real: RealKubernetes) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["signers"],
            "resourceNames": ["kubernetes.io/kube-apiserver-client-kubelet"],
            "verbs": ["approve"],
        },
    ]
    with limited(real, "someone", rules) as client:
        missing = client.missing_rights()
        assert Right("delete", "nodes") in missing
        assert not {right for right in missing if right.resource in ("pods", "signers")}
        assert set(missing) < set(NEEDED)
        assert client.nodes() == ()
        with pytest.raises(Forbidden, match=r"needs the right: list poddisruptionbudgets\.policy"):
            client.budgets()


def test_who_is_not_known_is_told_so(real: RealKubernetes) -> None:
    text = kubeconfig(real.port, real.authority.pair.certificate, token="abcdef.0123456789abcdef")
    with connect(text) as client, pytest.raises(Unauthorized):
        client.nodes()


def test_one_that_hangs_is_given_up_and_believed_again_when_it_goes_on(real: RealKubernetes) -> None:
    with connect(real.admin_kubeconfig, timeout_s=2) as client:
        client.nodes()
        real.stop("kube-apiserver")
        try:
            began = time.monotonic()
            with pytest.raises(TimedOut):
                client.nodes()
            with pytest.raises(TimedOut):  # on a new connection
                client.nodes()
            assert time.monotonic() - began < 15
        finally:
            real.go_on("kube-apiserver")
    with connect(real.admin_kubeconfig) as client:
        assert client.nodes() == ()


def test_one_that_is_killed_is_unreachable_until_it_is_back(here: RealWorld) -> None:
    here.add_node("shared-1")
    here.real.kill("kube-apiserver")
    with pytest.raises(Unreachable):
        here.client.nodes()
    with pytest.raises(Unreachable):
        here.client.cordon("shared-1", "it leaves")
    here.real.start_apiserver()
    assert [node.name for node in here.client.nodes()] == ["shared-1"]


def test_without_etcd_nothing_is_an_answer(here: RealWorld) -> None:
    here.add_node("shared-1")
    here.real.stop("etcd")
    try:
        with connect(here.real.admin_kubeconfig, timeout_s=1.5) as client:
            with pytest.raises(Unreachable):
                client.signing_requests()
            with pytest.raises(TimedOut):
                client.label("shared-1", {"a": "b"})
    finally:
        here.real.go_on("etcd")
    here.until(lambda: len(here.client.nodes()) == 1)

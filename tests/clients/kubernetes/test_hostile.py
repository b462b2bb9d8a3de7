"""Answers that are none: each is an error of its own, never an empty or a shorter list."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clients.kubernetes.pki import Authority
from tests.clients.kubernetes.real import HOST, kubeconfig
from tests.clients.kubernetes.scripted import Say, Scripted, answer, hang_up, said, status
from tests.properties import runs
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import (
    Conflict,
    EvictionRefused,
    Forbidden,
    Invalid,
    KubernetesError,
    Malformed,
    NotFound,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from tidepool.clients.kubernetes.objects import Pod, Resources, Right
from tidepool.clients.kubernetes.requests import answer_of

Server = Callable[[Say], Scripted]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Server]:
    servers: list[Scripted] = []

    def start(say: Say) -> Scripted:
        servers.append(Scripted(tmp_path, say))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def a_node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"of-{name}", "creationTimestamp": "2026-11-22T12:00:00Z"},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def hang(until: threading.Event) -> None:
    until.wait(20)


def a_page(*names: str, more: str = "") -> dict[str, Any]:
    meta = {"resourceVersion": "1", **({"continue": more} if more else {})}
    return {
        "kind": "NodeList",
        "apiVersion": "v1",
        "metadata": meta,
        "items": [a_node(name) for name in names],
    }


def a_pod() -> Pod:
    return Pod(
        "default", "web", "u", "Running", "n", {}, Resources(), {}, (), (), "", 0, datetime(2026, 11, 22, tzinfo=UTC),
        None, "",
    )  # fmt: skip


NO_LISTS: list[tuple[str, bytes, type[KubernetesError]]] = [
    ("a page of a proxy", answer(200, b"<html>Sign in</html>"), Malformed),
    ("a page with an error", answer(502, b"<html>Bad Gateway</html>"), Unreachable),
    ("no bytes", answer(200, b""), Malformed),
    ("JSON that is cut off", answer(200, b'{"kind": "NodeList", "items": ['), Malformed),
    ("an empty object", answer(200, {}), Malformed),
    ("no items", answer(200, {"kind": "NodeList", "metadata": {}}), Malformed),
    ("items that are none", answer(200, {"kind": "NodeList", "metadata": {}, "items": None}), Malformed),
    ("no metadata, so no way to know of more", answer(200, {"kind": "NodeList", "items": []}), Malformed),
    ("another list", answer(200, {"kind": "PodList", "metadata": {}, "items": []}), Malformed),
    ("a list", answer(200, b"[]"), Malformed),
    ("null", answer(200, b"null"), Malformed),
    ("an item that is none", answer(200, {"kind": "NodeList", "metadata": {}, "items": [7]}), Malformed),
    ("an item without a name", answer(200, {"kind": "NodeList", "metadata": {}, "items": [{}]}), Malformed),
    ("a failure that says 200", answer(200, status(500, "InternalError", "etcd")), Unreachable),
    ("an error of its own", answer(500, status(500, "InternalError", "etcdserver: timed out")), Unreachable),
    ("too much to do", answer(429, status(429, "TooManyRequests", "slow down")), Unreachable),
    ("going down", answer(503, status(503, "ServiceUnavailable", "shutting down")), Unreachable),
    ("another path's words", answer(404, b"404 page not found\n"), Malformed),
    ("nobody knows who asks", answer(401, status(401, "Unauthorized")), Unauthorized),
    ("a proxy that does not know who asks", answer(401, b"<html>"), Unauthorized),
    ("no right", answer(403, status(403, "Forbidden", "nodes is forbidden")), Forbidden),
    ("a way elsewhere", answer(302, b""), Malformed),
    ("fewer bytes than were said", answer(200, a_page("n"), length=10_000), Unreachable),
    ("no HTTP", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Malformed),
    ("half a line", b"HTTP/1.1 2", Malformed),
    ("nothing", b"", Unreachable),
]


@pytest.mark.parametrize(
    ("bytes_", "error"), [case[1:] for case in NO_LISTS], ids=[case[0] for case in NO_LISTS]
)
def test_what_is_no_list_is_no_list(serve: Server, bytes_: bytes, error: type[KubernetesError]) -> None:
    def say(_line: str, _body: bytes, sock: ssl.SSLSocket) -> None:
        sock.sendall(bytes_)
        hang_up(sock)

    with serve(say).client() as client, pytest.raises(KubernetesError) as caught:
        client.nodes()
    assert type(caught.value) is error


@pytest.mark.parametrize("of", range(0, 360, 17))
def test_an_answer_that_breaks_off_is_never_a_shorter_one(serve: Server, of: int) -> None:
    whole = answer(200, a_page("a", "b"))
    assert len(whole) > 360

    def say(_line: str, _body: bytes, sock: ssl.SSLSocket) -> None:
        sock.sendall(whole[:of])
        hang_up(sock)

    with serve(say).client() as client, pytest.raises((Unreachable, Malformed)):
        client.nodes()


def test_pages_come_to_one_list(serve: Server) -> None:
    server = serve(said(answer(200, a_page("a", "b", more="x=/&")), answer(200, a_page("c"))))
    with server.client() as client:
        assert [node.name for node in client.nodes()] == ["a", "b", "c"]
    assert "limit=500" in server.lines[0]
    assert server.lines[1].endswith("continue=x%3D%2F%26 HTTP/1.1")
    assert server.connections == 1


def test_a_page_that_fails_leaves_no_half_list(serve: Server) -> None:
    server = serve(said(answer(200, a_page("a", more="next")), answer(500, status(500, "InternalError"))))
    with server.client() as client, pytest.raises(Unreachable):
        client.nodes()


def test_a_list_whose_pages_expired_is_asked_for_in_one_piece(serve: Server) -> None:
    server = serve(
        said(
            answer(200, a_page("gone", more="next")),
            answer(410, status(410, "Expired", "the provided continue parameter is too old")),
            answer(200, a_page("a", "b")),
        )
    )
    with server.client() as client:
        assert [node.name for node in client.nodes()] == ["a", "b"]
    assert "limit" not in server.lines[2]


def test_a_list_that_expires_again_and_again_is_an_error(serve: Server) -> None:
    with (
        serve(said(answer(410, status(410, "Expired", "too old")))).client() as client,
        pytest.raises(KubernetesError),
    ):
        client.nodes()


def test_not_found_is_believed_of_the_api_server_alone(serve: Server) -> None:
    with serve(said(answer(404, status(404, "NotFound", 'nodes "n" not found')))).client() as client:
        assert client.node("n") is None
    with serve(said(answer(404, b"<html>no such page</html>"))).client() as client, pytest.raises(Malformed):
        client.node("n")
    with serve(said(answer(404, b"404 page not found\n"))).client() as client, pytest.raises(Malformed):
        client.delete_node("n")


def test_another_kind_than_was_asked_for_is_refused(serve: Server) -> None:
    with (
        serve(said(answer(200, {"kind": "Pod", **a_node("n")}))).client() as client,
        pytest.raises(Malformed),
    ):
        client.node("n")


def test_the_missing_right_is_named(serve: Server) -> None:
    words = 'nodes is forbidden: User "x" cannot list resource "nodes"'
    with serve(said(answer(403, status(403, "Forbidden", words)))).client() as client:
        with pytest.raises(Forbidden, match="needs the right: list nodes") as caught:
            client.nodes()
        assert caught.value.right == "list nodes"
        with pytest.raises(Forbidden, match="create pods/eviction"):
            client.evict(a_pod())


def test_a_credential_that_cannot_be_reviewed_has_no_rights(serve: Server) -> None:
    """It is an error: neither that all are there, nor that none is."""
    with (
        serve(said(answer(201, {"kind": "SelfSubjectAccessReview", "status": {}}))).client() as client,
        pytest.raises(Malformed),
    ):
        client.missing_rights()


def test_refusals_of_an_eviction_name_the_budget(serve: Server) -> None:
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    refusal = status(429, "TooManyRequests", "Cannot evict pod as it would violate it", [cause])
    with serve(said(answer(429, refusal))).client() as client, pytest.raises(EvictionRefused) as caught:
        client.evict(a_pod())
    assert caught.value.budget == "web"


@pytest.mark.parametrize("code", [500, 503, 504])
def test_an_error_after_a_change_leaves_open_whether_it_was_made(serve: Server, code: int) -> None:
    with (
        serve(said(answer(code, status(code, "InternalError", "request timed out")))).client() as client,
        pytest.raises(TimedOut, match="look again"),
    ):
        client.uncordon("n")


@pytest.mark.parametrize(
    ("code", "error"), [(409, Conflict), (422, Invalid), (400, Invalid), (404, NotFound)]
)
def test_refusals_of_a_change_are_told_apart(serve: Server, code: int, error: type[KubernetesError]) -> None:
    with (
        serve(said(answer(code, status(code, "Reason", "words of the server")))).client() as client,
        pytest.raises(error, match="words of the server"),
    ):
        client.uncordon("n")


def test_a_lost_answer_to_a_change_is_not_sent_again(serve: Server) -> None:
    server = serve(lambda _line, _body, sock: hang_up(sock))
    with server.client() as client, pytest.raises(TimedOut, match="look again"):
        client.uncordon("n")
    assert len(server.lines) == 1


def test_a_kept_connection_that_was_closed_meanwhile_costs_nothing(serve: Server) -> None:
    server = serve(said(answer(200, a_page("a"))))
    with server.client() as client:
        for _ in range(3):
            assert len(client.nodes()) == 1
            server.hang_up()
        client.label("a", {"b": "c"})  # nor a change: it is seen before anything is sent
    assert server.connections == 4


def test_a_connection_that_the_server_ends_is_not_used_again(serve: Server) -> None:
    server = serve(said(answer(200, a_page("a"), end=True)))
    with server.client() as client:
        assert len(client.nodes()) == len(client.nodes()) == 1
    assert server.connections == 2


def test_a_server_that_hangs_is_given_up(serve: Server) -> None:
    release = threading.Event()
    with serve(lambda *_: hang(release)).client(timeout_s=0.5) as client:
        began = time.monotonic()
        with pytest.raises(TimedOut, match=r"within 0\.5 s"):
            client.nodes()
        assert time.monotonic() - began < 3
    release.set()


def test_an_answer_that_drips_is_given_up(serve: Server) -> None:
    over = threading.Event()

    def drip(_line: str, _body: bytes, sock: ssl.SSLSocket) -> None:
        for byte in answer(200, a_page("a", "b")):
            sock.sendall(bytes([byte]))
            if over.wait(0.05):
                return

    with serve(drip).client(timeout_s=0.6) as client:
        began = time.monotonic()
        with pytest.raises(TimedOut):
            client.nodes()
        assert time.monotonic() - began < 3
    over.set()


def test_a_port_where_nobody_answers_the_handshake_is_given_up() -> None:
    with socket.create_server((HOST, 0)) as silent:
        authority = Authority.made()
        text = kubeconfig(silent.getsockname()[1], authority.pair.certificate, token="t")
        with connect(text, timeout_s=0.5) as client, pytest.raises(TimedOut):
            client.nodes()


def test_nobody_there_is_said(serve: Server) -> None:
    server = serve(said(b""))
    server.close()
    with (
        server.client() as client,
        pytest.raises(Unreachable, match=f"the API server at {HOST}:{server.port}"),
    ):
        client.nodes()


def test_another_server_is_not_believed(tmp_path: Path) -> None:
    """One whose certificate somebody else signed, and one whose certificate is of another address."""
    stranger = Scripted(tmp_path, said(answer(200, a_page("a"))))
    mine = Authority.made()
    with (
        connect(kubeconfig(stranger.port, mine.pair.certificate, token="t")) as client,
        pytest.raises(Unreachable, match="not the one that the kubeconfig means"),
    ):
        client.nodes()
    assert stranger.lines == []  # it was not told the token
    stranger.close()
    elsewhere = Scripted(tmp_path, said(answer(200, a_page("a"))), address="10.9.9.9")
    with (
        elsewhere.client() as client,
        pytest.raises(Unreachable, match="not the one that the kubeconfig means"),
    ):
        client.nodes()
    elsewhere.close()


def test_no_tls_is_no_api_server() -> None:
    with socket.create_server((HOST, 0)) as listener:

        def plain() -> None:
            with contextlib.suppress(OSError):
                sock, _ = listener.accept()
                sock.sendall(answer(200, a_page("a")))
                sock.close()

        thread = threading.Thread(target=plain, daemon=True)
        thread.start()
        text = kubeconfig(listener.getsockname()[1], Authority.made().pair.certificate, token="t")
        with connect(text) as client, pytest.raises(Unreachable, match="TLS"):
            client.nodes()
        thread.join()


def test_calls_of_many_threads_do_not_meet(serve: Server) -> None:
    def say(line: str, _body: bytes, sock: ssl.SSLSocket) -> None:
        name = line.split()[1].rpartition("/")[2]
        sock.sendall(answer(200, {"kind": "Node", **a_node(name)}))

    seen: list[bool] = []
    with serve(say).client() as client:

        def look(number: int) -> None:
            for _ in range(20):
                node = client.node(f"n-{number}")
                seen.append(node is not None and node.name == f"n-{number}")

        threads = [threading.Thread(target=look, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 120
    assert all(seen)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "status", "code", "message", "reason", "details", "causes", "items"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@runs(300)
@given(st.integers(100, 599), JSON | st.binary(max_size=30), st.booleans())
def test_any_answer_is_an_object_or_an_error(code: int, body: object, changes: bool) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        found = answer_of(code, content, "the API server", Right("list", "nodes"), changes=changes)
    except KubernetesError:
        return
    assert 200 <= code < 300
    assert isinstance(found, dict)
    assert not (found.get("kind") == "Status" and found.get("status") != "Success")

"""What is told of an Ironic that cannot be asked: who may use it, where it is, and what it says in place of an answer."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.clients.kubernetes.pki import Authority
from tests.infrastructures.ironic.server import CLOUD, PASSWORD, write_clouds
from tidepool.cluster.failures import InfrastructureError, Permanent, Transient
from tidepool.infrastructures.ironic.api import (
    Conflict,
    IronicLocation,
    Locked,
    NotAllowed,
    NotThere,
    Silent,
    _refused,
    _said,
)


@pytest.fixture
def clouds(tmp_path: Path) -> Path:
    return tmp_path / "clouds.yaml"


@contextmanager
def answering(status: int, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of what answers everything so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def failure(clouds: Path, url: str) -> InfrastructureError:
    write_clouds(clouds, url)
    with pytest.raises(InfrastructureError) as raised:
        IronicLocation(CLOUD, str(clouds)).open().hosts()
    assert PASSWORD not in str(raised.value)
    return raised.value


def test_a_file_of_clouds_is_there_for_its_owner_alone_and_has_the_cloud(clouds: Path) -> None:
    location = IronicLocation(CLOUD, str(clouds))
    with pytest.raises(
        Permanent, match=r"cannot be read \(No such file or directory\): write a clouds.yaml there"
    ):
        location.open()
    write_clouds(clouds, "http://127.0.0.1:1")
    with pytest.raises(Permanent, match=r"clouds.yaml: .*another.*; write the cloud another"):
        replace(location, cloud="another").open()
    secrets = clouds.with_name("secure.yaml")
    secrets.write_text("clouds: {}")
    secrets.chmod(0o644)
    with pytest.raises(Permanent, match=r"others may read .*secure.yaml"):
        location.open()
    clouds.chmod(0o640)
    with pytest.raises(Permanent, match=r"others may read .* chmod 600"):
        location.open()


def test_an_environment_says_nothing_of_it(clouds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLOUD", "another")
    monkeypatch.setenv("OS_ENDPOINT", "http://127.0.0.2:2")
    assert "127.0.0.1" in str(failure(clouds, "http://127.0.0.1:1"))


def test_where_nothing_answers_it_is_not_known_what_is_there(clouds: Path) -> None:
    error = failure(clouds, "http://127.0.0.1:1")
    assert isinstance(error, Silent)
    assert "nothing answers at the cloud site" in str(error)


def test_a_server_that_is_busy_may_answer_in_a_while_and_one_that_is_none_is_told(clouds: Path) -> None:
    with answering(503) as url:
        assert isinstance(failure(clouds, url), Transient)
    with answering(204) as url:
        error = failure(clouds, url)
    assert isinstance(error, Permanent)
    assert "has no bare metal service" in str(error)


def test_a_certificate_that_nobody_signs_is_told_with_where_to_name_who_does(
    clouds: Path, tmp_path: Path
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    pair = Authority.made().sign("ironic", addresses=("127.0.0.1",))
    (tmp_path / "pair.pem").write_text(pair.key + pair.certificate)
    context.load_cert_chain(tmp_path / "pair.pem")
    with answering(200, context) as url:
        error = failure(clouds, url)
    assert isinstance(error, Permanent)
    assert "is not trusted" in str(error)
    assert "in cacert" in str(error)


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, "", Permanent),
        (403, "Node 1 is protected and cannot be undeployed", NotAllowed),
        (404, "Node 1 could not be found", NotThere),
        (406, "version not supported", Permanent),
        (409, "Node 1 is locked by host conductor, please retry", Locked),
        (409, "Node 1 is associated with instance 2", Conflict),
        (400, 'The requested action "deleted" can not be performed on node "1"', Conflict),
        (400, "Missing the following parameters in driver_info", Permanent),
        (503, "lack of free conductor workers", Transient),
        (429, "", Transient),
    ],
)
def test_each_answer_is_of_its_kind(status: int, text: str, kind: type[InfrastructureError]) -> None:
    assert type(_refused(IronicLocation("site", "/x"), status, text)) is kind


@pytest.mark.parametrize(
    "text",
    [
        '{"error_message": {"faultstring": "Node 1 is  locked", "faultcode": "Client"}}',
        '{"error_message": "{\\"faultstring\\": \\"Node 1 is locked\\"}"}',
        '{"error": {"message": "Node 1 is locked", "code": 401}}',
        "Node 1\nis locked",
    ],
)
def test_what_is_said_of_a_failure_is_found_in_each_form(text: str) -> None:
    assert _said(text) == "Node 1 is locked"
    assert _said("") == "without a word"

"""Calls to S3 over lines that fail, by servers that say what a test has them say: when a call is begun again, and when given up."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT
from tidepool.engine.state import postgres, s3_calls
from tidepool.engine.state.backend import DiyBackend
from tidepool.engine.state.files import StorageError
from tidepool.engine.state.s3 import S3Bucket

pytest.importorskip("botocore")

KEY = Path("x")
ENV = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "sesame", "AWS_CONFIG_FILE": "/dev/null"}
WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfour"
CUT = WELL[:-2]
BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
DENIED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Server:
    """Answers each request with the next of ``answers``, the last of them again and again; None is no answer, for ever."""

    def __init__(self, *answers: bytes | None, and_hangs: bool = False) -> None:
        self.requests = 0
        self._answers, self._and_hangs = answers, and_hangs
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def bucket(self) -> S3Bucket:
        return S3Bucket(
            f"s3://state?region=x&endpoint=http://127.0.0.1:{self.port}&s3ForcePathStyle=true", ENV
        )

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                client.recv(1 << 16)
                answer = self._answers[min(self.requests, len(self._answers) - 1)]
                self.requests += 1
                if answer is not None:
                    client.sendall(answer)
                if answer is None or self._and_hangs:
                    self._open.append(client)
                else:
                    client.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for each in (self._listening, *self._open):
            each.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def start(*answers: bytes | None, **more: Any) -> Server:
        made.append(Server(*answers, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """All times at a hundredth of theirs and less, so that what is counted is seen at once."""
    monkeypatch.setattr(s3_calls, "_TIMEOUT_S", 0.1)
    monkeypatch.setattr(s3_calls, "_TRIED_FOR_S", 0.3)
    monkeypatch.setattr(s3_calls, "_FIRST_PAUSE_S", 0.01)


@pytest.mark.parametrize(
    ("answer", "and_hangs"), [(None, False), (HEADERS, True)], ids=["at once", "in the middle"]
)
@pytest.mark.usefixtures("impatient")
def test_a_server_that_hangs_is_given_up_after_the_time_of_tries_and_one_answer_s(
    serve: Callable[..., Server], answer: bytes | None, and_hangs: bool
) -> None:
    server = serve(answer, and_hangs=and_hangs)
    with pytest.raises(StorageError, match=r"x cannot be read: .*; see whether the server runs"):
        server.bucket().get(KEY)
    # Each try waits for 0.1 s, and none begins after 0.3 s.
    assert 1 <= server.requests <= 3


@pytest.mark.usefixtures("impatient")
def test_a_command_that_begins_at_a_server_that_hangs_ends_with_its_first_call(
    serve: Callable[..., Server],
) -> None:
    server = serve(None)
    with pytest.raises(StorageError, match="see whether the server runs"):
        DiyBackend(server.bucket())
    assert 1 <= server.requests <= 3


def test_the_page_says_how_long_a_call_is_tried() -> None:
    page = (ROOT / "docs" / "administrators.md").read_text()
    said = re.search(r"for 8 to (\d+) s: of S3 it is begun for (\d+) s, and each try waits for (\d+) s", page)
    assert said is not None
    whole, *of_s3 = map(int, said.groups())
    assert of_s3 == [s3_calls._TRIED_FOR_S, s3_calls._TIMEOUT_S]
    said = re.search(r"of PostgreSQL it is begun for (\d+) s, .* (\d+) s to connect and (\d+) s for", page)
    assert said is not None
    of_postgres = [*map(int, said.groups())]
    assert of_postgres == [
        postgres._TRIED_FOR_S,
        postgres._CONNECT_TIMEOUT_S,
        postgres._ANSWER_TIMEOUT_S,
    ]
    assert whole == max(sum(of_s3), sum(of_postgres))


def test_after_a_call_that_was_given_up_others_have_their_own_time_until_one_is_answered(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The one is over after the first try, the other only with an answer.
    monkeypatch.setattr(s3_calls, "_TRIED_FOR_S", 0.0)
    monkeypatch.setattr(s3_calls, "_TRIED_AFTER_THAT_FOR_S", 60.0)
    monkeypatch.setattr(s3_calls, "_FIRST_PAUSE_S", 0.01)
    server = serve(BUSY, BUSY, BUSY, WELL, BUSY)
    bucket = server.bucket()
    with pytest.raises(StorageError, match="503"):
        bucket.get(KEY)
    assert server.requests == 1
    assert bucket.get(KEY) == b"four"
    assert server.requests == 4
    with pytest.raises(StorageError, match="503"):
        bucket.get(KEY)
    assert server.requests == 5


@pytest.mark.parametrize("first", [BUSY, CUT, b""], ids=["busy", "cut off", "hung up"])
def test_what_may_pass_is_begun_again(serve: Callable[..., Server], first: bytes) -> None:
    server = serve(first, WELL)
    assert server.bucket().get(KEY) == b"four"
    assert server.requests == 2


def test_what_will_not_pass_is_told_at_once(serve: Callable[..., Server]) -> None:
    server = serve(DENIED)
    with pytest.raises(StorageError, match="x cannot be written: "):
        server.bucket().put(KEY, b"x")
    assert server.requests == 1

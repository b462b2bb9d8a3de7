"""An API server that says what a test has it say: over TLS, byte by byte where that is the point."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.kubernetes.pki import Authority
from tests.clients.kubernetes.real import HOST, kubeconfig
from tidepool.clients.kubernetes.client import KubernetesApi, connect

#: What is done with one request: its first line and its body come in, the connection is to be answered on.
Say = Callable[[str, bytes, ssl.SSLSocket], None]


def answer(
    status: int, body: bytes | Mapping[str, Any], *, length: int | None = None, end: bool = False
) -> bytes:
    """An answer of HTTP; ``length`` lies about its own, ``end`` says that the connection does."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [
        f"HTTP/1.1 {status} Said",
        "Content-Type: application/json",
        f"Content-Length: {len(content) if length is None else length}",
        *(["Connection: close"] if end else []),
    ]
    return "\r\n".join([*head, "", ""]).encode() + content


def hang_up(sock: socket.socket) -> None:
    """End a connection, whoever still reads from it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def said(*answers: bytes) -> Say:
    """Gives these, one for each request; the last one again and again."""
    left = list(answers)

    def say(_line: str, _body: bytes, sock: ssl.SSLSocket) -> None:
        sock.sendall(left.pop(0) if len(left) > 1 else left[0])

    return say


def status(
    code: int, reason: str, message: str = "", causes: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """A Status, as the API server answers errors with."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {"causes": list(causes)},
        "code": code,
    }


class Scripted:
    """Listens on the loopback. ``lines`` are the first lines of all requests that came, ``headers`` theirs, ``connections`` how many did."""

    def __init__(
        self, folder: Path, say: Say, *, address: str = HOST, authority: Authority | None = None
    ) -> None:
        self.say = say
        self.lines: list[str] = []
        self.headers: list[str] = []
        self.connections = 0
        self.authority = authority or Authority.made()
        pair = self.authority.sign("scripted", addresses=(address,))
        path = folder / "scripted.pem"
        path.write_text(pair.certificate + pair.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(path)
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def client(self, timeout_s: float = 5.0, *, token: str = "t") -> KubernetesApi:
        return connect(self.kubeconfig(token), timeout_s=timeout_s)

    def kubeconfig(self, token: str = "t") -> str:
        return kubeconfig(self.port, self.authority.pair.certificate, token=token)

    def close(self) -> None:
        hang_up(self._listener)
        self.hang_up()

    def hang_up(self) -> None:
        """End all connections that are open."""
        for sock in self._open:
            hang_up(sock)
        self._open.clear()

    def _listen(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(plain)
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with (
            contextlib.suppress(OSError, ValueError),
            self._context.wrap_socket(plain, server_side=True) as sock,
        ):
            self._open.append(sock)
            with sock.makefile("rb") as reader:
                while line := reader.readline():
                    length = 0
                    while (header := reader.readline().strip()) != b"":
                        self.headers.append(header.decode())
                        name, _, value = header.partition(b":")
                        if name.lower() == b"content-length":
                            length = int(value)
                    body = reader.read(length)
                    self.lines.append(line.decode().strip())
                    self.say(line.decode().strip(), body, sock)

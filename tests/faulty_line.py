"""A line to a server that fails as lines and busy servers do."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

#: ``busy``: the server says 503. ``cut``: hung up before the server hears of it. ``lost``: the server did it, and its answer is lost.
#: ``half``: hung up in the middle of what is sent. ``slow``: it takes its time.
Fault = Literal["busy", "cut", "lost", "half", "slow"]

_BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_BUFFER = 1 << 16
_SLOW_S = 0.005
_HALF = 1 << 20


class FaultyLine:
    """Listens on ``port`` of this machine; each of ``faults`` is one request's, in their order, None is none; then there are none."""

    def __init__(
        self, server: socket._Address, family: socket.AddressFamily, begins: tuple[bytes, ...]
    ) -> None:
        """``begins``: how requests begin that a fault may meet."""
        self.faults: deque[Fault | None] = deque()
        self._server, self._family, self._begins = server, family, begins
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(self._family)
        with client, server, suppress(OSError):
            server.connect(self._server)
            is_lost = threading.Event()
            threading.Thread(target=_answer, args=[server, client, is_lost], daemon=True).start()
            is_slow, left = False, -1
            while asked := client.recv(_BUFFER):
                fault = self.faults.popleft() if self.faults and asked.startswith(self._begins) else None
                if fault == "busy":
                    client.sendall(_BUSY)
                if fault in ("busy", "cut"):
                    break
                if fault == "lost":
                    is_lost.set()
                if fault == "half":
                    left = _HALF
                if is_slow := is_slow or fault == "slow":
                    time.sleep(_SLOW_S)
                server.sendall(asked)
                if left >= 0 and (left := left - len(asked)) <= 0:
                    break
        for each in (client, server):
            each.close()


def _answer(server: socket.socket, client: socket.socket, is_lost: threading.Event) -> None:
    with suppress(OSError):
        while answer := server.recv(_BUFFER):
            if is_lost.is_set():
                break
            client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)


@contextmanager
def faulty_line(
    server: socket._Address, family: socket.AddressFamily, begins: tuple[bytes, ...]
) -> Iterator[FaultyLine]:
    """One that is closed at the end."""
    line = FaultyLine(server, family, begins)
    try:
        yield line
    finally:
        line.close()

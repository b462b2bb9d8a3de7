"""Signs of life of the daemon: the pages ``/healthz`` and ``/metrics``, and systemd's sd_notify(3)."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def notify(environment: Mapping[str, str], *lines: str) -> None:
    """Send ``READY=1``, ``STATUS=...``, ``STOPPING=1`` or ``WATCHDOG=1`` to NOTIFY_SOCKET, where there is one."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        # Nobody who listens is no reason to end.
        sender.settimeout(1)
        try:
            sender.sendto("\n".join(lines).encode(), address)
        except OSError:
            return


Health = Callable[[], tuple[bool, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of health: whether all is well, with a document that says how; and the metrics as text."""

    health: Health
    metrics: Callable[[], bytes]


class HealthServer:
    """Serves `Pages` on ``host`` and ``port`` (0: any that is free), from a thread of its own."""

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        """Begin to serve.

        Raises:
            OSError: the address is not to be had.
        """
        self._server = _Server((host, port), pages)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.5,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], pages: Pages) -> None:
        self.pages = pages
        super().__init__(address, _Request)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    #: Whoever connects and says nothing is not waited for.
    timeout = 5

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                is_well, document = self.server.pages.health()
                self._answer(
                    200 if is_well else 503, "application/json", json.dumps(document).encode() + b"\n"
                )
            case "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", self.server.pages.metrics())
            case _:
                self._answer(404, "text/plain; charset=utf-8", b"there are /healthz and /metrics\n")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who asks is no news."""

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

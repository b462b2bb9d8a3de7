"""Signs of life of the daemon: the pages ``/healthz`` and ``/metrics``, and systemd's sd_notify(3)."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
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


class HealthServer(ThreadingHTTPServer):
    """Serves pages on ``host`` and ``port`` (0: any that is free), from a thread of its own.

    ``health`` gives whether all is well, with a document that says how; ``metrics`` the metrics as text.
    """

    def __init__(
        self,
        host: str,
        port: int,
        health: Callable[[], tuple[bool, Mapping[str, Any]]],
        metrics: Callable[[], bytes],
    ) -> None:
        """Begin to serve.

        Raises:
            OSError: the address is not to be had.
        """
        super().__init__((host, port), _Request)
        self.health, self.metrics = health, metrics
        self._thread = threading.Thread(target=self.serve_forever, args=(0.5,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Request(BaseHTTPRequestHandler):
    server: HealthServer
    #: Whoever connects and says nothing is not waited for.
    timeout = 5

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                is_well, document = self.server.health()
                self._answer(
                    200 if is_well else 503, "application/json", json.dumps(document).encode() + b"\n"
                )
            case "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", self.server.metrics())
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

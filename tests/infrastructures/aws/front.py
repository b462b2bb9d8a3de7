"""AWS as moto plays it, behind a front that has the faults of the real one: both in this process, reached over HTTP."""

from __future__ import annotations

import functools
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

import boto3
import botocore.config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import Client

from tests.infrastructures.aws.http import Refused, xml
from tests.infrastructures.aws.root_volumes import RootVolumes
from tests.infrastructures.aws.specs import REGION

_ERROR: Final = "<Response><Errors><Error><Code>{}</Code><Message>{}</Message></Error></Errors><RequestID>1</RequestID></Response>"
_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Host",
    "X-Amz-Date",
    "X-Amz-Target",
    "X-Amz-Security-Token",
)


class Front:
    """What may be set at any time: ``stock``, how many more instances there are; ``unseen_s``, how long one is not listed.

    ``denied`` are calls that whoever asks has no right to, ``roots`` replaces root volumes.
    """

    def __init__(self, moto: Client) -> None:
        self._moto = moto
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """All faults. What moto knows stays: making it anew takes seconds, and each test has a stack of its own."""
        self.stock: int | None = None
        self.unseen_s = 0.0
        self.denied: set[str] = set()
        self.calls: list[str] = []
        self.roots = RootVolumes()
        self._lost = 0
        self._failures: list[tuple[int, str, str]] = []
        self._made_at: dict[str, float] = {}
        self._tokens: dict[str, tuple[int, str, bytes]] = {}

    def lose_answers(self, count: int = 1) -> None:
        """The next changes are carried out, and the connection breaks."""
        self._lost += count

    def fail(self, code: str, *, status: int = 400) -> None:
        """The next request ends with this error of AWS's."""
        self._failures.append((status, code, "as a test wants it"))

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes] | None:
        """Status, type and body; None where the answer is lost."""
        with self._lock:
            asked = {key: values[0] for key, values in parse_qs(body.decode()).items()}
            action = asked.get("Action", headers.get("X-Amz-Target", ""))
            self.calls.append(action)
            if self._failures:
                status, code, message = self._failures.pop(0)
                return status, "text/xml", _ERROR.format(code, message).encode()
            if action in self.denied:
                words = "You are not authorized to perform this operation."
                return 403, "text/xml", _ERROR.format("UnauthorizedOperation", words).encode()
            if action == "RunInstances":
                return self._run(path, headers, body, asked)
            if action in ("CreateReplaceRootVolumeTask", "DescribeReplaceRootVolumeTasks"):
                return self._of_roots(action, asked)
            answer = self._asked(path, headers, body)
            if action == "DescribeInstances":
                return (*answer[:2], self._seen(answer[2]))
            return self._perhaps_lost(answer) if action == "TerminateInstances" else answer

    def _run(
        self, path: str, headers: dict[str, str], body: bytes, asked: dict[str, str]
    ) -> tuple[int, str, bytes] | None:
        token = asked.get("ClientToken", "")
        if token in self._tokens:
            return self._tokens[token]
        if self.stock is not None and self.stock <= 0:
            words = "We currently do not have sufficient capacity in the Availability Zone you requested."
            return 500, "text/xml", _ERROR.format("InsufficientInstanceCapacity", words).encode()
        answer = self._asked(path, headers, body)
        if answer[0] == 200:
            self.stock = None if self.stock is None else self.stock - 1
            self._tokens[token] = answer
            for each in _tagged(ET.fromstring(answer[2]), "instanceId"):
                self._made_at[each.text or ""] = time.monotonic()
        return self._perhaps_lost(answer)

    def _of_roots(self, action: str, asked: dict[str, str]) -> tuple[int, str, bytes] | None:
        creates = action.startswith("Create")
        try:
            said = self.roots.create(asked) if creates else self.roots.describe(asked)
        except Refused as error:
            return 400, "text/xml", _ERROR.format(*error.args).encode()
        answer = (200, "text/xml", xml(f"{action}Response", said))
        return self._perhaps_lost(answer) if creates else answer

    def _perhaps_lost(self, answer: tuple[int, str, bytes]) -> tuple[int, str, bytes] | None:
        if self._lost:
            self._lost -= 1
            return None
        return answer

    def _seen(self, answer: bytes) -> bytes:
        """Without those that are too young to be seen."""
        root = ET.fromstring(answer)
        for instances in _tagged(root, "instancesSet"):
            for item in list(instances):
                (name,) = (each.text or "" for each in item if each.tag.endswith("}instanceId"))
                if time.monotonic() - self._made_at.get(name, 0.0) < self.unseen_s:
                    instances.remove(item)
        return ET.tostring(root)

    def _asked(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        said = self._moto.post(path, headers=list(headers.items()), data=body)
        return said.status_code, said.content_type or "text/xml", said.data


def _tagged(root: ET.Element, name: str) -> Iterator[ET.Element]:
    return (each for each in root.iter() if each.tag.endswith("}" + name))


@functools.cache
def front() -> tuple[Front, str]:
    """The one of this process, and where it is."""
    made = Front(Client(DomainDispatcherApplication(create_backend_app)))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept = {name: self.headers[name] for name in _HEADERS if self.headers[name]}
            answer = made.answer(self.path, kept, body)
            if answer is None:
                self.close_connection = True
                return
            status, type, said = answer
            self.send_response(status)
            self.send_header("Content-Type", type)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True, name="aws").start()
    return made, f"http://127.0.0.1:{server.server_port}"


def client(service: str, *, attempts: int = 1) -> Any:
    """A client of it, which asks as often as it is told."""
    config = botocore.config.Config(retries={"mode": "standard", "total_max_attempts": attempts})
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=front()[1],
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=config,
    )

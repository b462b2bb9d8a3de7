"""HTTP as AWS speaks it: requests, answers, errors, and servers in the network of another namespace."""

from __future__ import annotations

import re
import socket
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from tests.net_namespace import enter

_ERROR: Final = "<Response><Errors><Error><Code>{}</Code><Message>{}</Message></Error></Errors><RequestID>1</RequestID></Response>"
_CHUNK: Final = 1 << 20

Answer = tuple[int, Mapping[str, str], bytes]
Asked = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """One of HTTP. The body of an upload is not in it but counted."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    uploaded: int = 0

    def header(self, name: str) -> str:
        """One of them, however it is written."""
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), "")

    @property
    def asked(self) -> Asked:
        """The parameters of a call of EC2."""
        return {key: values[0] for key, values in parse_qs(self.body.decode()).items()}

    @property
    def service(self) -> str:
        """The one that it is signed for."""
        scope = self.header("Authorization").partition("Credential=")[2].split(",")[0].split("/")
        return scope[3] if len(scope) > 4 else ""


#: Of services whose calls are methods and paths, what takes a stack down: which action each is.
_ACTIONS: Final = (
    ("elasticfilesystem", re.compile("DELETE /2015-02-01/file-systems/.*"), "DeleteFileSystem"),
    ("elasticfilesystem", re.compile("DELETE /2015-02-01/mount-targets/.*"), "DeleteMountTarget"),
    ("s3", re.compile("DELETE /[^/?]+"), "DeleteBucket"),
    ("s3", re.compile(r"DELETE /[^/?]+\?policy"), "DeleteBucketPolicy"),
    ("s3", re.compile(r"DELETE /[^/?]+\?publicAccessBlock"), "PutBucketPublicAccessBlock"),
    ("s3", re.compile("DELETE /[^/?]+/[^?]+"), "DeleteObject"),
    ("s3", re.compile(r"GET /[^/?]+\?list-type=2.*"), "ListBucket"),
)


def action_of(request: Request) -> str:
    """What is asked for, as policies name it: ``ec2:TerminateInstances``; of services of paths the method and the path, if need be."""
    service = request.service
    if service in ("ec2", "iam"):
        return f"{service}:{request.asked.get('Action', '')}"
    if target := request.header("X-Amz-Target"):
        return f"{service}:{target.rpartition('.')[2]}"
    asked = f"{request.method} {request.path}"
    actions = (action for of, pattern, action in _ACTIONS if of == service and pattern.fullmatch(asked))
    return f"{service}:{next(actions, asked)}"


class Refused(Exception):
    """The front does not do it, as AWS would not: an error code and why."""


class Raw:
    """A body as botocore reads one."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body


def refused(code: str, why: str) -> Answer:
    return 400, {"Content-Type": "text/xml"}, _ERROR.format(code, escape(why)).encode()


def texts(root: ET.Element, name: str) -> list[str]:
    found = (each.text or "" for each in root.iter() if each.tag.rpartition("}")[2] == name)
    return list(dict.fromkeys(each for each in found if each))


def xml(tag: str, content: Mapping[str, Any] | str) -> bytes:
    def element(tag: str, content: Mapping[str, Any] | list[Any] | str) -> ET.Element:
        made = ET.Element(tag)
        if isinstance(content, str):
            made.text = content
        elif isinstance(content, list):
            made.extend(element("item", each) for each in content)
        else:
            made.extend(element(*each) for each in content.items())
        return made

    root = element(tag, content)
    root.set("xmlns", "http://ec2.amazonaws.com/doc/2016-11-15/")
    return ET.tostring(root)


def handler(
    answer: Callable[[Request, str], Answer], hops: Callable[[Request, str], int] | None = None
) -> type[BaseHTTPRequestHandler]:
    """Requests, from an address each, are answered by ``answer``, whose packets go over so many ``hops`` and no more."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            where = urlsplit(self.path)
            is_upload = self.command == "PUT" and where.path.count("/") > 1 and not where.query
            body, uploaded = b"", 0
            if is_upload:
                while uploaded < length and (chunk := self.rfile.read(min(_CHUNK, length - uploaded))):
                    uploaded += len(chunk)
            else:
                body = self.rfile.read(length)
            headers = {
                name: value for name, value in self.headers.items() if name.lower() != "content-length"
            }
            request = Request(self.command, self.path, headers, body, uploaded)
            status, said, content = answer(request, self.client_address[0])
            if hops is not None:
                far = hops(request, self.client_address[0])
                self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, far)
            self.send_response(status)
            for name, value in said.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def do_GET(self) -> None:
            self._do()

        def do_PUT(self) -> None:
            self._do()

        def do_POST(self) -> None:
            self._do()

        def do_DELETE(self) -> None:
            self._do()

        def do_HEAD(self) -> None:
            self._do()

        def log_message(self, *args: object) -> None:
            """Nobody reads it."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def served(
    namespace: str, address: str, port: int, handles: type[BaseHTTPRequestHandler]
) -> ThreadingHTTPServer:
    """A server that listens in the network namespace of that path; "" is this process's own."""
    made: list[ThreadingHTTPServer | OSError] = []

    def listen() -> None:
        try:
            enter(namespace)
            made.append(_Server((address, port), handles))
        except OSError as error:
            made.append(error)

    # In a thread of its own, whose namespace it is.
    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    (server,) = made
    if isinstance(server, OSError):
        raise server
    return server

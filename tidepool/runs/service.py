"""The service of runs: what a run's cluster may ask for by its two tokens, over HTTP, once nobody drives its run.

    POST /RUN/outputs   by the token of outputs: {"path", "size", "sha256", "parts": [MD5, ...]}; answers {"missing": [NUMBER, ...]}
    PUT  /RUN/outputs?path=PATH&size=SIZE&part=NUMBER   by the same: takes a part of it
    POST /RUN/end       by the token of the end: the run is driven to its end, here

The rights by which it writes results and ends stacks are this process's alone. It writes below ``RUN/outputs/`` and nowhere else, what
is new and nothing else, and reads nothing to anybody. 409 says until when a driver is taken to be alive; 401 is every token that is
not right for what was asked, whatever is wrong with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tidepool.runs.credentials import Right, run_of
from tidepool.runs.ports import Refused, RunError
from tidepool.runs.record import Run
from tidepool.runs.results.records import StoredRecords
from tidepool.runs.results.store import MOST_PARTS, Differs, Store, spans
from tidepool.runs.results.transfer import output_name

_PATH: Final = re.compile(r"/([a-z0-9][a-z0-9-]{0,63})/(outputs|end)")
_BEARER: Final = re.compile(r"Bearer ([A-Za-z0-9_-]{16,128})")
_MD5: Final = re.compile(r"[0-9a-f]{32}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
#: Names of files and of objects are no longer, in bytes.
_LONGEST_PART: Final = 255
_LONGEST: Final = 900
#: Of what describes a file of 10,000 parts; and of a part, which is in memory.
_MOST_TOLD: Final = 2**20
_MOST_SENT: Final = 64 * 2**20


class BadRequest(ValueError):
    """A request for nothing that there is; the text says what."""


@dataclass(frozen=True, slots=True)
class Driven:
    """Somebody drives the run, or may: until then nothing is done here."""

    until: datetime


class Service:
    """Requests of clusters whose runs have results in ``store``. ``wanted`` hears of runs whose end was asked for, and returns at once."""

    def __init__(
        self,
        store: Store,
        wanted: Callable[[str], None],
        now: Callable[[], datetime],
        records: StoredRecords | None = None,
    ) -> None:
        self._store, self._wanted, self._now = store, wanted, now
        self._records = records or StoredRecords(store)

    def allows(self, id: str, right: Right, token: str) -> bool:
        """Return whether ``token`` gives that right to that run, which is under way."""
        return self._run(id, right, token) is not None

    def driven(self, id: str) -> Driven | None:
        """Return until when the driver of a run is taken to be alive; None where nobody is."""
        until = self._records.driven_until(id)
        return Driven(until) if until is not None and until > self._now() else None

    def missing(self, id: str, told: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the parts of an output that have to come, or the next of them; none where all of it is in the results."""
        path, size = output_path(told.get("path")), told.get("size")
        sha256, parts = told.get("sha256"), told.get("parts")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 10**15:
            raise BadRequest("size is a number of bytes")
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise BadRequest("sha256 has 64 hexadecimal digits")
        if not isinstance(parts, list) or len(parts) != len(spans(size)) or len(parts) > MOST_PARTS:
            raise BadRequest("parts has a checksum for each part of a file of that size")
        if not all(isinstance(each, str) and _MD5.fullmatch(each) for each in parts):
            raise BadRequest("a part's checksum has 32 hexadecimal digits")
        return self._store.missing_parts(output_name(id, path), size, sha256, parts)

    def put(self, id: str, path: str, size: int, number: int, data: bytes) -> None:
        """Take a part of an output."""
        if not 1 <= number <= len(spans(size)):
            raise BadRequest(f"a file of {size} bytes has no part {number}")
        self._store.put_part(output_name(id, output_path(path)), size, number, data)

    def end(self, id: str) -> None:
        """Have the run be driven to its end."""
        self._wanted(id)

    def _run(self, id: str, right: Right, token: str) -> Run | None:
        return run_of(self._store, id, right, token, self._now())


def output_path(path: object) -> str:
    """Return the path of an output below its run's, as it is.

    Raises:
        BadRequest: it is none, or would be elsewhere.
    """
    if not isinstance(path, str):
        raise BadRequest("path is the path of a file")
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise BadRequest("path is no UTF-8") from None
    parts = path.split("/")
    if not 0 < length <= _LONGEST or any(len(part.encode()) > _LONGEST_PART for part in parts):
        raise BadRequest(f"path has up to {_LONGEST} bytes, and {_LONGEST_PART} between its slashes")
    if any(part in ("", ".", "..") for part in parts):
        raise BadRequest("path is whole names with single slashes between them, and goes nowhere up")
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in path):
        raise BadRequest("path has no characters that control anything")
    return path


class Handler(BaseHTTPRequestHandler):
    """Answers of ``service``, which knows whose token may do what."""

    service: Service
    #: Seconds: one that says nothing more holds no thread.
    timeout = 60
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tidepool", ""

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests carry tokens."""

    def _answer(self, do: Callable[[str, Right], None]) -> None:
        # What is not read of a body would be taken for the next request.
        self.close_connection = True
        found = _PATH.fullmatch(self.path.partition("?")[0])
        if found is None:
            self._say(HTTPStatus.NOT_FOUND, error="there is nothing of that name")
            return
        id, what = found.groups()
        right: Right = "end" if what == "end" else "outputs"
        token = _BEARER.fullmatch(self.headers.get("Authorization", ""))
        try:
            if token is None or not self.service.allows(id, right, token[1]):
                self._say(HTTPStatus.UNAUTHORIZED, error="that token does not give the right to that")
            elif (driven := self.service.driven(id)) is not None:
                self._say(HTTPStatus.CONFLICT, until=driven.until.isoformat())
            else:
                do(id, right)
        except BadRequest as error:
            self._say(HTTPStatus.BAD_REQUEST, error=str(error))
        except (Differs, Refused) as error:
            self._say(HTTPStatus.FORBIDDEN, error=str(error))
        except RunError as error:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, error=str(error))

    def _post(self, id: str, right: Right) -> None:
        if urlsplit(self.path).query:
            raise BadRequest("nothing stands behind a '?' here")
        told = self._body(_MOST_TOLD)
        if right == "end":
            self.service.end(id)
            self._say(HTTPStatus.ACCEPTED)
            return
        try:
            document = json.loads(told)
        except (ValueError, RecursionError):
            raise BadRequest("write a document of JSON") from None
        if not isinstance(document, dict):
            raise BadRequest("write a mapping of JSON")
        self._say(HTTPStatus.OK, missing=list(self.service.missing(id, document)))

    def _put(self, id: str, right: Right) -> None:
        if right == "end":
            self._say(HTTPStatus.METHOD_NOT_ALLOWED, error="an end is asked for by POST")
            return
        try:
            asked = dict(
                parse_qsl(urlsplit(self.path).query, strict_parsing=True, errors="strict", max_num_fields=3)
            )
        except ValueError:
            raise BadRequest("write ?path=PATH&size=SIZE&part=NUMBER") from None
        if asked.keys() != {"path", "size", "part"} or not all(
            _NUMBER.fullmatch(asked[name]) for name in ("size", "part")
        ):
            raise BadRequest("write ?path=PATH&size=SIZE&part=NUMBER")
        data = self._body(_MOST_SENT)
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        if self.headers.get("Content-MD5") != digest:
            raise BadRequest("what came is not what Content-MD5 says")
        self.service.put(id, asked["path"], int(asked["size"]), int(asked["part"]), data)
        self._say(HTTPStatus.OK)

    def _body(self, most: int) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not _NUMBER.fullmatch(length) or int(length) > most or self.headers.get("Transfer-Encoding"):
            raise BadRequest(f"say how long it is, by Content-Length; up to {most} bytes")
        data = self.rfile.read(int(length))
        if len(data) != int(length):
            raise BadRequest("it ended too soon")
        return data

    def _say(self, status: HTTPStatus, **document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        for key, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "Connection": "close",
        }.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)


def http_server(
    service: Service, address: str, port: int, context: ssl.SSLContext | None = None
) -> ThreadingHTTPServer:
    """Return the server, which listens already; `serve_forever` serves."""
    server = ThreadingHTTPServer((address, port), type("Handler", (Handler,), {"service": service}))
    if context is not None:
        # The handshake is each handler's own: one that never comes to it would keep all others waiting.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server

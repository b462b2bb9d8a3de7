"""The stack's own boot service: what is a host's by HTTP, each at a path that only it and its BMC are told.

    python -m tidepool.infrastructures.boot_media.service --listen 10.9.0.5:8081

PATH.iso     BMCs read it piece by piece, for as long as the host boots from it
PATH.disk    the image as a disk, which a host reads part by part and writes to its own
PATH.report  a host says here what came of it
PATH.log     and here what its boot said
"""

from __future__ import annotations

import argparse
import json
import os
import re
import ssl
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tidepool.images.iso import seed_at
from tidepool.infrastructures.boot_media.media import Kept, Report
from tidepool.infrastructures.boot_media.seeds import seed
from tidepool.infrastructures.connection import data_folder

#: Where it says that it is one.
ALIVE: Final = "/tidepool"
_PATH: Final = re.compile(r"/([a-z0-9-]+)/([A-Za-z0-9_.-]+)/([0-9a-f]{32})\.(iso|disk|report|log)")
#: What a host may say at once.
_SAYS_BYTES: Final = 2**20
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
_CHUNK: Final = 2**20

Parts = Sequence[tuple[int, Path | bytes]]


def cut(parts: Parts, begin: int, end: int) -> Iterator[bytes]:
    """Yield the bytes from ``begin`` to before ``end`` of what is put together; a file's part stands where it is in the file."""
    at = 0
    for length, part in parts:
        first, last = max(begin, at), min(end, at + length)
        if first < last and isinstance(part, bytes):
            yield part[first - at : last - at]
        elif first < last and isinstance(part, Path):
            with part.open("rb") as file:
                file.seek(first)
                while first < last and (data := file.read(min(_CHUNK, last - first))):
                    first += len(data)
                    yield data
        at += length


def span(wanted: str | None, size: int) -> tuple[int, int] | None:
    """Return what a header `Range` asks for of so many bytes, the first and the one behind the last; None where there is no such part."""
    match = _RANGE.fullmatch(wanted or "")
    if match is None or match.groups() == ("", ""):
        return 0, size
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    begin, end = int(first), min(size, int(last) + 1 if last else size)
    return (begin, end) if begin < end else None


def iso_of(kept: Kept, host: str) -> Parts | None:
    """Return what a host's ISO is put together from, each with how long it is; None where the host boots nothing."""
    medium = kept.read(host)
    user_data = kept.read_boot(medium.boot) if medium else None
    if medium is None or user_data is None:
        return None
    iso = Path(medium.image)
    sums = kept.sums(Path(medium.disk_image)) if medium.task == "install" else None
    at, told = seed_at(iso), seed(medium, user_data, kept.url(host), sums)
    rest = iso.stat().st_size - at - len(told)
    return ((at, iso), (len(told), told), (rest, iso))


def _disk_of(kept: Kept, host: str) -> Parts | None:
    medium = kept.read(host)
    if medium is None or medium.task != "install":
        return None
    disk = Path(medium.disk_image)
    return ((disk.stat().st_size, disk),)


class Handler(BaseHTTPRequestHandler):
    """Answers of the service for the folder ``data``."""

    data: Path
    #: Seconds: one that asks for nothing more, as a BMC that was reset, holds no thread.
    timeout = 120
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tidepool", ""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: paths are secrets."""

    def _answer(self, *, body: bool) -> None:
        if self.path == ALIVE:
            self._head(HTTPStatus.NO_CONTENT, 0)
            return
        kept, host, what = self._requested()
        parts = (
            {"iso": iso_of, "disk": _disk_of}[what](kept, host) if kept and what in ("iso", "disk") else None
        )
        if parts is None:
            self._head(HTTPStatus.NOT_FOUND, 0)
            return
        size = sum(length for length, _ in parts)
        wanted = self.headers.get("Range")
        asked = span(wanted, size)
        if asked is None:
            self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, **{"Content-Range": f"bytes */{size}"})
            return
        begin, end = asked
        if (begin, end) == (0, size) and not wanted:
            self._head(HTTPStatus.OK, size)
        else:
            there = {"Content-Range": f"bytes {begin}-{end - 1}/{size}"}
            self._head(HTTPStatus.PARTIAL_CONTENT, end - begin, **there)
        try:
            for data in cut(parts, begin, end) if body else ():
                self.wfile.write(data)
        except ConnectionError:
            # BMCs drop what they have read enough of.
            self.close_connection = True

    def do_POST(self) -> None:
        kept, host, what = self._requested()
        length = self.headers.get("Content-Length", "")
        if kept is None or what not in ("report", "log"):
            self._head(HTTPStatus.NOT_FOUND, 0)
        elif not length.isdigit() or int(length) > _SAYS_BYTES:
            self._head(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, 0)
        else:
            said = self.rfile.read(int(length)).decode(errors="replace")
            self._head(HTTPStatus.NO_CONTENT if _store(kept, host, what, said) else HTTPStatus.BAD_REQUEST, 0)

    def _requested(self) -> tuple[Kept | None, str, str]:
        """The stack and host whose path it is, and what of it is asked for; nothing, where it is nobody's."""
        found = _PATH.fullmatch(self.path)
        if found is None:
            return None, "", ""
        stack, host, token, what = found.groups()
        kept = Kept(self.data, stack)
        # Only of stacks that are there: it would make a key for any other.
        if not (kept.folder / "key").is_file() or not kept.allows(host, token):
            return None, "", ""
        return kept, host, what

    def _head(self, status: HTTPStatus, length: int, **headers: str) -> None:
        self.send_response(status)
        told = {"Content-Length": str(length), "Accept-Ranges": "bytes", "Cache-Control": "no-store"}
        # What was not read of a body would be taken for the next question.
        told |= {"Connection": "close"} if self.command == "POST" else {}
        for key, value in {**told, **headers}.items():
            self.send_header(key, value)
        self.end_headers()


def _store(kept: Kept, host: str, what: str, said: str) -> bool:
    """Store what a host said; gives false where it is nothing that hosts say."""
    if what == "log":
        kept.write_log(host, said)
        return True
    try:
        told = json.loads(said)
        report = Report(
            str(told["claim"]),
            str(told["task"]),
            told["isDone"] is True,
            str(told["what"]),
            told.get("wrote") is not False,
        )
    except (ValueError, TypeError, KeyError):
        return False
    kept.write_report(host, report)
    return True


def service(
    data: Path, address: str, port: int, context: ssl.SSLContext | None = None
) -> ThreadingHTTPServer:
    """Return the service of all stacks whose data are in that folder; `serve_forever` serves them."""
    server = ThreadingHTTPServer((address, port), type("Handler", (Handler,), {"data": data}))
    if context is not None:
        # The handshake is each handler's own: one that never comes to it would keep all others waiting.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


def main() -> None:
    """Serve until it is ended."""
    words = argparse.ArgumentParser(prog="tidepool.infrastructures.boot_media.service", description=__doc__)
    words.add_argument("--listen", required=True, metavar="ADDRESS:PORT", help="an address that BMCs reach")
    words.add_argument("--certificate", type=Path, help="PEM, for HTTPS")
    words.add_argument("--key", type=Path, help="its key")
    asked = words.parse_args()
    address, _, port = asked.listen.rpartition(":")
    if not address or not port.isdigit():
        words.error(f"--listen {asked.listen}: write ADDRESS:PORT, as 10.9.0.5:8081")
    context = None
    if asked.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(asked.certificate, asked.key)
    data = data_folder(os.environ)
    server = service(data, address, int(port), context)
    # For whoever started it: hosts are answered from now on.
    print(f"the stacks of {data} are served at {'https' if context else 'http'}://{asked.listen}", flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()

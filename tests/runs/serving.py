"""A service of runs in tests: its runs, whose drivers are gone, and whoever asks it by HTTP."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from tidepool.cluster.frozen import FrozenDict
from tidepool.runs.credentials import Tokens, new_tokens, write_checksums
from tidepool.runs.record import Order, Run
from tidepool.runs.results.records import StoredRecords
from tidepool.runs.results.store import Store, spans
from tidepool.runs.service import Service, http_server

AT = datetime(2026, 11, 27, 20, tzinfo=UTC)
LEASE = timedelta(minutes=5)


def run_of_test(id: str, **more: Any) -> Run:
    order = Order("physics", id, AT, "ada", "s3://b/x", FrozenDict(), FrozenDict(), deadline_s=3600)
    return Run(id, order, phase="running", driver=f"driver of {id}", driver_until=AT + LEASE, **more)


@dataclass
class Site:
    """A service with two runs whose drivers are gone, and what was asked of it: which runs are to end."""

    store: Store
    port: int = 0
    now: datetime = AT + LEASE
    wanted: list[str] = field(default_factory=list)
    tokens: dict[str, Tokens] = field(default_factory=dict)

    def begin(self, id: str) -> None:
        records = StoredRecords(self.store, dead=lambda _: False)
        run = run_of_test(id)
        records.publish(replace(run, epoch=records.claim(run, AT)))
        self.tokens[id] = new_tokens()
        write_checksums(self.store, run, self.tokens[id], AT)

    def ask(
        self, method: str, path: str, token: str = "", data: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        sent = {"Content-MD5": digest, **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, body=data, headers=sent)
            answer = connection.getresponse()
            said = answer.read()
        return answer.status, json.loads(said) if said.startswith(b"{") else {}

    def missing(self, id: str, path: object, content: bytes, token: str) -> tuple[int, dict[str, Any]]:
        return self.ask("POST", f"/{id}/outputs", token, json.dumps(described(path, content)).encode())

    def put(self, id: str, path: str, content: bytes, number: int, token: str) -> tuple[int, dict[str, Any]]:
        at, length = spans(len(content))[number - 1]
        asked = urlencode({"path": path, "size": len(content), "part": number})
        return self.ask("PUT", f"/{id}/outputs?{asked}", token, content[at : at + length])

    def everything(self) -> Mapping[str, bytes]:
        return {name: self.store.read(name) for name in self.store.names("")}


def described(path: object, content: bytes) -> dict[str, Any]:
    parts = [
        hashlib.md5(content[at : at + length], usedforsecurity=False).hexdigest()
        for at, length in spans(len(content))
    ]
    return {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "parts": parts}


@contextmanager
def serving(site: Site, context: ssl.SSLContext | None = None) -> Iterator[None]:
    records = StoredRecords(site.store, dead=lambda _: False)
    server = http_server(
        Service(site.store, site.wanted.append, lambda: site.now, records), "127.0.0.1", 0, context
    )
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""A Nomad that answers over HTTP from memory, with the faults of real ones.

It does with metadata and system jobs what Nomad 2.0.5 was seen to do: the servers know a host's metadata late, a job comes
to a host when they know it, and stays when they know otherwise, until somebody stops it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class FakeHost:
    """``told`` is what the host itself says, ``meta`` what the servers know of it; ``late`` in how many looks they will."""

    id: str
    name: str
    meta: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=lambda: {"nomad.version": "2.0.5"})
    drivers: set[str] = field(default_factory=lambda: {"raw_exec"})
    status: str = "ready"
    eligibility: str = "eligible"
    told: dict[str, str] = field(init=False)
    late: int = 0

    def __post_init__(self) -> None:
        self.told = dict(self.meta)


@dataclass
class Allocation:
    id: str
    job: str
    host: str
    status: str = "running"
    ports: tuple[int, ...] = ()


class FakeNomad:
    """Nomad in memory; ``jobs`` are system jobs by id with the metadata that they want, ``deployments`` their last ones.

    What may be set at any time:

    - ``late``: in how many looks the servers know what a host was told.
    - ``lose``: so many changes are done, and their answers lost.
    - ``fail``: statuses and texts that the next requests are answered with, and nothing is done.
    - ``denied``: what the token may not: `node:read`, `node:write`, `jobs`, `variables`, `namespace`, `stop`.
    """

    def __init__(self, *hosts: FakeHost, namespaces: tuple[str, ...] = ("default",)) -> None:
        self.hosts = {host.id: host for host in hosts}
        self.namespaces = {*namespaces}
        self.jobs: dict[str, dict[str, str]] = {}
        self.allocations: list[Allocation] = []
        self.deployments: dict[str, dict[str, Any]] = {}
        self.late = 0
        self.lose = 0
        self.fail: list[tuple[int, str]] = []
        self.denied: set[str] = set()
        self.requests: list[str] = []
        self.written: list[str] = []
        self._lock = threading.Lock()

    # What happens from outside

    def host(self, name: str) -> FakeHost:
        return next(host for host in self.hosts.values() if host.name == name)

    def tell(self, name: str, **meta: str | None) -> None:
        """A host is told by hand, and the servers know it."""
        host = self.host(name)
        _merge(host.told, meta)
        host.meta = dict(host.told)

    def running(self, name: str) -> list[str]:
        host = self.host(name)
        return sorted(
            each.job for each in self.allocations if each.host == host.id and each.status == "running"
        )

    # Answers

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """A status, with what JSON says or with words; status 0 is a connection that breaks."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            if self.fail:
                return self.fail.pop(0)
            status, said = self._answer(method, path.split("/"), query, body)
            if method != "GET" and status == 200 and self.lose:
                self.lose -= 1
                return 0, ""
            return status, said

    def _answer(self, method: str, path: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        match method, path:
            case "GET", ["nodes"]:
                return self._may("node:read", lambda: self._nodes(query.get("filter", "")))
            case "GET", ["node", id]:
                return self._may("node:read", lambda: self._node(id))
            case "GET", ["node", id, "allocations"]:
                return self._may("node:read", lambda: self._allocations(id))
            case "POST", ["node", id, "eligibility"]:
                return self._may("node:write", lambda: self._eligible(id, body["Eligibility"]))
            case "GET", ["client", "metadata"]:
                return self._may("node:read", lambda: (200, {"Meta": self.hosts[query["node_id"]].told}))
            case "POST", ["client", "metadata"]:
                return self._may("node:write", lambda: self._metadata(body))
            case "POST", ["allocation", id, "stop"]:
                return self._may("stop", lambda: self._stop(id))
            case "GET", ["namespace", name]:
                there = name in self.namespaces
                return self._may(
                    "namespace", lambda: (200, {"Name": name}) if there else (404, "Namespace not found")
                )
            case "GET", ["job", id, "deployment"]:
                return 200, self.deployments.get(id)
            case "POST", ["job", id, "evaluate"]:
                return self._may("jobs", lambda: self._evaluate(id))
            case "POST", ["job", _, "plan"]:
                return self._may("jobs", lambda: (200, {"Annotations": None}))
            case "PUT", ["var", *rest]:
                return self._may("variables", lambda: self._variable("/".join(rest), query))
            case _:
                return 404, "Invalid path"

    def _may(self, right: str, then: Any) -> tuple[int, Any]:
        if right in self.denied:
            return 403, "Permission denied"
        answer: tuple[int, Any] = then()
        return answer

    def _nodes(self, told: str) -> tuple[int, Any]:
        self._time_goes_by()
        found = [host for host in self.hosts.values() if _fits(host.meta, told)]
        return 200, [{"ID": host.id, "Name": host.name} for host in found]

    def _node(self, id: str) -> tuple[int, Any]:
        self._time_goes_by()
        host = self.hosts.get(id)
        if host is None:
            return 404, "node not found"
        return 200, {
            "ID": host.id,
            "Name": host.name,
            "Datacenter": "dc1",
            "NodePool": "default",
            "Status": host.status,
            "SchedulingEligibility": host.eligibility,
            "Meta": host.meta,
            "Attributes": host.attributes,
            "Drivers": {name: {"Healthy": True} for name in host.drivers},
        }

    def _allocations(self, id: str) -> tuple[int, Any]:
        self._time_goes_by()
        return 200, [
            {
                "ID": each.id,
                "JobID": each.job,
                "Namespace": "default",
                "ClientStatus": each.status,
                "AllocatedResources": {
                    "Shared": {"Networks": [{"ReservedPorts": [{"Value": port} for port in each.ports]}]}
                },
            }
            for each in self.allocations
            if each.host == id
        ]

    def _eligible(self, id: str, eligibility: str) -> tuple[int, Any]:
        self.hosts[id].eligibility = eligibility
        return 200, {}

    def _metadata(self, body: Any) -> tuple[int, Any]:
        if not body["Meta"]:
            return 400, "missing required Meta object"
        host = self.hosts[body["NodeID"]]
        _merge(host.told, body["Meta"])
        host.late = self.late
        if not self.late:
            host.meta = dict(host.told)
            self._place()
        return 200, {"Meta": host.told}

    def _stop(self, id: str) -> tuple[int, Any]:
        for each in self.allocations:
            if each.id == id:
                each.status = "complete"
                job = each.job
        # A system job comes back wherever it should be; where it should not, it was stopped, and is not looked at again.
        host = next(each.host for each in self.allocations if each.id == id)
        wanted, meta = self.jobs.get(job), self.hosts[host].meta
        if wanted is not None and all(meta.get(key) == value for key, value in wanted.items()):
            self._forget(job)
        self._place()
        return 200, {"EvalID": "e"}

    def _evaluate(self, job: str) -> tuple[int, Any]:
        self._forget(job)
        self._place()
        return 200, {"EvalID": "e"}

    def _forget(self, job: str) -> None:
        self.allocations = [each for each in self.allocations if (each.job, each.status) != (job, "complete")]

    def _variable(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if "cas" in query:
            return 409, "cas error: requested index does not match"
        self.written.append(path)
        return 200, {}

    def _time_goes_by(self) -> None:
        for host in self.hosts.values():
            if host.late:
                host.late -= 1
                if not host.late:
                    host.meta = dict(host.told)
        self._place()

    def _place(self) -> None:
        for job, wanted in self.jobs.items():
            for host in self.hosts.values():
                fits = all(host.meta.get(key) == value for key, value in wanted.items())
                is_up = host.status == "ready" and host.eligibility == "eligible"
                there = any(
                    each.job == job and each.host == host.id and each.status in ("running", "complete")
                    for each in self.allocations
                )
                if fits and is_up and not there:
                    self.allocations.append(Allocation(f"a{len(self.allocations)}", job, host.id))


def _merge(told: dict[str, str], meta: dict[str, str | None]) -> None:
    for key, value in meta.items():
        if value is None:
            told.pop(key, None)
        else:
            told[key] = value


def _fits(meta: dict[str, str], told: str) -> bool:
    """The expressions that are used here, and no others."""
    for term in told.split(" and ") if told else ():
        if match := re.fullmatch(r'Meta\["(\w+)"\] == "([^"]*)"', term):
            if meta.get(match[1]) != match[2]:
                return False
        elif match := re.fullmatch(r'"(\w+)" not in Meta', term):
            if match[1] in meta:
                return False
        else:
            raise AssertionError(f"this fake does not know the filter {term}")
    return True


@contextmanager
def served(nomad: FakeNomad) -> Iterator[str]:
    """Its address, while it answers there."""

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, said = nomad.answer(self.command, parts.path.removeprefix("/v1/"), query, body)
            if status == 0:
                self.close_connection = True
                return
            text = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hosts(count: int, **more: Any) -> list[FakeHost]:
    """So many of rack r1: alpha, beta ..."""
    names = ("alpha", "beta", "gamma", "delta", "epsilon")
    return [FakeHost(f"id-{name}", name, {"rack": "r1"}, **more) for name in names[:count]]

"""The client of Slurm by slurmrestd: it looks, and cancels. Of all else it says that it cannot (docs/adr)."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from tidepool.clients.slurm import restjson
from tidepool.clients.slurm.answer import error_of
from tidepool.clients.slurm.contract import Controller
from tidepool.clients.slurm.errors import (
    ControllerDown,
    Malformed,
    NotFound,
    PermissionDenied,
    Refused,
    SlurmError,
    TimedOut,
    Unreachable,
)
from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.node import Node
from tidepool.clients.slurm.partition import Partition
from tidepool.clients.slurm.reservation import Reservation
from tidepool.clients.slurm.unsupported import ChangesNothing
from tidepool.clients.transport import Completed
from tidepool.cluster.hostlist import expand

#: Of 22.05 (which has v0.0.36 to v0.0.38).
API: Final = "v0.0.38"
_CHUNK: Final = 1 << 20
_Record = TypeVar("_Record")


class SlurmRest(ChangesNothing):
    """A client of the slurmrestd that listens at ``address``; every call ends within ``timeout_s`` seconds.

    ``address`` is the path of a unix socket, whose peer must run as the same user, or (host, port), which takes
    ``user`` and ``token`` (a JSON web token of ``scontrol token``). slurmrestd of 22.05 changes no nodes, and does not
    show those in state FUTURE: `nodes` lists without the slots.
    """

    def __init__(
        self,
        address: Path | tuple[str, int],
        *,
        user: str = "",
        token: str = "",
        api: str = API,
        timeout_s: float = 15.0,
    ) -> None:
        super().__init__(f"slurmrestd ({api})", "use Slurm's commands for it: a client over Here or Ssh")
        self._address = address
        self._api = api
        self._timeout_s = timeout_s
        self._headers = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token} if token else {}
        self._where = (
            f"slurmrestd at {address if isinstance(address, Path) else f'{address[0]}:{address[1]}'}"
        )

    def ping(self) -> tuple[Controller, ...]:
        """The controllers; that none answers is `ControllerDown` here, for slurmrestd then names none."""
        return self._list("ping", "pings", restjson.controller)

    def version(self) -> str:
        """The version of slurmrestd, which does not tell slurmctld's."""
        answer = self._get("ping")
        try:
            meta = answer["meta"]
            return str((meta.get("Slurm") or meta["slurm"])["release"])
        except (KeyError, TypeError) as fault:
            raise self._malformed("ping", "the version is missing") from fault

    def nodes(self, names: str = "") -> tuple[Node, ...]:
        """The nodes of the hostlist ``names``, or all; slots are not among them."""
        found = self._list("nodes", "nodes", restjson.node)
        if not names:
            return found
        by_name = {node.name: node for node in found}
        missing = [name for name in expand(names) if name not in by_name]
        if missing:
            raise NotFound(
                f"no node {', '.join(missing)}",
                words="",
                where=self._where,
                remedy="look for it among all nodes; slots are not shown by slurmrestd",
            )
        return tuple(by_name[name] for name in expand(names))

    def jobs(self, states: Collection[JobState] = ()) -> tuple[Job, ...]:
        found = self._list("jobs", "jobs", restjson.job)
        return tuple(job for job in found if (job.state in states if states else not job.state.has_ended))

    def job(self, job_id: int) -> tuple[Job, ...]:
        return self._list(f"job/{job_id:d}", "jobs", restjson.job)

    def partitions(self) -> tuple[Partition, ...]:
        return self._list("partitions", "partitions", restjson.partition)

    def reservations(self) -> tuple[Reservation, ...]:
        return self._list("reservations", "reservations", restjson.reservation)

    def cancel(self, job_id: int, *, array_id: str = "") -> None:
        self._ask("DELETE", f"job/{array_id or job_id}")

    def close(self) -> None:
        return

    def _list(self, path: str, key: str, read: Callable[[Mapping[str, Any]], _Record]) -> tuple[_Record, ...]:
        answer = self._get(path)
        if not isinstance(answer.get(key), list):
            raise self._malformed(path, f"{key} are missing")
        try:
            return tuple(read(record) for record in answer[key])
        except (KeyError, ValueError, TypeError) as fault:
            raise self._malformed(path, repr(fault)) from fault

    def _get(self, path: str) -> Mapping[str, Any]:
        return self._ask("GET", path)

    def _ask(self, method: str, path: str) -> Mapping[str, Any]:
        status, body = self._exchange(method, f"/slurm/{self._api}/{path}")
        if status == 401:
            raise PermissionDenied(
                "slurmrestd does not know who asks",
                words=body.decode(errors="replace"),
                where=self._where,
                remedy="give a token that has not expired, or run as the user of the socket's owner",
            )
        try:
            answer = json.loads(body)
        except ValueError as fault:
            raise self._malformed(path, f"status {status}, and no JSON") from fault
        if not isinstance(answer, dict):
            raise self._malformed(path, "it is no object")
        if errors := answer.get("errors"):
            raise self._error(path, errors)
        if status != 200:
            raise self._malformed(path, f"status {status}")
        return answer

    def _error(self, path: str, errors: Sequence[Mapping[str, Any]]) -> SlurmError:
        words = "; ".join(str(error.get("error") or error) for error in errors)
        if any(error.get("source") == "slurm_load_ctl_conf" for error in errors):
            return ControllerDown(
                f"slurmctld does not answer: {words}", where=self._where, remedy="see whether slurmctld runs"
            )
        found = error_of(["slurmrestd"], Completed(1, "", words), self._where.removeprefix("slurmrestd "))
        if type(found) is Refused and path != "ping":
            # With slurmctld down, 22.05 says no more than "Unspecified error"; a ping says more.
            self.ping()
        return found

    def _exchange(self, method: str, path: str) -> tuple[int, bytes]:
        deadline = time.monotonic() + self._timeout_s
        connection = http.client.HTTPConnection("localhost")
        try:
            connection.sock = sock = self._connect(deadline)
            connection.request(method, path, headers={"Accept": "application/json", **self._headers})
            sock.settimeout(_left(deadline))
            response = connection.getresponse()
            body = []
            while chunk := response.read(_CHUNK):
                body.append(chunk)
                # It is closed as soon as the whole answer is there.
                if sock.fileno() >= 0:
                    sock.settimeout(_left(deadline))
        except TimeoutError:
            raise TimedOut(
                f"no answer within {self._timeout_s:g} s",
                where=self._where,
                remedy="see whether slurmrestd or slurmctld hangs, or allow more time",
            ) from None
        except (OSError, http.client.HTTPException) as fault:
            raise Unreachable(
                f"slurmrestd cannot be asked: {fault!r}", where=self._where, remedy="see whether it runs"
            ) from fault
        finally:
            connection.close()
        return response.status, b"".join(body)

    def _connect(self, deadline: float) -> socket.socket:
        if not isinstance(self._address, Path):
            return socket.create_connection(self._address, _left(deadline))
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(_left(deadline))
        try:
            sock.connect(str(self._address))
        except OSError:
            sock.close()
            raise
        return sock

    def _malformed(self, path: str, why: str) -> Malformed:
        return Malformed(
            f"the answer to {path} is not what was asked for: {why}",
            where=self._where,
            remedy=f"see whether slurmrestd serves {self._api}",
        )


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)

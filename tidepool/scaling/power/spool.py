"""The daemon's side: requests are taken from slurmctld's machine, and forgotten there when they are in the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from tidepool.clients.slurm import Malformed, SlurmError, Transport
from tidepool.cluster.controller_programs import REQUEST_PROGRAM
from tidepool.cluster.hostlist import HostlistError, HostSet

_TAKE: Final = ("/usr/bin/python3", "-I", "-S", REQUEST_PROGRAM, "take")
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """One call of ResumeProgram (``up``) or SuspendProgram (``down``). Names are in the order of the calls."""

    name: str
    what: Literal["up", "down"]
    nodes: HostSet


class Requests(Protocol):
    """A source of requests."""

    def take(self) -> tuple[Request, ...]:
        """Return those that wait, the oldest first; those that are `done` are forgotten there.

        Raises:
            SlurmError: the machine cannot be reached, or its answer cannot be read.
        """
        ...

    def done(self, requests: Collection[Request]) -> None:
        """They are written down here, so that the next `take` may forget them there."""
        ...


class Spool:
    """The requests that wait on slurmctld's machine, which ``transport`` leads to.

    A request is given again and again until the call after `done` was told of it: whoever dies between loses none.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._done: tuple[str, ...] = ()

    def take(self) -> tuple[Request, ...]:
        ended = self._transport.run(list(_TAKE), stdin="\n".join(self._done), timeout_s=_TIMEOUT_S)
        *lines, end = ended.stdout.splitlines() or [""]
        if ended.exit_code != 0 or end != "end":
            said = " ".join(ended.stderr.split()) or f"exit code {ended.exit_code}"
            raise Malformed(
                f"the requests of Slurm's power saving cannot be taken: {said}",
                where=self._transport.where,
                remedy="`tidepool up` brings what is missing there",
            )
        self._done = ()
        return tuple(map(self._read, lines))

    def done(self, requests: Collection[Request]) -> None:
        self._done += tuple(request.name for request in requests)

    def _read(self, line: str) -> Request:
        try:
            match line.split(" "):
                case [name, "up" | "down" as what, nodes]:
                    return Request(name, "up" if what == "up" else "down", HostSet(nodes))
        except HostlistError:
            pass
        # A disk that fails: what Slurm wants, it says by the states of its nodes too (see `asked`).
        return Request(line.partition(" ")[0], "up", HostSet())


class PowerRequests:
    """``open_requests`` leads to a controller by its connection; ``say`` is told of all that happens."""

    def __init__(
        self, open_requests: Callable[[Mapping[str, Any]], Requests] | None, say: Callable[..., None]
    ) -> None:
        self._open = open_requests
        self._say = say
        self._controller: Mapping[str, Any] | None = None
        self._requests: Requests | None = None
        self._failure = ""

    def calls(self, controller: Mapping[str, Any]) -> tuple[Request, ...]:
        """The requests that wait. None where they cannot be taken: what Slurm says of its nodes says them too, later."""
        if self._open is None:
            return ()
        if self._requests is None or self._controller != controller:
            self._controller, self._requests = controller, self._open(controller)
        try:
            calls = self._requests.take()
        except SlurmError as error:
            self._tell(str(error))
            return ()
        self._tell("")
        return calls

    def done(self, calls: tuple[Request, ...]) -> None:
        """They are in the journal."""
        if self._requests is not None:
            self._requests.done(calls)
        for call in calls:
            self._say("requested", what=call.what, nodes=str(call.nodes))

    def _tell(self, failure: str) -> None:
        if failure and failure != self._failure:
            self._say("requests-unheard", text=failure)
        self._failure = failure

"""The daemon's side: requests are taken from slurmctld's machine, and forgotten there when they are in the journal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tidepool.clients.slurm import Malformed, Transport
from tidepool.cluster.hostlist import HostlistError, HostSet
from tidepool.cluster.power_saving import REQUEST_PROGRAM

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

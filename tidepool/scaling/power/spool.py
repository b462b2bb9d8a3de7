"""The daemon's side: requests are taken from slurmctld's machine, and forgotten there when they are in the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from tidepool.clients.slurm import Malformed, NodeBase, NodeFlag, SlurmError, Transport
from tidepool.cluster.controller_programs import REQUEST_PROGRAM
from tidepool.cluster.hostlist import HostlistError, HostSet
from tidepool.scaling.cluster_state import ClusterState

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
        # A disk that fails: what Slurm wants, it says by the states of its nodes too (see `power_demand`).
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


_COMING: Final = frozenset({NodeFlag.POWERING_UP, NodeFlag.POWER_UP})
_GOING: Final = frozenset({NodeFlag.POWER_DOWN, NodeFlag.POWERING_DOWN, NodeFlag.POWERED_DOWN})


@dataclass(frozen=True, slots=True)
class PowerDemand:
    """The nodes that Slurm waits for, and those that it gave back and of which there is something left."""

    up: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()


def power_demand(
    before: PowerDemand, look: ClusterState, desired: Mapping[str, HostSet], calls: Iterable[Request] = ()
) -> PowerDemand:
    """``before`` with what came since.

    ``look`` is later than ``before``. ``calls`` are not in ``before`` yet, and may be later than ``look``.
    """
    coming, going = set(before.up), set(before.down)
    known = set()
    for node in look.nodes:
        known.add(node.name)
        flags = node.state.flags
        if flags & _GOING:
            coming.discard(node.name)
            going.add(node.name)
        elif flags & _COMING and node.state.base is not NodeBase.DOWN:
            coming.add(node.name)
            going.discard(node.name)
        else:
            # In service, or given up by us.
            coming.discard(node.name)
            going.discard(node.name)
    going &= _there(look, desired)
    for call in calls:
        gains, loses = (coming, going) if call.what == "up" else (going, coming)
        gains.update(call.nodes)
        loses.difference_update(call.nodes)
    return PowerDemand(frozenset(coming & known), frozenset(going & known))


def _there(look: ClusterState, desired: Mapping[str, HostSet]) -> set[str]:
    """The nodes of which there is something, or should be."""
    names = (name for hosts in desired.values() for name in hosts)
    machines = (machine.key.node for machine in look.machines or ())
    return {*names, *(look.recorded or ()), *machines}

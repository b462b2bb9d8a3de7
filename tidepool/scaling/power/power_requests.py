"""The requests of power saving on the stack's controller of now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidepool.clients.slurm import SlurmError
from tidepool.scaling.power.spool import Request, Requests


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

"""Looks at Kubernetes beside the daemon's turns: an API server that hangs holds up no look at Slurm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Final

from tidepool.clients.kubernetes.contract import KubernetesError, KubernetesReader
from tidepool.scaling.cluster_state import KubernetesState
from tidepool.scaling.observe.source import PollInterval

#: While something is going on, and while nothing is.
_LOOKS: Final = {True: PollInterval(0.2, 0.3, 5), False: PollInterval(0.05, 1, 10)}
#: After a failure.
_AGAIN_S: Final = 1.0
#: What was seen longer ago is not known any more: three looks at the most.
_BELIEVED_S: Final = 30.0
_NOT_YET: Final = "Kubernetes has not been looked at yet"

OpenKubernetes = Callable[[Mapping[str, Any]], KubernetesReader]
"""Gives the client of the Kubernetes that a stack's output names. It may raise `KubernetesError`."""


class KubernetesWatch:
    """The newest look at the Kubernetes that pools serve. ``wake`` is called by whatever thread has ended one."""

    def __init__(
        self,
        open_kubernetes: OpenKubernetes,
        beside: Executor,
        monotonic_s: Callable[[], float],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._open = open_kubernetes
        self._beside = beside
        self._monotonic_s = monotonic_s
        self._wake = wake
        self._access: Mapping[str, Any] | None = None
        self._machines: frozenset[str] = frozenset()
        self._client: KubernetesReader | None = None
        self._look: Future[KubernetesState] | None = None
        self._began_s = float("-inf")
        self._is_expected = False
        self._cost_s = 0.0
        self._seen: KubernetesState | None = None
        self._seen_at_s = float("-inf")
        #: Why it cannot be seen, in words; empty where it can, or was not looked at yet.
        self.failure = ""

    @property
    def lag_s(self) -> float:
        """Return how old what was seen last is, in seconds."""
        return self._monotonic_s() - self._seen_at_s

    def latest(
        self, access: Mapping[str, Any], machines: Collection[str], *, is_active: bool
    ) -> tuple[KubernetesState | None, str]:
        """Return what was seen last; None where it is not known, and why, in words. Another look begins where one is due.

        ``machines`` are the nodes whose pods are told of.
        """
        if access != self._access:
            self.close()
            self._access, self._look, self._seen = dict(access), None, None
            self._began_s, self.failure = float("-inf"), ""
        self._machines = frozenset(machines)
        self._collect()
        self._begin(is_active)
        if self._seen is not None and self.lag_s > _BELIEVED_S:
            self._seen, self.failure = None, f"Kubernetes has not answered for {_BELIEVED_S:.0f} s"
        return self._seen, "" if self._seen is not None else self.failure or _NOT_YET

    def since(self, moment_s: float) -> tuple[KubernetesState | None, str]:
        """Return what was seen by a look that began after a moment, of the machines that were named last.

        None: not yet, ask again; and where it cannot be seen, why.
        """
        self._collect()
        if self._seen is None:
            return None, self.failure or _NOT_YET
        if self._seen_at_s > moment_s:
            return self._seen, ""
        self._is_expected = True
        self._begin(is_active=True)
        return (self._seen if self._seen_at_s > moment_s else None), ""

    def expect(self) -> None:
        """Something was changed: look anew at the next turn."""
        self._is_expected = True

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _begin(self, is_active: bool) -> None:
        if self._look is None and self._monotonic_s() >= self._due_s(is_active):
            self._began_s, self._is_expected = self._monotonic_s(), False
            self._look = self._beside.submit(self._looked, self._machines)
            self._look.add_done_callback(lambda _: self._wake())
            self._collect()

    def _due_s(self, is_active: bool) -> float:
        if self._seen is None:
            return self._began_s + _AGAIN_S
        if self._is_expected:
            return float("-inf")
        return self._began_s + _LOOKS[is_active].interval_s(self._cost_s)

    def _collect(self) -> None:
        look = self._look
        if look is None or not look.done():
            return
        self._look = None
        try:
            # What it tells is of when it began, or later.
            self._seen, self._seen_at_s, self.failure = look.result(), self._began_s, ""
            self._cost_s = self._monotonic_s() - self._began_s
        except KubernetesError as error:
            self._seen, self.failure = None, str(error)

    def _looked(self, machines: frozenset[str]) -> KubernetesState:
        client = self._client
        if client is None:
            assert self._access is not None, "nothing was looked at yet"
            client = self._client = self._open(self._access)
        nodes = client.nodes()
        # After the nodes: a pod is never on one that is not told of.
        pods = client.pods()
        return KubernetesState(
            nodes,
            tuple(pod for pod in pods if not pod.has_ended and (not pod.node or pod.node in machines)),
        )


class AtOnce(Executor):
    """No thread of its own: for one look alone, and for what is in memory."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it is whoever asks for the result who is told
            future.set_exception(error)
        return future

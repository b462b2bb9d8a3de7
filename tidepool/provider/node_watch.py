"""Waiting for nodes: one thread looks, however many wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidepool.clients.slurm import Node, SlurmError

#: Between two looks. They take a process each, on the processors that nodes need for booting.
_LEAST_S: Final = 0.03
_MOST_S: Final = 0.25
_SHARE: Final = 5.0
#: One that does not answer is not left for as long as it did not.
_MOST_OF_SLOW_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Sight:
    """The last observation of a node; ``error`` where Slurm did not answer, ``node`` where it knows the node."""

    is_there: bool = False
    node: Node | None = None
    error: SlurmError | None = None


@dataclass(eq=False, slots=True)
class _Waiter:
    name: str
    is_there: Callable[[Node], bool]
    over: threading.Event = field(default_factory=threading.Event)
    sight: Sight = Sight()
    fault: Exception | None = None


class NodeWatch:
    """Looks at all nodes by ``look``, for as long as somebody waits for one."""

    def __init__(self, look: Callable[[], Mapping[str, Node]]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._waiters: set[_Waiter] = set()
        self._is_looking = False

    def wait(self, name: str, is_there: Callable[[Node], bool], deadline: float) -> Sight:
        """Wait until the node ``name`` is as ``is_there`` wants it, or until ``deadline``; gives the last sight."""
        waiter = _Waiter(name, is_there)
        with self._lock:
            self._waiters.add(waiter)
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._run, name="node-watch", daemon=True).start()
        waiter.over.wait(max(0.0, deadline - time.monotonic()))
        with self._lock:
            self._waiters.discard(waiter)
            if waiter.fault is not None:
                raise waiter.fault
            return waiter.sight

    def _give_up(self, fault: Exception) -> None:
        with self._lock:
            for waiter in self._waiters:
                waiter.fault = fault
                waiter.over.set()
            self._waiters = set()
            self._is_looking = False

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            began = time.monotonic()
            nodes: Mapping[str, Node] = {}
            error = None
            try:
                nodes = self._look()
            except SlurmError as failed:
                error = failed  # it may be starting; who waited in vain is told
            except Exception as fault:  # noqa: BLE001 - raised to all who wait
                self._give_up(fault)
                return
            with self._lock:
                for waiter in self._waiters:
                    node = nodes.get(waiter.name)
                    waiter.sight = Sight(node is not None and waiter.is_there(node), node, error)
                    if waiter.sight.is_there:
                        waiter.over.set()
                # Those who were just told are gone in a moment, and nobody looks for them again.
                self._waiters = {waiter for waiter in self._waiters if not waiter.over.is_set()}
                if not self._waiters:
                    self._is_looking = False
                    return
            pause.wait(pause_s(time.monotonic() - began))


def pause_s(took_s: float) -> float:
    """Return the seconds to wait after a look that took so long. Pure.

    A controller with little processor, as an emulated one, has half of the time for what is waited for.
    """
    return max(_LEAST_S, min(_MOST_S, _SHARE * took_s), min(_MOST_OF_SLOW_S, took_s))

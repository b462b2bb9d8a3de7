"""Looks and requests of many threads, done for all of them at once: a thousand nodes ask Slurm a few times, not a thousand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from tidepool.clients.slurm import Node, SlurmError

T = TypeVar("T")


class SharedLook(Generic[T]):
    """Calls ``look``, which takes its time, as seldom as it can: what is given was always seen after it was asked for."""

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._changed = threading.Condition()
        self._begun = 0
        self._ended = 0
        self._seen: Callable[[], T] = look

    def __call__(self) -> T:
        """Return the result of a look that began after this call, or raise its error."""
        with self._changed:
            wanted = self._begun + 1
            while self._ended < wanted and self._begun != self._ended:
                self._changed.wait()
            if self._ended >= wanted:
                return self._seen()
            self._begun += 1
        seen = self._tried()
        with self._changed:
            self._seen = seen
            self._ended = self._begun
            self._changed.notify_all()
        return seen()

    def _tried(self) -> Callable[[], T]:
        try:
            found = self._look()
        except Exception as error:  # noqa: BLE001 - raised to all who asked
            # A name of its own, for the exception's goes with its block.
            raised = error

            def fail() -> T:
                raise raised

            return fail
        return lambda: found


A = TypeVar("A")
R = TypeVar("R")


class Batches(Generic[A, R]):
    """Calls ``work`` with all that was asked for since it was called last; never twice at a time."""

    def __init__(self, work: Callable[[Sequence[A]], Mapping[A, R]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._asked: list[tuple[A, Future[R]]] = []
        self._is_at_work = False

    def __call__(self, item: A) -> R:
        """Wait for what ``work`` makes of the item; raises what it raises."""
        answer: Future[R] = Future()
        with self._lock:
            self._asked.append((item, answer))
            leads = not self._is_at_work
            self._is_at_work = True
        if leads:
            self._lead()
        return answer.result()

    def _lead(self) -> None:
        while True:
            with self._lock:
                batch, self._asked = self._asked, []
                if not batch:
                    self._is_at_work = False
                    return
            try:
                made = self._work([item for item, _ in batch])
            except BaseException as error:  # noqa: BLE001 - raised to each who asked
                for _, answer in batch:
                    answer.set_exception(error)
            else:
                for item, answer in batch:
                    answer.set_result(made[item])


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

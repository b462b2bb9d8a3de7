"""Calls of many threads, done many at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Calls ``run`` for all who come until nobody came for ``lull_s`` seconds, and while it runs for those of the next call.

    Who comes waits for an answer, so there are never more than threads that call. ``run`` gives a result or an error for
    each. What it raises itself is raised for each of them.
    """

    def __init__(self, run: Callable[[Sequence[T]], Sequence[R | Exception]], lull_s: float) -> None:
        self._run, self._lull_s = run, lull_s
        self._lock = threading.Lock()
        self._waiting: list[tuple[T, Future[R]]] = []
        self._is_running = False

    def __call__(self, item: T) -> R:
        """Return the result for ``item``, or raise its error."""
        outcome: Future[R] = Future()
        with self._lock:
            self._waiting.append((item, outcome))
            leads = not self._is_running
            self._is_running = True
        if leads:
            self._serve()
        return outcome.result()

    def _serve(self) -> None:
        while True:
            self._wait_for_others()
            with self._lock:
                batch, self._waiting = self._waiting, []
                if not batch:
                    self._is_running = False
                    return
            try:
                results = self._run([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - it is raised where it was called
                results = [error] * len(batch)
            for (_, outcome), result in zip(batch, results, strict=True):
                if isinstance(result, Exception):
                    outcome.set_exception(result)
                else:
                    outcome.set_result(result)

    def _wait_for_others(self) -> None:
        seen = 0
        while (waiting := len(self._waiting)) > seen:
            seen = waiting
            time.sleep(self._lull_s)

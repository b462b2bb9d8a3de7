"""Requests that many threads make one by one, done for all of them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

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

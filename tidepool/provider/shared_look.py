"""One look for all who ask at the same time: a refresh of a thousand nodes asks Slurm a few times, not a thousand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

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

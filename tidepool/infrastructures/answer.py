"""An answer that is waited for as long as it is worth: who asks goes on without it, and nobody waits for its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from tidepool.cluster.failures import Transient

_T = TypeVar("_T")


class Answer(Generic[_T]):
    """An answer that a thread of its own is getting."""

    def __init__(self, ask: Callable[[], _T]) -> None:
        self._future: Future[_T] = Future()
        self._ask = ask
        self._patience_s = 0.0
        # Whoever ends does not wait for it.
        threading.Thread(target=self._run, name="asking", daemon=True).start()

    @property
    def is_awaited(self) -> bool:
        """Return whether it is under way still: then nobody asks once more."""
        return not self._future.done()

    def wait(self, patience_s: float) -> _T:
        """The answer. It is waited for once; after that it is late.

        Raises:
            Transient: there was no answer in time.
        """
        left_s, self._patience_s = patience_s - self._patience_s, patience_s
        try:
            return self._future.result(left_s)
        except TimeoutError:
            if self._future.done():
                raise
            raise Transient(f"it has not answered within {patience_s:g} s") from None

    def _run(self) -> None:
        try:
            self._future.set_result(self._ask())
        except Exception as failure:  # noqa: BLE001 - raised where it was asked for
            self._future.set_exception(failure)

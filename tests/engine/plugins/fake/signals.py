"""A signal to the engine at an exact point of what the provider does: ``$FAKE_SIGNAL``.

``METHOD:NUMBER:WHEN:SIGNAL``, such as ``create:7:after:KILL``: at the seventh call of that method, ``before``
or ``after`` its effect, the engine that started this process is sent the signal. With KILL this process ends
as well, at once: nothing else is done. With any other signal the call goes on when the engine has asked the
provider to cancel what is under way. Calls are counted in each process by itself.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

_PATIENCE_S = 60.0


class Signals:
    """The signal of one process."""

    def __init__(self, text: str, cancelled: threading.Event) -> None:
        self._method, number, self._when, name = text.split(":") if text else ("", "0", "", "")
        self._number = int(number)
        self._signal = getattr(signal, f"SIG{name}") if name else None
        self._cancelled = cancelled
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def at(self, method: str, when: str) -> None:
        """Send the signal where this is the point for it."""
        if self._signal is None or (method, when) != (self._method, self._when):
            return
        with self._lock:
            self._counts[method] += 1
            here = self._counts[method] == self._number
        if not here:
            return
        os.kill(int(os.environ.get("TESTS_STARTED_BY") or os.getppid()), self._signal)
        if self._signal == signal.SIGKILL:
            os._exit(9)
        self._cancelled.wait(_PATIENCE_S)

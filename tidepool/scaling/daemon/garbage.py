"""Python's search for cycles, between turns only: in a large cluster it takes half a second, at any moment else.

Nearly all that a turn makes is frozen values without cycles, which go when nobody has them any more.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

#: At rest it is searched after so long; at work, where no turn waits for long, after so much more.
_AT_REST_S: Final = 60.0
_AT_WORK_S: Final = 900.0
#: A pause as long as this is rest.
_PAUSE_S: Final = 0.3


class Garbage:
    """Searches when `between_turns` says so, and not by itself."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        """Python searches no more by itself."""
        gc.disable()
        self._monotonic_s = monotonic_s
        self._searched_at_s = monotonic_s()

    def between_turns(self, pause_s: float) -> None:
        """The next turn is due in ``pause_s``."""
        since_s = self._monotonic_s() - self._searched_at_s
        if since_s >= (_AT_REST_S if pause_s >= _PAUSE_S else _AT_WORK_S):
            gc.collect()
            self._searched_at_s = self._monotonic_s()

    def close(self) -> None:
        """Python searches by itself again."""
        gc.enable()

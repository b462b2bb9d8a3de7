"""Waiting for hosts: what says whether there is more time, after some of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidepool.resources.kind import Task

#: Waits a while for the reason that it is told; gives false when there is no more time.
Wait = Callable[[str], bool]

_AGAIN_S = 2.0


def waiting_for(seconds: float, again_s: float, sleep: Callable[[float], None]) -> Wait:
    """Return what waits, for so long in all."""
    ends = time.monotonic() + seconds

    def wait(_: str) -> bool:
        sleep(again_s)
        return time.monotonic() < ends

    return wait


def waiting_in_task(task: Task, sleep: Callable[[float], None]) -> Wait:
    """Return what waits as long as an operation may take; each reason is shown once."""
    shown: list[str] = []

    def wait(why: str) -> bool:
        if why not in shown:
            task.status(f"waiting for {why}")
            shown.append(why)
        sleep(_AGAIN_S)
        return task.left_s > _AGAIN_S and not task.cancelled()

    return wait

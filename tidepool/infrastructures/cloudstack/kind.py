"""The base of kinds of resources in a CloudStack: how its API is opened, and how jobs are waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from tidepool.infrastructures.cloudstack.api import Api, ApiLocation, Wait
from tidepool.infrastructures.cloudstack.resources import InCloudStack
from tidepool.resources.kind import Home, IdempotentKind, Task
from tidepool.resources.reading import Mistake, read

_AGAIN_S: Final = 1.0
_M = TypeVar("_M", bound=InCloudStack)
Open = Callable[[ApiLocation], Api]


class CloudStackKind(IdempotentKind[_M]):
    """One of what is in a CloudStack, whose API a resource names."""

    def __init__(
        self, home: Home, open: Open = ApiLocation.open, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(home)
        self._open = open
        self._sleep = sleep

    def mistakes(self, wanted: _M) -> Iterable[Mistake]:
        found = read(ApiLocation, wanted.api, strict=True)
        yield from (Mistake(f"api.{each.property}", each.reason) for each in found.mistakes)

    def api(self, wanted: InCloudStack) -> Api:
        return self._open(read(ApiLocation, wanted.api).value)

    def waiting(self, task: Task) -> Wait:
        """Wait for jobs as long as an operation may take; each reason is shown once."""
        shown: list[str] = []

        def wait(why: str) -> bool:
            if why not in shown:
                task.status(f"waiting for {why}")
                shown.append(why)
            self._sleep(_AGAIN_S)
            return task.left_s > _AGAIN_S and not task.cancelled()

        return wait

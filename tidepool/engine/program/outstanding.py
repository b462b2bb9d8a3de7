"""The outputs of a program that are not known yet, in place of the SDK's set of them.

At its end a program waits for its outputs. The SDK does so with ``asyncio.wait`` over all of them, again
for each that completes: with ten outputs a resource that is 10 s for 1,000 resources, and a hundred times
that for 10,000. This stands where the SDK keeps its set and gives it one future to wait for: of all
outputs, or of the first that fails. Like :mod:`.host` it imports nothing but the standard library and the
SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any


class OutstandingOutputs:
    """As much of a set as the SDK uses: see ``Output._track`` and ``wait_for_rpcs`` in the SDK.

    The SDK removes what succeeded; what failed stays, to be told at the end, unless ``Output.recover``
    discards it.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()
        self._settled: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[asyncio.Future[None]]:
        if self._settled is None or self._settled.done():
            self._settled = asyncio.get_running_loop().create_future()
            for output in [o for o in self._running if o.done()]:
                self._consider(output)
            self._settle_if_empty()
        yield self._settled

    def add(self, output: asyncio.Future[Any]) -> None:
        """Wait for ``output``, too; the future that was given out is not one of them."""
        if output is not self._settled:
            self._running.add(output)
            output.add_done_callback(self._done)

    def remove(self, output: asyncio.Future[Any]) -> None:
        """Forget ``output``; raises KeyError where it is not known."""
        self._running.remove(output)
        self._settle_if_empty()

    def discard(self, output: asyncio.Future[Any]) -> None:
        """Forget ``output``."""
        self._running.discard(output)
        self._settle_if_empty()

    def clear(self) -> None:
        """Nothing: the SDK takes the outputs out to put them back."""

    def _done(self, output: asyncio.Future[Any]) -> None:
        if output.cancelled() or output.exception() is not None:
            # Not at once: whoever recovers from the failure is woken by it, and comes first.
            output.get_loop().call_soon(self._consider, output)

    def _consider(self, output: asyncio.Future[Any]) -> None:
        """Tell of a failure, where somebody waits and nobody recovered from it."""
        if output not in self._running or self._settled is None or self._settled.done():
            return
        self._running.discard(output)
        if output.cancelled():
            self._settled.set_exception(asyncio.CancelledError())
            return
        error = output.exception()
        if error is not None and not _is_expected(error):
            self._settled.set_exception(error)
        else:
            self._settle_if_empty()

    def _settle_if_empty(self) -> None:
        if not self._running and self._settled is not None and not self._settled.done():
            self._settled.set_result(None)


def _is_expected(error: BaseException) -> bool:
    # The engine told the program that the resource failed, and goes on with the others.
    from pulumi.runtime.stack import ResourceRegistrationFailed

    return isinstance(error, ResourceRegistrationFailed)

"""The course of an operation: what a person is told, whether it is to end, and the errors that end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidepool.engine.errors import EngineError
from tidepool.engine.events import Diagnostic, Event, EventSink, Severity
from tidepool.engine.providers.contract import ProviderError


class Stopped(Exception):
    """The operation cannot go on, and why was reported already."""


class GoalError(Exception):
    """A registration that cannot be served; the text is for the person."""

    def __init__(self, message: str, urn: str = "") -> None:
        super().__init__(message)
        self.urn = urn


class HookFailed(Exception):
    """A hook refused: the step is not done."""


class RequestRefused(Exception):
    """A request that cannot be served; the text goes back to the program."""


class MonitorClosed(Exception):
    """The operation ends: the program is to end, too."""


class ProgramFailed(Exception):
    """The program ended with an error. ``reported`` says that it told the person why."""

    def __init__(self, message: str, *, reported: bool) -> None:
        super().__init__(message)
        self.reported = reported


#: Errors of a provider, a program or a person. Any other is a fault of the engine.
EXPECTED = (ProviderError, HookFailed, EngineError, OSError, GoalError)


class Status:
    """Tells the display of one operation, and knows whether it is to end. For the engine's loop."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        #: Set when no new steps are to be begun.
        self.stopping = asyncio.Event()
        #: Whether something happened that the operation does not recover from, and whether the person was told what.
        self.failed = self.is_explained = False
        #: Whether a person asked the operation to end.
        self.canceled = False
        self._fault: BaseException | None = None
        self._when_stopping: list[Callable[[], None]] = []

    def when_stopping(self, call: Callable[[], None]) -> None:
        """Have ``call`` called at once when no new steps are to be begun."""
        self._when_stopping.append(call)

    def stop(self) -> None:
        """Begin no new steps; those under way are finished and recorded."""
        self.stopping.set()
        for call in self._when_stopping:
            call()

    def cancel(self) -> None:
        """Stop, because a person asks for it."""
        self.canceled = True
        self.stop()

    def fail(self) -> None:
        """Stop, and count the operation as failed for a reason that was told."""
        self.explain_failure()
        self.stop()

    def explain_failure(self) -> None:
        """Count the operation as failed for a reason that was told."""
        self.failed = self.is_explained = True

    def is_fault(self, error: BaseException) -> bool:
        """Tell whether an error is one of the engine, which must not be mistaken for a failed step; then stop."""
        if isinstance(error, (*EXPECTED, Stopped)):
            return False
        if self._fault is None:
            self._fault = error
        self.stop()
        return True

    def raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    # -- telling ---------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        self._sink(event)

    def error(self, message: str, urn: str = "") -> None:
        self._diagnose("error", message, urn)

    def warn(self, message: str, urn: str = "") -> None:
        self._diagnose("warning", message, urn)

    def info(self, message: str, urn: str = "") -> None:
        self._diagnose("info", message, urn)

    def _diagnose(self, severity: Severity, message: str, urn: str) -> None:
        self.emit(Diagnostic(severity, message, urn))

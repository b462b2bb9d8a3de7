"""Interrupts of a process that both the engine and its program want to hear of."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_SHARED: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def shared() -> Iterator[None]:
    """Let a program handle interrupts as if it were alone, after the engine, which hears of each.

    Without this, a program that sets a handler of its own, or ignores interrupts, could not be stopped any more.
    Only for the main thread.
    """
    install = signal.signal
    engines = {number: signal.getsignal(number) for number in _SHARED}
    programs: dict[int, Any] = {}

    def both(number: int, frame: Any) -> None:
        for handler in (engines[signal.Signals(number)], programs[number]):
            if callable(handler):
                handler(number, frame)

    def set_handler(number: int, handler: Any) -> Any:
        if number not in engines:
            return install(number, handler)
        unset = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        previous = programs.get(number, unset)
        programs[number] = handler
        install(number, both)
        return previous

    signal.signal = set_handler  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = install
        for number, handler in engines.items():
            install(number, handler)

"""Interrupts that both the engine and a program in its process want to hear of. Handlers are called, not signalled."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tidepool.engine.program.interrupts import shared


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """Who heard of an interrupt, in order; the engine's handler is in place."""
    calls: list[str] = []
    kept = signal.signal(signal.SIGINT, lambda number, frame: calls.append("engine"))
    yield calls
    signal.signal(signal.SIGINT, kept)


def interrupt() -> None:
    handler: Any = signal.getsignal(signal.SIGINT)
    handler(signal.SIGINT, None)


def test_the_engine_hears_of_it_before_the_programs_handler(heard: list[str]) -> None:
    with shared():
        signal.signal(signal.SIGINT, lambda number, frame: heard.append("program"))
        interrupt()
    interrupt()
    assert heard == ["engine", "program", "engine"]


def test_a_program_that_ignores_it_does_not_make_the_engine_deaf(heard: list[str]) -> None:
    with shared():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupt()
    assert heard == ["engine"]


def test_a_program_sees_the_handlers_that_it_would_see_alone(heard: list[str]) -> None:
    with shared():
        assert signal.signal(signal.SIGINT, signal.SIG_IGN) is signal.default_int_handler
        assert signal.signal(signal.SIGINT, signal.default_int_handler) == signal.SIG_IGN
        assert signal.signal(signal.SIGTERM, signal.SIG_IGN) == signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert heard == ["engine"]


def test_other_signals_are_the_programs_own(heard: list[str]) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with shared():
        assert signal.signal(signal.SIGUSR1, signal.SIG_IGN) == before
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
        signal.signal(signal.SIGUSR1, before)
    assert heard == []

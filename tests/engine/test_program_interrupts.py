"""Interrupts that both the engine and a program in its process want to hear of."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from tidepool.engine.program.main_thread import Interrupts

_DEADLINE_S = 30


class Heard:
    """Who heard of an interrupt, in order."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.interrupts = Interrupts(lambda: self._calls.put("engine"))

    def by_program(self, _number: int, _frame: object) -> None:
        """A handler of the program."""
        self._calls.put("program")

    def next(self, count: int = 1) -> list[str]:
        """The next who hear of it; they are in no order that a program could rely on."""
        return sorted(self._calls.get(timeout=_DEADLINE_S) for _ in range(count))

    def nobody_else(self) -> bool:
        return self._calls.empty()


@pytest.fixture
def output_of() -> Iterator[Heard]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    calls = Heard()
    with calls.interrupts.listening():
        yield calls
    assert calls.nobody_else()
    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.set_wakeup_fd(-1) == -1


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_each_interrupt_is_heard(output_of: Heard, number: signal.Signals) -> None:
    for _ in range(3):
        interrupt(number)
        assert output_of.next() == ["engine"]


def test_it_is_heard_while_the_main_thread_does_not_come_to_its_handlers() -> None:
    """As where a signal arrives just before a program falls asleep: nothing wakes the main thread."""
    woken = threading.Event()
    asleep = threading.Event()
    with Interrupts(woken.set).listening():

        def interrupt_another_thread() -> None:
            asleep.wait(_DEADLINE_S)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        other = threading.Thread(target=interrupt_another_thread)
        other.start()
        asleep.set()
        assert woken.wait(_DEADLINE_S)
        other.join()


def test_a_programs_handler_is_called_as_well(output_of: Heard) -> None:
    with output_of.interrupts.shared():
        signal.signal(signal.SIGINT, output_of.by_program)
        interrupt()
        assert output_of.next(2) == ["engine", "program"]
    interrupt()
    assert output_of.next() == ["engine"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_no_program_makes_the_engine_deaf(output_of: Heard, handler: signal.Handlers) -> None:
    with output_of.interrupts.shared():
        signal.signal(signal.SIGINT, handler)
        interrupt()
        assert output_of.next() == ["engine"]


def test_a_program_that_waits_for_signals_in_its_loop_is_woken(output_of: Heard) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, output_of.interrupts.shared():
        theirs.setblocking(False)
        ours.settimeout(_DEADLINE_S)
        assert signal.set_wakeup_fd(theirs.fileno()) == -1
        interrupt()
        assert output_of.next() == ["engine"]
        assert ours.recv(1) == bytes([signal.SIGINT])
        assert signal.set_wakeup_fd(-1) == theirs.fileno()


def test_a_program_sees_the_handlers_that_it_would_see_alone(output_of: Heard) -> None:
    with output_of.interrupts.shared():
        assert signal.signal(signal.SIGINT, signal.SIG_IGN) is signal.default_int_handler
        assert signal.signal(signal.SIGINT, signal.default_int_handler) == signal.SIG_IGN
        assert signal.signal(signal.SIGTERM, signal.SIG_IGN) == signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        assert output_of.next() == ["engine"]


def test_other_signals_are_the_programs_own(output_of: Heard) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with output_of.interrupts.shared():
        assert signal.signal(signal.SIGUSR1, signal.SIG_IGN) == before
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
        signal.signal(signal.SIGUSR1, before)

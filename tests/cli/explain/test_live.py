"""The live view: frame after frame, as large as the terminal is at the time, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console, ConsoleDimensions

from tests.cli.explain.records import ago, nodes, record
from tidepool.cli.explain.record import Record
from tidepool.cli.explain.watch import live
from tidepool.scaling.decision import Phase
from tidepool.scaling.ports import JournalError


def a_console(columns: int = 80, lines: int = 24) -> Console:
    made = Console(file=StringIO(), force_terminal=True, color_system=None, legacy_windows=False)
    made.size = ConsoleDimensions(columns, lines)
    return made


def shown(console: Console) -> list[str]:
    """The frames, as text."""
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().split("\x1b[H")[1:]


def ends_after(frames: int) -> Callable[[float], object]:
    """Waits so often, and is interrupted then."""
    left = iter(range(frames - 1))

    def wait(_: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return wait


def test_each_frame_shows_what_was_read_then() -> None:
    phases = iter([Phase.LAUNCHING, Phase.BUSY])
    console = a_console()
    live(lambda: record(views=nodes(cpu_1=next(phases))), console, 0.5, ends_after(2))
    frames = [frame for frame in shown(console) if "fleets" in frame]
    assert "1 launching" in frames[0]
    assert "1 busy" in frames[-1]
    assert "1 launching" not in frames[-1]


def test_it_fits_the_terminal_as_that_is_made_smaller() -> None:
    console = a_console(200, 50)

    def wait(seconds: float) -> None:
        if console.size.width == 60:
            raise KeyboardInterrupt
        console.size = ConsoleDimensions(60, 12)

    live(record, console, 0.5, wait)
    last = shown(console)[-1].split("\x1b")[0].splitlines()
    assert len(last) <= 12
    assert max(map(len, last)) <= 60


def test_a_journal_that_cannot_be_read_any_more_is_told_and_the_view_stays() -> None:
    answers = iter([record(views=nodes(cpu_1=Phase.BUSY)), None, record(at=ago(0.1))])

    def read() -> Record:
        answer = next(answers)
        if answer is None:
            raise JournalError("the disk is full")
        return answer

    console = a_console()
    live(read, console, 0.5, ends_after(3))
    frames = [frame for frame in shown(console) if "fleets" in frame]
    assert ["the disk is full" in frame for frame in frames[-3:]] == [False, True, False]
    assert "1 busy" in frames[-2]
    assert "20:00:00" in frames[-2]


def test_what_is_wrong_at_the_beginning_is_no_view() -> None:
    def read() -> Record:
        raise JournalError("a newer release wrote it")

    console = a_console()
    with pytest.raises(JournalError):
        live(read, console, 0.5, ends_after(1))
    assert shown(console) == []

"""The display on a terminal: what is on the screen, and what it costs."""

from __future__ import annotations

import io
import math
import os
import pty
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.segment import SegmentLines

from tests.engine.display import streams
from tests.engine.display.test_plain import Clock
from tidepool.engine import urn as urns
from tidepool.engine.display import live, markup
from tidepool.engine.display.board import Board
from tidepool.engine.display.live import LiveDisplay
from tidepool.engine.display.settings import Settings
from tidepool.engine.display.show import make_display
from tidepool.engine.events import (
    Cancel,
    Diagnostic,
    Op,
    Prelude,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    StepMetadata,
    Summary,
)

SETTINGS = Settings("update", False, "dev", "proj")
GROUP = streams.step(
    Op.CREATE,
    None,
    streams.state(urns.make("dev", "proj", "", "tide:index/group:Group", "grp"), custom=False),
)


def board_of(*begun: StepMetadata, done: int = 0, clock: Callable[[], float] | None = None) -> Board:
    board = Board(SETTINGS, clock or Clock())
    board.event(ResourcePre(streams.root(), False))
    for i in range(done):
        step = streams.create(f"done-{i:05d}")
        board.event(ResourcePre(step, False))
        board.event(ResourceOutputs(step, False))
    for step in begun:
        board.event(ResourcePre(step, False))
    return board


def screen(board: Board, width: int = 90, height: int = 24, **how: Any) -> list[str]:
    how = {"beat": 0, "unicode": True, "cancelling": False} | how
    terminal = Console(file=io.StringIO(), width=width, height=height)
    drawn = SegmentLines(live.moment(board, height=height, **how), new_lines=True)
    lines = terminal.render_lines(drawn, pad=False)
    return ["".join(segment.text for segment in line) for line in lines]


def test_rows_stand_in_a_tree_with_what_happens_to_them() -> None:
    clock = Clock()
    child, other = streams.create("inner", parent=GROUP.urn), streams.create("outer")
    board = board_of(GROUP, child, other, clock=clock)
    clock.time += 3
    board.event(Diagnostic("info", "waiting\nfor it", child.urn, ephemeral=True))
    board.event(ResourceOutputs(other, False))
    assert screen(board) == [
        "     Type                      Name      Status           Info",
        " +   pulumi:pulumi:Stack       proj-dev  ⠋ creating (3s)",
        " +   ├─ tide:index:Group       grp       ⠋ creating (3s)",
        " +   │  └─ cloud:index:Server  inner     ⠋ creating (3s)  waiting",
        " +   └─ cloud:index:Server     outer     created (3s)",
    ]


def test_finished_rows_give_way_to_running_and_failed_ones() -> None:
    running = [streams.create(f"run-{i}") for i in range(5)]
    board = board_of(*running, done=1000)
    broken = streams.create("broken")
    board.event(ResourcePre(broken, False))
    board.event(Diagnostic("error", "no", broken.urn))
    board.event(ResourceFailed(broken))
    lines = screen(board, height=16)
    assert len(lines) <= 16 - 2
    names = re.findall(r"(run-\d|broken|done-\d+)", "\n".join(lines))
    assert {f"run-{i}" for i in range(5)} | {"broken"} <= set(names)
    shown_done = [name for name in names if name.startswith("done")]
    assert "done-00999" in shown_done
    assert lines[-1] == f"     ... and {1000 - len(shown_done)} more done"


def test_more_running_than_the_screen_holds_are_counted() -> None:
    board = board_of(*(streams.create(f"run-{i:03d}") for i in range(100)))
    lines = screen(board, height=12)
    assert len(lines) <= 10
    shown = sum("run-" in line for line in lines)
    assert shown > 0
    assert lines[-1] == f"     ... and {100 - shown} more under way"


@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(1, 40),
    st.integers(1, 130),
    st.booleans(),
)
def test_a_screen_is_never_too_high_nor_too_wide(
    running: int, done: int, failed: int, height: int, width: int, cancelling: bool
) -> None:
    board = board_of(*(streams.create(f"run-{i}-名前", parent=GROUP.urn) for i in range(running)), done=done)
    for i in range(failed):
        step = streams.create(f"bad-{i}")
        board.event(ResourcePre(step, False))
        board.event(ResourceFailed(step))
    lines = screen(board, width, height, beat=3, cancelling=cancelling)
    assert len(lines) <= max(height - 1, 4)
    assert all(cell_len(line) <= width for line in lines)


@given(st.text(alphabet="ab名<>{%", max_size=20))
def test_text_is_drawn_as_it_is_written_elsewhere(text: str) -> None:
    text = f"{markup.RED}{text}{markup.RESET}{text}"
    assert "".join(segment.text for segment in live.segments(text)) == markup.plain(text)


def test_drawing_looks_at_as_many_rows_as_the_screen_holds() -> None:
    """The cost of a drawing is counted in rows drawn, not in seconds."""
    counts = []
    for done in (100, 10_000):
        board = board_of(*(streams.create(f"run-{i}") for i in range(8)), done=done)
        looked = 0
        original = board.shown_op

        def counting(row: Any, steps_of_replacements: bool) -> Op:
            nonlocal looked
            looked += 1
            return original(row, steps_of_replacements)  # noqa: B023  # called within the loop only

        board.shown_op = counting  # type: ignore[method-assign]
        board.rows = _Unwalked(board.rows)
        screen(board, height=30)
        counts.append(looked)
    assert counts[0] == counts[1] <= 30


class _Unwalked(dict[str, Any]):
    """Rows that may be looked up, but not gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a drawing went through all rows")

    def values(self) -> Any:
        raise AssertionError("a drawing went through all rows")

    items = values


@contextmanager
def terminal() -> Iterator[tuple[Any, list[bytes]]]:
    """A pseudo terminal of 100 by 30, and what was written to it (complete when it is closed)."""
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    written: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(leader, 65_536):
                written.append(piece)
        except OSError:
            pass  # the other end was closed

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with os.fdopen(follower, "w", encoding="utf-8") as stdout:
            yield stdout, written
    finally:
        reader.join()
        os.close(leader)


def test_ten_thousand_rows_are_drawn_ten_times_a_second_and_kept_once() -> None:
    clock = Clock()
    count, took_s = 10_000, 5.0
    with terminal() as (stdout, written):
        display = LiveDisplay(stdout, SETTINGS, clock)
        display.event(Prelude({}))
        display.event(ResourcePre(streams.root(), False))
        for i in range(count):
            step = streams.create(f"node-{i:05d}", {"size": i})
            display.event(ResourcePre(step, False))
            display.event(ResourceOutputs(step, False))
            clock.time += took_s / count
        drawings = display.drawings
        during = sum(map(len, written))
        display.event(ResourceOutputs(streams.root(new={"ip": "1.2.3.4"}), False))
        display.event(Summary(False, False, took_s, {Op.CREATE: count + 1}, "succeeded"))
        display.event(Cancel())
        display.close()
    assert 10 <= drawings <= took_s * 10 + 1
    # A drawing writes a screen, whatever the number of resources.
    assert during <= (drawings + 1) * 30 * 160
    text = b"".join(written).decode()
    kept = text[text.rindex("\x1b[1A\x1b[2K") :]
    assert len(set(re.findall(r"node-\d{5}", kept))) == count
    assert re.findall(r"ip: \"1.2.3.4\"", kept) == ['ip: "1.2.3.4"']
    assert f"+ {count + 1} created" in kept
    assert "Duration: 5s" in kept
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is given back"
    assert "\x1b" not in text[text.index("\x1b[?25h") + 6 :], "nothing is drawn over after that"


def test_ticks_draw_no_more_often_than_they_may() -> None:
    clock = Clock()
    display = LiveDisplay(io.StringIO(), SETTINGS, clock, size=lambda: (80, 24))
    display.tick()
    assert display.drawings == 0, "nothing has begun"
    display.event(Prelude({}))
    for _ in range(1000):
        display.tick()
    assert display.drawings == 1
    for _ in range(10):
        clock.time += 0.05
        display.tick()
    assert display.drawings <= 6


def test_a_terminal_that_became_narrower_is_cleared_of_wrapped_lines() -> None:
    out, size, clock = io.StringIO(), [80], Clock()
    display = LiveDisplay(out, SETTINGS, clock, size=lambda: (size[0], 24))
    display.event(ResourcePre(streams.create("web"), False))
    drawn = out.getvalue()
    lines = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", drawn).replace("\r", "").split("\n")[1:]
    size[0], clock.time = 20, clock.time + 1
    display.tick()
    cleared = out.getvalue()[len(drawn) :].count("\x1b[1A\x1b[2K") + 1
    assert cleared == sum(math.ceil(len(line) / 20) for line in lines) > len(lines)


def test_cancelling_is_shown_at_once() -> None:
    out = io.StringIO()
    display = LiveDisplay(out, SETTINGS, Clock(), size=lambda: (120, 24))
    display.event(ResourcePre(streams.root(), False))
    display.event(ResourcePre(GROUP, False))
    display.event(ResourcePre(streams.create("web"), False))
    before = len(out.getvalue())
    display.cancelling()
    assert (
        "^C received; cancelling: waiting for 1 operation to end. Interrupt again to end at once"
        in out.getvalue()[before:]
    )


def test_messages_for_the_person_stay_above_the_rows() -> None:
    out = io.StringIO()
    display = LiveDisplay(out, SETTINGS, Clock(), size=lambda: (80, 24))
    display.event(ResourcePre(streams.create("web"), False))
    display.event(Stdout("read this\n"))
    display.close()
    assert re.search(r"\x1b\[1A\x1b\[2Kread this\n", out.getvalue())


def test_the_heartbeat_draws_between_events_and_ends() -> None:
    ticked = threading.Event()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            if "⠙" in text or "/" in text:
                ticked.set()
            return super().write(text)

    out = Watched()
    display = make_display(SETTINGS, stdout=out, stderr=io.StringIO(), interactive=True)
    display.event(ResourcePre(streams.create("web"), False))
    assert ticked.wait(10), "no second drawing came"
    display.close()
    assert not any(thread.name == "display-heartbeat" for thread in threading.enumerate())


def test_an_operation_outlives_its_terminal() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError("gone")

    stderr = io.StringIO()
    display = make_display(SETTINGS, stdout=Gone(), stderr=stderr, interactive=True, heartbeat=False)
    display.event(ResourcePre(streams.create("web"), False))
    display.close()
    assert stderr.getvalue().startswith("warning: this display is not complete")


@pytest.mark.parametrize("count", [1, 3000])
def test_a_deep_tree_is_drawn(count: int) -> None:
    parent, steps = streams.ROOT, []
    for i in range(count):
        name = urns.make("dev", "proj", "", "tide:index/group:Group", f"level-{i}")
        steps.append(streams.step(Op.CREATE, None, streams.state(name, parent=parent, custom=False)))
        parent = name
    table = live.table_of_changes(board_of(*steps), unicode=True)
    assert len(table) == count + 1

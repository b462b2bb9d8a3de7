"""Whose turn it is on a stack."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidepool.scaling.stack.turn import person_turn, remove_turns, try_turn

_LONG_S = 20


def let_go(turn: int | None) -> None:
    assert turn is not None
    os.close(turn)


@contextmanager
def a_person(folder: Path) -> Iterator[tuple[threading.Event, threading.Event, threading.Event]]:
    """Somebody who wants a turn: when they wait, when they have it; and the last lets them end."""
    waits, has, may_end = threading.Event(), threading.Event(), threading.Event()

    def want() -> None:
        with person_turn(folder, waits.set):
            has.set()
            assert may_end.wait(_LONG_S)

    thread = threading.Thread(target=want)
    thread.start()
    try:
        yield waits, has, may_end
    finally:
        may_end.set()
        thread.join(_LONG_S)
        assert not thread.is_alive()


def test_only_one_has_it(tmp_path: Path) -> None:
    first = try_turn(tmp_path / "dev")
    assert try_turn(tmp_path / "dev") is None
    let_go(first)
    let_go(try_turn(tmp_path / "dev"))
    assert (tmp_path / "dev").stat().st_mode & 0o077 == 0


def test_a_person_waits_for_the_scaler_and_goes_before_its_next(tmp_path: Path) -> None:
    turn = try_turn(tmp_path)
    with a_person(tmp_path) as (waits, has, _):
        assert waits.wait(_LONG_S)
        assert not has.is_set()
        let_go(turn)
        # However soon the scaler wants it again.
        assert try_turn(tmp_path) is None
        assert has.wait(_LONG_S)
        assert try_turn(tmp_path) is None
    let_go(try_turn(tmp_path))


def test_what_was_ordered_before_waits_for_a_person_too(tmp_path: Path) -> None:
    waited, came = threading.Event(), threading.Event()

    def goes_on() -> None:
        with person_turn(tmp_path, waited.set, after_persons=True):
            came.set()

    with a_person(tmp_path) as (_, has, may_end):
        assert has.wait(_LONG_S)
        thread = threading.Thread(target=goes_on)
        thread.start()
        assert waited.wait(_LONG_S)
        assert not came.wait(0.2)
        may_end.set()
        assert came.wait(_LONG_S)
        thread.join(_LONG_S)
    let_go(try_turn(tmp_path))


def test_a_person_who_need_not_wait_is_not_told_so(tmp_path: Path) -> None:
    with person_turn(tmp_path, lambda: (_ for _ in ()).throw(AssertionError)):
        assert try_turn(tmp_path) is None


def test_a_child_that_inherits_it_holds_it_to_its_end(tmp_path: Path) -> None:
    turn = try_turn(tmp_path)
    assert turn is not None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[turn]) as child:
        os.close(turn)
        assert try_turn(tmp_path) is None
        child.communicate(b"\n", _LONG_S)
    let_go(try_turn(tmp_path))


def test_who_waits_for_what_is_forgotten_looks_again(tmp_path: Path) -> None:
    turn = try_turn(tmp_path)
    with a_person(tmp_path) as (waits, has, _):
        assert waits.wait(_LONG_S)
        # A `down` that removes the stack's folder.
        remove_turns(tmp_path)
        assert list(tmp_path.iterdir()) == []
        let_go(turn)
        assert has.wait(_LONG_S)
        assert try_turn(tmp_path) is None

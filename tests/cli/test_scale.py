"""`scale`, `pause`, `continue`; and how `up` and `down` go with a scaler that is at work."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.standins import OUTPUTS, FakeEngine, Person
from tidepool.cli import errors, show, stack_spec
from tidepool.scaling.journal import open_journal
from tidepool.scaling.stack.turn import try_turn

_LONG_S = 20


def test_where_nothing_is_up_it_says_so(somebody: Person) -> None:
    said = somebody.runs("scale", "--once")
    assert said.exit_code == errors.NOT_THERE, said.output
    assert "tidepool up" in said.output
    # Who looked only once holds nothing afterwards.
    assert somebody.runs("scale", "--once").exit_code == errors.NOT_THERE


def test_it_is_roots(somebody: Person) -> None:
    for verb in ("scale", "pause", "continue"):
        said = somebody.runs(verb, root=False)
        assert (said.exit_code, "sudo" in said.output) == (errors.LACKS, True), verb


@pytest.mark.parametrize("where", ["here", "127.0.0.1", "127.0.0.1:x", ":9417", "127.0.0.1:65536"])
def test_where_to_listen_is_a_host_and_a_port(somebody: Person, where: str) -> None:
    said = somebody.runs("scale", "--listen", where)
    assert said.exit_code == errors.USAGE
    assert "HOST:PORT" in said.output
    assert "Traceback" not in said.output


def test_what_a_person_pauses_stays_paused_until_they_let_it_go_on(somebody: Person) -> None:
    assert somebody.runs("pause", "--reason", "we look").exit_code == 0
    folder = somebody.context.data / "dev" / "scaler"
    assert folder.stat().st_mode & 0o077 == 0
    journal = open_journal(folder, {}, stack="dev")
    paused = journal.paused()
    assert paused is not None
    assert paused.reason == "we look"
    assert "acts again" in somebody.runs("continue").output
    assert journal.paused() is None
    assert "was not paused" in somebody.runs("continue").output
    journal.close()


@pytest.mark.parametrize("verb", ["up", "down"])
def test_a_person_waits_for_the_scalers_operation_and_not_the_other_way_round(
    somebody: Person, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    waits, at_work, may_end = threading.Event(), threading.Event(), threading.Event()
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        waits.set()

    class Slow(FakeEngine):
        def run(self, *words: Any, **more: Any) -> int:
            at_work.set()
            assert may_end.wait(_LONG_S)
            return super().run(*words, **more)

    monkeypatch.setattr(stack_spec, "preflight", lambda *_: ())
    monkeypatch.setattr(show, "tell", tell)
    engine = Slow(outputs=OUTPUTS)
    somebody.context = replace(somebody.context, engine=engine)
    folder = somebody.context.data / "dev"
    (somebody.context.data / "state").mkdir(parents=True)
    turn = try_turn(folder)
    assert turn is not None
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(somebody.runs(verb, "--yes").exit_code))
    thread.start()
    try:
        # What it says is what is waited for: a probe of the lock that says who is next would take it.
        assert waits.wait(_LONG_S)
        assert not at_work.is_set()
        os.close(turn)
        # Nor does the scaler come in between, whatever moment it tries at.
        while not at_work.is_set():
            assert try_turn(folder) is None
        assert try_turn(folder) is None
    finally:
        may_end.set()
        thread.join(_LONG_S)
    assert codes == [0]
    assert "waited for" in "".join(told)
    assert len(engine.ran) == 1

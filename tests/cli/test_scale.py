"""`scale`, `pause`, `continue`; and how `up` and `down` go with a scaler that is at work."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.cli.standins import OUTPUTS, Person
from tidepool.cli import described, errors
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
    folder = somebody.world.data / "dev" / "scaler"
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
    monkeypatch.setattr(described, "preflight", lambda *_: ())
    somebody.engine.outputs = OUTPUTS
    folder = somebody.world.data / "dev"
    (somebody.world.data / "state").mkdir(parents=True)
    turn = try_turn(folder)
    assert turn is not None
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(somebody.runs(verb, "--yes").output))
    thread.start()
    while (other := _waits(folder)) is None:
        assert thread.is_alive(), said
    assert other
    assert somebody.engine.ran == []
    os.close(turn)
    thread.join(_LONG_S)
    assert not thread.is_alive()
    assert "waited for" in said[0]
    assert len(somebody.engine.ran) == 1


def _waits(folder: Path) -> bool | None:
    """Whether somebody is next; None where nobody is yet."""
    import fcntl

    with (folder / "operation.next").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return None

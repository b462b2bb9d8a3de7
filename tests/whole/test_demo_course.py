"""The course of a demo, without a cluster: what a person is told, and what it exits with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.live import Live

from demo.course import Came, Course
from demo.scaler import ScalerError
from demo.shown import Shown
from tidepool.scaling.journal import open_journal

WELL = Came(("a table",), ("chart: c.svg",), (), "All is well.", "Go on: {tidepool} -s {stack} watch")


def course(came: Came | BaseException, asked: list[object] | None = None) -> Course:
    def runs(*arguments: object) -> Came:
        if asked is not None:
            asked.extend(each for each in arguments if not isinstance(each, Console))
        if isinstance(came, Came):
            return came
        raise came

    return Course("demo", "The demo.", "dev", "waves", runs)


@pytest.fixture(autouse=True)
def up(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`tidepool up` is another program, which says nothing and ends well."""

    def becomes(program: str) -> None:
        monkeypatch.setattr("demo.course._TIDEPOOL", program)

    becomes("/bin/true")
    return becomes


def test_what_came_of_it_is_told_with_what_may_be_done_then(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[object] = []
    assert course(WELL, asked).main(["--stack", "physics", "--waves", "2", "--charts", "there"]) == 0
    assert asked == ["physics", 2, Path("there")]
    said = capsys.readouterr().out
    assert said.splitlines()[:2] == ["a table", "chart: c.svg"]
    assert "All is well. The cluster took" in said
    assert said.endswith(".venv/bin/tidepool -s physics watch\n")


def test_what_is_wrong_is_told_and_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Came((), (), ("job 7 is FAILED",), "All is well.", "")
    assert course(wrong).main([]) == 1
    said = capsys.readouterr().out
    assert "WRONG: job 7 is FAILED" in said
    assert "Not all was as it should be." in said
    assert "All is well" not in said


def test_a_cluster_that_does_not_come_up_ends_it(up: Callable[[str], None]) -> None:
    asked: list[object] = []
    up("/bin/false")
    assert course(WELL, asked).main([]) == 1
    assert asked == []


def test_a_failure_is_told_in_its_words_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert course(ScalerError("nobody leads")).main([]) == 1
    assert capsys.readouterr().err == "nobody leads\n"


def test_who_interrupts_it_is_told_what_is_still_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert course(KeyboardInterrupt()).main([]) == 130
    assert "what was submitted is still there" in capsys.readouterr().err


def test_where_there_is_no_terminal_a_line_is_told_once_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.shown.time", SimpleNamespace(monotonic=lambda: 100.0))
    with (tmp_path / "said").open("w+") as said:
        console = Console(file=said, force_terminal=False)
        journal = open_journal(tmp_path / "journal", {}, stack="dev")
        shown = Shown(Live(console=console, auto_refresh=False), journal, "dev")
        for line in ("1 waiting", "1 waiting", "1 running"):
            shown.show(shown.view(), ["job 7"], line)
        shown.show(shown.view(), ["job 7"], "1 completed", is_last=True)
        journal.close()
        said.seek(0)
        # The third comes within the second of the first; the last one is told all the same.
        assert [line.split("s  ")[1] for line in said.read().splitlines()] == ["1 waiting", "1 completed"]

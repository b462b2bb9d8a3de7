"""The daemon's side: what waits is given until it is known to be written down."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tidepool.clients.slurm import Completed, Here, Malformed, Unreachable
from tidepool.cluster.controller_programs import REQUEST_PROGRAM
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.power import request
from tidepool.scaling.power.request import write
from tidepool.scaling.power.spool import PowerRequests, Request, Spool


@dataclass
class Controller:
    """A machine with the program and the folder of requests; an answer may be lost on its way."""

    folder: Path
    loses: int = 0
    is_there: bool = True
    where: str = "on machine ctl"
    power_demand: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if not self.is_there:
            raise Unreachable("no such machine", where=self.where, remedy="`tidepool up`")
        assert list(argv[1:3]) == ["-I", "-S"]
        assert argv[3] == REQUEST_PROGRAM
        self.power_demand.append(stdin)
        here = Here({"TIDEPOOL_POWER_SPOOL": str(self.folder)})
        done = here.run([sys.executable, "-I", "-S", request.__file__, *argv[4:]], stdin=stdin, timeout_s=30)
        if self.loses:
            self.loses -= 1
            return Completed(0, done.stdout[:-4], "")
        return done

    def close(self) -> None:
        return


def what(requests: Sequence[Request]) -> list[tuple[str, str]]:
    return [(each.what, str(each.nodes)) for each in requests]


def test_what_waits_is_given_until_it_is_done(tmp_path: Path) -> None:
    spool = Spool(Controller(tmp_path))
    write(str(tmp_path), "up", "cpu-[1-2]")
    write(str(tmp_path), "down", "cpu-1")
    first = spool.take()
    assert what(first) == [("up", "cpu-[1-2]"), ("down", "cpu-1")]
    assert spool.take() == first
    # Another daemon, after the first one died before it had written them down.
    assert Spool(Controller(tmp_path)).take() == first
    spool.done(first)
    write(str(tmp_path), "up", "cpu-9")
    assert what(spool.take()) == [("up", "cpu-9")]
    assert len(list(tmp_path.iterdir())) == 1


def test_an_answer_that_is_lost_loses_nothing(tmp_path: Path) -> None:
    controller = Controller(tmp_path)
    spool = Spool(controller)
    write(str(tmp_path), "up", "cpu-1")
    spool.done(spool.take())
    write(str(tmp_path), "up", "cpu-2")
    controller.loses = 1
    with pytest.raises(Malformed, match=r"cannot be taken: exit code 0 \(on machine ctl\); `tidepool up`"):
        spool.take()
    assert what(spool.take()) == [("up", "cpu-2")]
    # What was done was said again, for nobody knew whether it had been heard.
    assert controller.power_demand[1] == controller.power_demand[2] != ""
    spool.take()
    assert controller.power_demand[3] == ""


def test_a_request_that_cannot_be_read_asks_for_nothing_and_is_not_given_for_ever(tmp_path: Path) -> None:
    spool = Spool(Controller(tmp_path))
    name = write(str(tmp_path), "up", "cpu-1")
    for damage in ("", "up cpu-[1", "sideways cpu-1", "up cpu-1 cpu-2", "\0\0"):
        (tmp_path / name).write_text(damage)
        (found,) = spool.take()
        assert (found.name, found.nodes) == (name, HostSet())
    spool.done((found,))
    assert spool.take() == ()


def test_a_controller_that_was_made_before_there_was_such_a_thing_is_said() -> None:
    class Old(Controller):
        def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
            return Completed(2, "", "python3: can't open file: No such file\n")

    with pytest.raises(Malformed, match="can't open file: No such file"):
        Spool(Old(Path())).take()


def test_a_controller_that_is_away_is_said_once_and_asked_again(tmp_path: Path) -> None:
    controllers = {"ctl": Controller(tmp_path, is_there=False)}
    said: list[str] = []
    requests = PowerRequests(
        lambda at: Spool(controllers[at["machine"]]), lambda name, **more: said.append(name)
    )
    at = {"machine": "ctl"}
    write(str(tmp_path), "up", "cpu-1")
    assert requests.calls(at) == requests.calls(at) == ()
    assert said == ["requests-unheard"]
    controllers["ctl"].is_there = True
    calls = requests.calls(at)
    assert what(calls) == [("up", "cpu-1")]
    requests.done(calls)
    assert requests.calls(at) == ()
    assert said == ["requests-unheard", "requested"]


def test_another_controller_is_asked_by_its_own_connection(tmp_path: Path) -> None:
    opened: list[str] = []

    def open_it(at: object) -> Spool:
        opened.append(str(at))
        return Spool(Controller(tmp_path))

    requests = PowerRequests(open_it, lambda *_, **__: None)
    for machine in ("ctl", "ctl", "elsewhere"):
        requests.calls({"machine": machine})
    assert len(opened) == 2


def test_where_nothing_can_ask_nothing_is_heard() -> None:
    assert PowerRequests(None, lambda *_, **__: None).calls({}) == ()

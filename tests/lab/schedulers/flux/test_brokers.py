"""Brokers: which commands start and end them on which machines, what stands on /home meanwhile, and what is said when they do not come."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from tidepool.clients.transport import Completed, NotRunning
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.schedulers.flux import brokers as module
from tidepool.lab.schedulers.flux.brokers import Brokers

UP = Completed(0, " 15:50:11 run 1.2s,  owner root,  depth 0,  size 3\n", "")
JOINING = Completed(0, " 15:50:11 join 0.2s,  owner root,  depth 0,  size 3\n", "")


@dataclass
class Machine:
    """A machine that does what it is told, and remembers it; ``answers`` are those of some words, one after the other, the last for ever."""

    name: str
    told: list[str]
    processes: dict[int, str] = field(default_factory=dict)
    answers: dict[str, list[Completed]] = field(default_factory=dict)
    is_dead: bool = False

    @property
    def where(self) -> str:
        return f"on {self.name}"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if self.is_dead:
            raise NotRunning("it is gone", where=self.where, remedy="boot it")
        line = " ".join(argv)
        self.told.append(f"{self.name}: {line}")
        for word, answers in self.answers.items():
            if word in line:
                return answers.pop(0) if len(answers) > 1 else answers[0]
        return Completed(0, f"{self.name}\n", "")

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Site:
    brokers: Brokers
    ctl: Machine
    machines: Sequence[Machine]
    told: list[str]

    def told_of(self, word: str) -> list[str]:
        """The machines that were told something with this word, in order."""
        return [line.split(":")[0] for line in self.told if word in line]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    told: list[str] = []
    overlay = {
        "uptime": [JOINING, UP],
        "overlay": [Completed(0, "partial\n", ""), Completed(0, "full\n", "")],
    }
    ctl = Machine("ctl", told, answers=overlay)
    machines = [Machine(name, told) for name in ("m-1", "m-2")]
    brokers = Brokers(
        leader=ctl,
        machines={machine.name: machine for machine in machines},
        cores=2,
        here=tmp_path / ".lab/flux",
        there=PurePosixPath("/home/.lab/flux"),
        names=lambda name: next(m.processes for m in (ctl, *machines) if m.name == name),
        leader_machine="ctl",
    )
    return Site(brokers, ctl, machines, told)


def test_they_start_in_the_order_of_ranks_and_are_waited_for(site: Site) -> None:
    site.brokers.start()
    assert site.told_of("--start") == ["ctl", "m-1", "m-2"]
    assert [line.split("--name=")[1].split()[0] for line in site.told if "--start" in line] == [
        "flux-broker-0",
        "flux-broker-1",
        "flux-broker-2",
    ]
    # Until the leader runs, and has heard of all.
    assert len(site.told_of("uptime")) == 3
    assert len(site.told_of("overlay")) == 2


def test_what_stands_on_home_is_for_its_owner_alone_and_goes_with_them(site: Site) -> None:
    site.brokers.start()
    folder = site.brokers.here
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    said = tomllib.loads((folder / "flux.toml").read_text())
    assert [host["host"] for host in said["bootstrap"]["hosts"]] == ["ctl", "m-1", "m-2"]
    assert said["bootstrap"]["curve_cert"] == "/home/.lab/flux/curve.cert"
    site.brokers.stop()
    assert not folder.exists()


def test_those_of_a_trial_that_was_cut_off_are_ended_first(site: Site) -> None:
    site.brokers.start()
    site.told.clear()
    site.brokers.start()
    assert next(line for line in site.told if "start-stop-daemon" in line).startswith(
        "ctl: start-stop-daemon --stop"
    )
    assert site.told_of("--stop") == site.told_of("--start") == ["ctl", "m-1", "m-2"]


def test_a_dead_machine_has_no_broker_to_end(site: Site) -> None:
    site.brokers.start()
    site.machines[0].is_dead = True
    site.told.clear()
    site.brokers.stop()
    assert site.told_of("--stop") == ["ctl", "m-2"]
    assert not site.brokers.here.exists()


@pytest.mark.parametrize(
    ("processes", "starts"),
    [
        ({}, []),  # it is dead
        ({1: "init", 7: "slurmd"}, ["m-2"]),
        ({1: "init", 7: "slurmd", 9: "flux"}, []),  # it has just been started
        ({1: "init", 9: "flux-broker-2"}, []),
    ],
)
def test_a_machine_that_is_back_gets_its_broker(
    site: Site, processes: dict[int, str], starts: list[str]
) -> None:
    site.ctl.processes = {5: "flux-broker-0"}
    site.machines[0].processes = {6: "flux-broker-1"}
    site.machines[1].processes = processes
    site.brokers.start_those_that_ended()
    assert site.told_of("--start") == starts


def test_processes_are_told_by_part(site: Site) -> None:
    site.ctl.processes = {
        1: "init",
        5: "flux-broker-0",
        6: "sched-simple",
        7: "job-validator",
        8: "slurmctld",
    }
    site.machines[0].processes = {11: "flux-broker-1", 12: "flux-shell", 13: "slurmd"}
    site.machines[1].processes = {21: "flux-broker-2"}
    assert site.brokers.parts() == {
        "flux-broker-0": [5],
        "sched-simple": [6],
        "job-validator": [7],
        "flux-broker": [11, 21],
        "flux-shell": [12],
    }


def _refuses(site: Site) -> None:
    site.machines[1].answers["--start"] = [
        Completed(2, "", "start-stop-daemon: unable to stat /opt/flux/bin/flux\n")
    ]


def _is_dead(site: Site) -> None:
    site.machines[1].is_dead = True


def _stays_away(site: Site) -> None:
    site.ctl.answers |= {"uptime": [UP], "overlay": [Completed(0, "partial\n", "")]}


def _does_not_run(site: Site) -> None:
    site.ctl.answers["uptime"] = [Completed(1, "", "flux-uptime: ERROR: Unable to connect to Flux\n")]


@pytest.mark.parametrize(
    ("amiss", "said"),
    [
        (
            _refuses,
            r"start-stop-daemon failed on m-2: .*unable to stat /opt/flux/bin/flux; is its image debian-12-flux\?",
        ),
        (
            _stays_away,
            r"Flux did not come up on m-1, m-2 within 0 s: partial; see /run/flux/broker.log on ctl",
        ),
        (_is_dead, r"it is gone \(on m-2\); boot it"),
        (_does_not_run, r"Flux did not come up .*Unable to connect to Flux"),
    ],
)
def test_what_does_not_come_up_is_said(
    site: Site, monkeypatch: pytest.MonkeyPatch, amiss: Callable[[Site], None], said: str
) -> None:
    monkeypatch.setattr(module, "_WHOLE_S", 0.0)
    amiss(site)
    with pytest.raises(SchedulerFailed, match=said):
        site.brokers.start()

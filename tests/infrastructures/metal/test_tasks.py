"""Tasks of hosts by what their BMCs say meanwhile; with hosts that are quick, dead, or lose their power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidepool.cluster.failures import Transient
from tidepool.infrastructures.boot_media.media import Report, Task
from tidepool.infrastructures.metal.inventory import Claim, Facts
from tidepool.infrastructures.metal.tasks import NotOver, run_task

CLAIM = Claim("one", "cpu-1", "00000001", True)
DONE = Report("00000001", "wipe", True, "all of it was zeroed")


@dataclass
class Host:
    """A BMC and the media of its host. ``on`` is called when it is told to go on."""

    on: Callable[[Host], object]
    power: str = "Off"
    told: Report | None = None
    doing: bool = False
    said: list[str] = field(default_factory=list)
    begun: list[bool] = field(default_factory=list)

    # A BMC

    def facts(self, *, whole: bool = False) -> Facts:
        return Facts(self.power)

    def reset(self, how: str) -> None:
        self.said.append(how)
        self.power = "On" if how == "On" else "Off"
        if how == "On":
            self.on(self)

    def boot_from(self, url: str) -> None:
        self.said.append(url)

    # Media

    def publish(self, host: str, claim: Claim, task: Task) -> str:
        return task

    def begin(self, host: str, *, begun: bool) -> None:
        self.begun.append(begun)

    def report(self, host: str, claim: Claim, task: Task) -> Report | None:
        return self.told

    def is_doing(self, host: str, claim: Claim, task: Task) -> bool:
        return self.doing


def run(host: Host, waits: int = 5) -> Report:
    left = iter(range(waits))
    it: Any = host
    return run_task(it, it, "alpha", CLAIM, "wipe", lambda _: next(left, None) is not None)


def says(host: Host) -> None:
    host.told = DONE


def goes_off(host: Host) -> None:
    host.power = "Off"


def test_a_host_that_is_over_before_anybody_sees_that_it_is_on_has_done_it() -> None:
    def quick(host: Host) -> None:
        says(host)
        goes_off(host)

    host = Host(quick)
    assert run(host) == DONE
    assert host.said == ["wipe", "On"]


def test_a_host_that_has_said_it_is_switched_off() -> None:
    host = Host(says)
    assert run(host) == DONE
    assert (host.said, host.power) == (["wipe", "On", "ForceOff"], "Off")


def test_a_host_that_does_it_already_is_waited_for_and_one_that_does_something_else_is_booted_anew() -> None:
    host = Host(says, power="On", doing=True)
    with pytest.raises(NotOver, match="not over yet: wipe of its disk"):
        run(host)
    assert host.said == []
    host = Host(says, power="On")
    assert run(host) == DONE
    assert host.said == ["ForceOff", "wipe", "On", "ForceOff"]


def test_a_host_that_does_not_go_on_has_written_nothing() -> None:
    host = Host(goes_off)
    with pytest.raises(Transient, match="told to go on, and its BMC says Off still"):
        run(host)
    assert host.begun == [True, False]


def test_a_host_that_goes_off_again_and_again_is_told() -> None:
    host = Host(lambda _: None)

    def wait(_: str) -> bool:
        goes_off(host)
        return True

    it: Any = host
    with pytest.raises(Transient, match="went off 3 times before its task was over"):
        run_task(it, it, "alpha", CLAIM, "wipe", wait)
    assert host.said == ["wipe", "On"] * 3

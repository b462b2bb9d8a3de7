"""What the first process does for a machine's services."""

from __future__ import annotations

import re
import signal
import time

import pytest

from tests.infrastructures.local.stacks import PYTHON, Stack
from tidepool.cluster.boot import Service
from tidepool.infrastructures.local.kernel import (
    Machine,
    TimedOut,
    boot_log,
    execute,
    read_machine,
    stop_machine,
    wait_ready,
)
from tidepool.infrastructures.local.kernel.record import ServiceState

_SLEEP = ("/bin/sleep", "1000")
#: It says when it is ready to be told.
_UNTIL_TOLD = "trap 'exit 0' TERM; echo armed; while :; do sleep 0.05; done"
_SLEEPS_UNTIL_TOLD = ("/bin/sh", "-ec", _UNTIL_TOLD, "said-to-end")


def _ready(stack: Stack) -> Machine:
    return wait_ready(stack.data, stack.name, "cpu-1", 20)


def _do(stack: Stack, *argv: str) -> None:
    assert execute(stack.data, stack.name, "cpu-1", argv, timeout_s=20).code == 0


def _log(stack: Stack) -> str:
    return boot_log(stack.data, stack.name, "cpu-1")


def _until(stack: Stack, *expected: tuple[str, str, int]) -> None:
    """Wait until the services are so: names, states, restarts. It polls what a file tells, with a deadline."""
    deadline = time.monotonic() + 20
    while True:
        machine = read_machine(stack.data, stack.name, "cpu-1")
        assert machine is not None
        found = tuple((each.name, each.state, each.restarts) for each in machine.services)
        if found == expected:
            return
        assert time.monotonic() < deadline, (found, _log(stack))
        time.sleep(0.005)


def _armed(stack: Stack, times: int) -> None:
    """Wait until who sleeps until it is told has begun so often, and hears what it is told."""
    deadline = time.monotonic() + 20
    while (log := _log(stack)).splitlines().count("armed") < times:
        assert time.monotonic() < deadline, log
        time.sleep(0.005)


def test_each_starts_when_the_one_before_is_ready(stack: Stack) -> None:
    stack.network()
    late = "import socket, time; time.sleep(0.3); s = socket.create_server(('', 7000)); time.sleep(1000)"
    file = "import pathlib, time; pathlib.Path('/run/x').touch(); time.sleep(1000)"
    bound = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('/run/s'); s.listen(); time.sleep(1000)"
    stack.create(
        stack.spec(
            1,
            Service("command", ("/bin/sleep", "0.1"), once=True),
            Service("port", (PYTHON, "-c", late), ready="tcp:7000"),
            Service("socket", (PYTHON, "-c", bound), ready="unix:/run/s"),
            Service("file", (PYTHON, "-c", file), ready="path:/run/x"),
            Service("last", ("/usr/bin/test", "-e", "/run/x"), once=True),
        )
    )
    services = _ready(stack).services
    assert [each.name for each in services] == ["command", "port", "socket", "file", "last"]
    assert [each.state for each in services] == ["done", "up", "up", "up", "done"]
    assert [each.restarts for each in services] == [0] * 5
    said = re.findall(r"init: (\w+): (started|ready)", _log(stack))
    names = ("command", "port", "socket", "file", "last")
    assert said == [(name, what) for name in names for what in ("started", "ready")]


def test_one_begins_when_its_path_is_there_each_time(stack: Stack) -> None:
    stack.network()
    stack.create(
        stack.spec(
            1,
            Service("first", _SLEEP),
            Service("second", _SLEEP, begins="path:/etc/slurm/slurm.conf"),
            Service("third", _SLEEP),
        )
    )
    waiting = (("first", "up", 0), ("second", "waiting", 0), ("third", "waiting", 0))
    _until(stack, *waiting)
    with pytest.raises(TimedOut, match="second is waiting, third is waiting"):
        wait_ready(stack.data, stack.name, "cpu-1", 0.05)
    assert stack.run("sh", "-c", "mkdir /etc/slurm; touch /etc/slurm/slurm.conf").code == 0
    second = _ready(stack).services[1]
    assert second.state == "up"
    assert stack.run("sh", "-c", f"rm /etc/slurm/slurm.conf; kill {second.pid}").code == 0
    _until(stack, ("first", "up", 0), ("second", "waiting", 0), ("third", "up", 0))
    assert stack.run("touch", "/etc/slurm/slurm.conf").code == 0
    _until(stack, ("first", "up", 0), ("second", "up", 1), ("third", "up", 0))


def test_a_machine_stops_while_a_service_waits_to_begin(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec(1, Service("never", _SLEEP, begins="path:/nowhere")))
    stop_machine(stack.data, stack.name, "cpu-1")
    assert _log(stack).endswith("init: stopped\n")
    assert "never: started" not in _log(stack)


def test_it_runs_as_its_user_with_its_environment_only(stack: Stack) -> None:
    stack.network()
    show = Service("env", ("/usr/bin/env",), environment=(("HOME", "/x"), ("A", "b c=d\n'\"")), once=True)
    who = Service("id", ("/usr/bin/id",), user="smith", once=True)
    stack.create(stack.spec(1, show, who))
    _ready(stack)
    log = _log(stack)
    assert "uid=1234(smith) gid=1234(smith) groups=1234(smith),44(video)\n" in log
    variables = re.sub(r"^20\S+ init: .*\n", "", log, flags=re.MULTILINE)
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    assert variables.startswith(f"{path}LANG=C.UTF-8\nHOME=/x\nA=b c=d\n'\"\nuid=")


def test_a_dead_one_is_started_again_at_once_and_then_slower(stack: Stack) -> None:
    stack.network()
    first = Service("first", _SLEEP)
    stack.create(stack.spec(1, first, Service("second", _SLEEP)))
    second = _ready(stack).services[1]
    for restarts in (1, 2, 3):
        pid = next(each.pid for each in stack.read().services if each.name == "first")
        assert stack.run("kill", "-9", str(pid)).code == 0
        _until(stack, ("first", "up", restarts), ("second", "up", 0))
    assert stack.read().services[1] == second, "the others go on"
    lines = [line for line in _log(stack).splitlines() if "first: " in line]
    assert sum("first: killed by signal 9" in line for line in lines) == 3
    deaths = [_milliseconds(line) for line in lines if "killed" in line]
    starts = [_milliseconds(line) for line in lines if "started" in line][1:]
    waits = [start - death for death, start in zip(deaths, starts, strict=True)]
    assert waits[0] < 1000, waits
    assert waits[1] >= 99, waits
    assert waits[2] >= 199, waits


def _milliseconds(line: str) -> float:
    hours, minutes, seconds = line[11:23].split(":")  # of 2026-11-21T15:17:19.123Z
    return (int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000


def test_what_cannot_run_says_why_and_holds_back_the_next(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec(1, Service("bad", ("/no/such",), once=True), Service("next", _SLEEP)))
    with pytest.raises(
        TimedOut, match=r"bad is (backing-off|starting), next is waiting(?s:.*)cannot run /no/such"
    ):
        wait_ready(stack.data, stack.name, "cpu-1", 0.5)
    assert stack.read().services[1] == ServiceState("next", "waiting", 0, 0)


def test_one_that_is_not_ready_in_time_is_killed_and_started_again(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec(1, Service("deaf", _SLEEP, ready="tcp:7000", ready_timeout_s=0.1)))
    deadline = time.monotonic() + 20
    while stack.read().services[0].restarts < 2:
        assert time.monotonic() < deadline, _log(stack)
        time.sleep(0.005)
    assert _log(stack).count("deaf: not ready after") >= 2


def test_orphans_are_reaped(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec(1, Service("sleep", _SLEEP)))
    orphan = "import os, time; os.fork() or (os.fork() or time.sleep(0.05))"
    for _ in range(3):
        assert stack.run(PYTHON, "-c", orphan).code == 0
    deadline = time.monotonic() + 10
    while "python" in (left := stack.run("ps", "-e", "-o", "stat=,comm=").stdout):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_stopping_goes_backwards_and_waits(stack: Stack) -> None:
    stack.network()
    polite = (
        "import signal, sys, time\n"
        "def bye(*_):\n    time.sleep(0.1); print(sys.argv[1], 'is leaving', flush=True); sys.exit()\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "open('/run/' + sys.argv[1], 'w')\n"
        "time.sleep(1000)\n"
    )
    services = [Service(n, (PYTHON, "-c", polite, n), ready=f"path:/run/{n}") for n in ("one", "two")]
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); open('/run/three', 'w'); time.sleep(1000)"
    )
    last = Service("three", (PYTHON, "-c", stubborn), ready="path:/run/three", stop_timeout_s=0.2)
    stack.create(stack.spec(1, *services, last))
    _ready(stack)
    stop_machine(stack.data, stack.name, "cpu-1")
    stop_machine(stack.data, stack.name, "cpu-1")
    said = re.findall(r"(three: still there|\w+ is leaving|init: stopped)", _log(stack))
    assert said == ["three: still there", "two is leaving", "one is leaving", "init: stopped"]


def test_a_machine_that_does_not_stop_is_made_to(stack: Stack) -> None:
    stack.network()
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); open('/run/x', 'w'); time.sleep(1000)"
    service = Service("stubborn", (PYTHON, "-c", stubborn), ready="path:/run/x", stop_timeout_s=1000)
    stack.create(stack.spec(1, service))
    _ready(stack)
    stop_machine(stack.data, stack.name, "cpu-1", timeout_s=0.1)
    assert stack.read().state == "dead"


def test_a_signal_from_within_does_not_end_the_machine(stack: Stack) -> None:
    stack.network()
    machine = stack.create(stack.spec(1, Service("sleep", _SLEEP)))
    _ready(stack)
    for number in (signal.SIGKILL, signal.SIGHUP, signal.SIGUSR1):
        stack.run("kill", f"-{int(number)}", "1")
    assert stack.read().pid == machine.pid


def test_one_that_is_for_failures_alone_stays_ended_until_it_is_asked_for(stack: Stack) -> None:
    """As a slurmctld that a backup took over from."""
    stack.network()
    stack.create(
        stack.spec(1, Service("one", _SLEEPS_UNTIL_TOLD, restart="on-failure"), Service("next", _SLEEP))
    )
    _ready(stack)
    _armed(stack, 1)
    _do(stack, "/usr/bin/pkill", "-KILL", "-f", "said-to-end")
    _until(stack, ("one", "up", 1), ("next", "up", 0))
    _armed(stack, 2)
    _do(stack, "/usr/bin/pkill", "-TERM", "-f", "said-to-end")
    _until(stack, ("one", "ended", 1), ("next", "up", 0))
    # A look at the machine's roles is no reason; a file of its name is.
    _do(stack, "/bin/kill", "-HUP", "1")
    time.sleep(0.2)
    _until(stack, ("one", "ended", 1), ("next", "up", 0))
    _do(stack, "/bin/sh", "-ec", "mkdir -p /run/tidepool/start; : >/run/tidepool/start/one; kill -HUP 1")
    _until(stack, ("one", "up", 2), ("next", "up", 0))
    _armed(stack, 3)
    # One that was asked for before it ended starts again, and that is over by it.
    _do(stack, "/bin/sh", "-ec", ": >/run/tidepool/start/one; pkill -TERM -f [s]aid-to-end")
    _until(stack, ("one", "up", 3), ("next", "up", 0))
    _armed(stack, 4)
    _do(stack, "/usr/bin/pkill", "-TERM", "-f", "said-to-end")
    _until(stack, ("one", "ended", 3), ("next", "up", 0))
    assert "it did so on purpose" in _log(stack)

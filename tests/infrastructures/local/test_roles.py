"""A machine's roles: services that run while it has them, in namespaces that end as a whole."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infrastructures.local.stacks import PYTHON, Stack, kill_hard
from tests.machine_faults import pull_plug
from tidepool.cluster.boot import Service
from tidepool.infrastructures.local.kernel import Machine, boot_log, stop_machine, wait_ready

_SLEEP = ("/bin/sleep", "1000")
_ROLES = "/var/lib/tidepool/roles"
#: Leaves a process behind that no signal to it reaches: of another session, ignoring all that can be ignored.
_LEAVES_ONE = (
    "import os, signal, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
    "        signal.signal(number, signal.SIG_IGN)\n"
    "    open('/run/left', 'w')\n"
    "    time.sleep(1000)\n"
    "time.sleep(1000)\n"
)


def _create(stack: Stack, *services: Service) -> Machine:
    stack.network()
    return stack.create(stack.spec(1, *services))


def _two_roles(stack: Stack) -> Machine:
    return _create(
        stack,
        Service("always", _SLEEP),
        Service("one", _SLEEP, role="work"),
        Service("two", (PYTHON, "-c", _LEAVES_ONE), role="work", ready="path:/run/left"),
        Service("other", _SLEEP, role="play"),
    )


def _states(stack: Stack) -> dict[str, str]:
    return {each.name: each.state for each in stack.read().services}


def until(stack: Stack, holds: Callable[[Machine], bool]) -> Machine:
    deadline = time.monotonic() + 20
    while not holds(machine := stack.read()):
        assert time.monotonic() < deadline, (machine, boot_log(stack.data, stack.name, "cpu-1"))
        time.sleep(0.002)
    return machine


def until_states(stack: Stack, **states: str) -> Machine:
    def hold(machine: Machine) -> bool:
        found = {each.name: each.state for each in machine.services}
        return states.items() <= found.items()

    return until(stack, hold)


def take(stack: Stack, role: str) -> None:
    ended = stack.run("sh", "-c", f"mkdir -p {_ROLES} && touch {_ROLES}/{role} && kill -HUP 1")
    assert ended.code == 0, ended


def lose(stack: Stack, role: str) -> None:
    assert stack.run("sh", "-c", f"rm {_ROLES}/{role} && kill -HUP 1").code == 0


def test_its_services_run_while_the_machine_has_it(stack: Stack) -> None:
    _two_roles(stack)
    machine = wait_ready(stack.data, stack.name, "cpu-1", 20)
    off = {"always": "up", "one": "off", "two": "off", "other": "off"}
    assert {each.name: each.state for each in machine.services} == off, "who waits for it waits for no role"
    take(stack, "work")
    until_states(stack, one="up", two="up", other="off")
    within = dict(
        line.split("\t")[:2] for line in stack.run("cat", "/run/tidepool/services").stdout.splitlines()[:-1]
    )
    assert within == _states(stack), "who looks from within sees the same"
    lose(stack, "work")
    until_states(stack, **off)
    said = re.findall(
        r"init: (?:role )?(one|two|work): (started|ended|killed|begins)",
        boot_log(stack.data, stack.name, "cpu-1"),
    )
    assert said == [
        ("work", "begins"), ("one", "started"), ("two", "started"),
        ("two", "killed"), ("one", "killed"), ("work", "ended"),
    ]  # fmt: skip


def test_nothing_that_it_started_outlives_it(stack: Stack) -> None:
    _two_roles(stack)
    take(stack, "work")
    until_states(stack, two="up")
    assert stack.run("pgrep", "-fc", "run/left").stdout.strip() == "2"
    folder = next(Path("/sys/fs/cgroup").glob(f"*/tidepool/*-{stack.name}/machines/cpu-1/inside/work"))
    pid = next(each.pid for each in stack.read().services if each.name == "two")
    assert stack.run("grep", "-c", "/work$", f"/proc/{pid}/cgroup").stdout.strip() != "0"
    lose(stack, "work")
    until_states(stack, one="off", two="off")
    assert stack.run("pgrep", "-fc", "run/left").stdout.strip() == "0"
    assert not folder.exists()


def test_it_is_seen_at_once(stack: Stack) -> None:
    _create(stack, Service("one", _SLEEP, role="work"))
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    script = (
        "import os, pathlib, signal, time\n"
        f"folder = pathlib.Path('{_ROLES}'); folder.mkdir(parents=True)\n"
        "def until(state):\n"
        "    began = time.monotonic()\n"
        "    os.kill(1, signal.SIGHUP)\n"
        "    while f'one\\t{state}' not in pathlib.Path('/run/tidepool/services').read_text():\n"
        "        assert time.monotonic() < began + 10\n"
        "    return time.monotonic() - began\n"
        "took = []\n"
        "for _ in range(5):\n"
        "    (folder / 'work').touch(); took.append(until('up'))\n"
        "    (folder / 'work').unlink(); took.append(until('off'))\n"
        "print(min(took[::2]), min(took[1::2]))\n"
    )
    ended = stack.run(PYTHON, "-c", script)
    assert ended.code == 0, ended
    joins, leaves = map(float, ended.stdout.split())
    assert joins < 1, "milliseconds, but for a machine with other work"
    assert leaves < 1


def test_a_dead_service_of_a_role_is_started_again(stack: Stack) -> None:
    _two_roles(stack)
    take(stack, "work")
    first = until_states(stack, one="up", two="up", always="up")
    pid = next(each.pid for each in first.services if each.name == "one")
    assert stack.run("kill", "-9", str(pid)).code == 0
    until(stack, lambda machine: [s.restarts for s in machine.services if s.state == "up"] == [0, 1, 0])


def test_a_role_whose_first_process_is_killed_begins_again_in_order(stack: Stack) -> None:
    _create(
        stack,
        Service("always", _SLEEP),
        Service("once", ("/bin/sleep", "0.05"), role="work", once=True),
        Service("two", (PYTHON, "-c", _LEAVES_ONE), role="work", ready="path:/run/left"),
    )
    take(stack, "work")
    until_states(stack, once="done", two="up")
    log = boot_log(stack.data, stack.name, "cpu-1")
    holder = re.findall(r"role work: begins, pid (\d+)", log)[-1]
    assert stack.run("sh", "-c", f"rm /run/left; kill -9 {holder}").code == 0
    until(stack, lambda _: boot_log(stack.data, stack.name, "cpu-1").count("role work: begins") == 2)
    until_states(stack, once="done", two="up", always="up")
    assert stack.run("pgrep", "-fc", "run/left").stdout.strip() == "2", "the old ones went with it"
    said = re.findall(
        r"init: (?:role )?(work|once|two): (begins|started|ready)", boot_log(stack.data, stack.name, "cpu-1")
    )
    order = [("work", "begins"), *((name, what) for name in ("once", "two") for what in ("started", "ready"))]
    assert [each for each in said if each[0] != "work"] == [each for each in order if each[0] != "work"] * 2


def test_one_that_does_not_stop_is_killed_in_its_time(stack: Stack) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); open('/run/x', 'w'); time.sleep(1000)"
    service = Service(
        "stubborn", (PYTHON, "-c", stubborn), role="work", ready="path:/run/x", stop_timeout_s=0.2
    )
    _create(stack, Service("always", _SLEEP), service)
    take(stack, "work")
    until_states(stack, stubborn="up")
    lose(stack, "work")
    until_states(stack, stubborn="off", always="up")
    assert "stubborn: still there after 200 ms: killed" in boot_log(stack.data, stack.name, "cpu-1")


def test_wanted_again_while_it_ends_it_ends_first(stack: Stack) -> None:
    slow = (
        "import os, signal, sys, time\n"
        "def bye(*_):\n"
        "    while not os.path.exists('/run/may-end'):\n"
        "        time.sleep(0.01)\n"
        "    sys.exit()\n"
        "signal.signal(15, bye); open('/run/x', 'w'); time.sleep(1000)"
    )
    service = Service("slow", (PYTHON, "-c", slow), role="work", ready="path:/run/x", stop_timeout_s=20)
    _create(stack, service)
    take(stack, "work")
    until_states(stack, slow="up")
    lose(stack, "work")
    until_states(stack, slow="stopping")
    take(stack, "work")
    assert stack.run("touch", "/run/may-end").code == 0
    until(stack, lambda _: boot_log(stack.data, stack.name, "cpu-1").count("slow: started") == 2)
    until_states(stack, slow="up")
    assert "role work: ended" in boot_log(stack.data, stack.name, "cpu-1")


def test_a_machine_that_boots_again_has_its_role_again(stack: Stack) -> None:
    _two_roles(stack)
    take(stack, "work")
    until_states(stack, two="up")
    pull_plug(stack.data, stack.name, "cpu-1")
    machine = _boot_again(stack)
    until_states(stack, one="up", two="up", other="off")
    assert machine.state == "running"
    stop_machine(stack.data, stack.name, "cpu-1")
    assert boot_log(stack.data, stack.name, "cpu-1").endswith("init: stopped\n")


def _boot_again(stack: Stack) -> Machine:
    services = (
        Service("always", _SLEEP),
        Service("one", _SLEEP, role="work"),
        Service("two", (PYTHON, "-c", _LEAVES_ONE), role="work", ready="path:/run/left"),
        Service("other", _SLEEP, role="play"),
    )
    return stack.create(stack.spec(1, *services))


def test_a_role_that_was_lost_without_power_leaves_no_groups(stack: Stack) -> None:
    machine = _two_roles(stack)
    take(stack, "work")
    until_states(stack, two="up")
    assert machine.pid is not None
    assert stack.run("rm", f"{_ROLES}/work").code == 0, "without a word to anyone"
    kill_hard(machine.pid)
    _boot_again(stack)
    until_states(stack, always="up", one="off")
    assert stack.run("find", "/sys/fs/cgroup", "-name", "work").stdout == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_first_process_of_a_role_is_not_reached_from_within(stack: Stack, number: signal.Signals) -> None:
    kills = f"import os, time; os.kill(1, {int(number)}); open('/run/done', 'w'); time.sleep(1000)"
    _create(stack, Service("kills", (PYTHON, "-c", kills), role="work", ready="path:/run/done"))
    take(stack, "work")
    assert [each.restarts for each in until_states(stack, kills="up").services] == [0]


ESCAPES = [
    "mount -t tmpfs none /tmp",
    "mknod /tmp/disk b 254 0",
    "echo 1 >/proc/sys/kernel/panic",
    "unshare --mount true",
    "nsenter --target 1 --mount true",
    "umount /proc",
]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("where", ["always", "role", "entered"])
def test_a_role_gives_nobody_more_than_other_services_have(stack: Stack, escape: str, where: str) -> None:
    """The first process of such a machine may mount; nothing else may, but who runs containers."""
    tries = f"{escape} 2>/run/said; echo $? >/run/code; exec sleep 1000"
    service = Service("tries", ("/bin/sh", "-c", tries), role="" if where == "always" else "work")
    _create(
        stack,
        *([] if where == "entered" else [replace(service, ready="path:/run/code")]),
        Service("r", _SLEEP, role="work"),
    )
    if where == "entered":
        assert stack.run("sh", "-c", escape).code != 0
        return
    take(stack, "work")
    until_states(stack, tries="up")
    until(stack, lambda _: stack.run("cat", "/run/code").stdout != "")
    assert stack.run("cat", "/run/code").stdout.strip() != "0", stack.run("cat", "/run/said")


def test_a_role_sees_its_own_processes_only(stack: Stack) -> None:
    shows = "ls -d /proc/[0-9]* | wc -l >/run/seen; exec sleep 1000"
    _create(stack, Service("always", _SLEEP), Service("shows", ("/bin/sh", "-c", shows), role="work"))
    take(stack, "work")
    until_states(stack, shows="up")
    until(stack, lambda _: stack.run("cat", "/run/seen").stdout.strip() in {"4", "3"})


@pytest.mark.slow
def test_many_changes_leave_the_machine_as_it_was(stack: Stack) -> None:
    """Taken, lost, taken again before it was lost, and killed as a whole, at any moment of the other."""
    machine = _create(
        stack,
        Service("always", _SLEEP),
        Service("once", ("/bin/true",), role="work", once=True),
        Service("two", (PYTHON, "-c", _LEAVES_ONE), role="work"),
        Service("other", _SLEEP, role="play"),
    )
    before = wait_ready(stack.data, stack.name, "cpu-1", 20).services
    mounts = stack.run("cat", "/proc/self/mounts").stdout
    opened = len(list(Path(f"/proc/{machine.pid}/fd").iterdir()))
    changes = (
        "import os, pathlib, random, signal, subprocess, time\n"
        f"folder = pathlib.Path('{_ROLES}'); folder.mkdir(parents=True)\n"
        "random.seed(7)\n"
        "for _ in range(200):\n"
        "    marker = folder / random.choice(('work', 'play'))\n"
        "    match random.randrange(4):\n"
        "        case 0 | 1: marker.touch()\n"
        "        case 2: marker.unlink(missing_ok=True)\n"
        "        case 3: subprocess.run(['pkill', '-KILL', '-x', marker.name])\n"
        "    os.kill(1, signal.SIGHUP)\n"
        "    time.sleep(random.choice((0, 0.001, 0.01, 0.03)))\n"
        "for marker in folder.iterdir(): marker.unlink()\n"
        "os.kill(1, signal.SIGHUP)\n"
    )
    assert stack.run(PYTHON, "-c", changes, timeout_s=60).code == 0
    until(stack, lambda machine: machine.services == before)
    log = boot_log(stack.data, stack.name, "cpu-1")
    assert log.count("role work: begins") > 5
    assert "first process was killed" in log
    assert len(list(Path(f"/proc/{machine.pid}/fd").iterdir())) == opened
    assert stack.run("find", "/sys/fs/cgroup", "-name", "work", "-o", "-name", "play").stdout == ""
    assert stack.run("pgrep", "-f", "run/left").stdout == ""
    assert stack.run("cat", "/proc/self/mounts").stdout == mounts

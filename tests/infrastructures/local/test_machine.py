"""A machine's life: made, found again, stopped, started, deleted."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infrastructures.local.stacks import Stack, run_python
from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.infrastructures.local.kernel import (
    BadSpec,
    BootFailed,
    InUse,
    NetworkSpec,
    NoSuchMachine,
    NoSuchNetwork,
    TimedOut,
    boot_log,
    create_machine,
    create_network,
    delete_machine,
    delete_network,
    enter_prefix,
    execute,
    list_machines,
    list_networks,
    read_machine,
    read_network,
    stop_machine,
    wait_ready,
)

_SECRET = "of-nobody-else"


def test_a_machine_has_its_own_name_address_and_processes(stack: Stack) -> None:
    stack.network()
    machine = stack.create(stack.spec())
    assert machine.state == "running"
    assert stack.run("hostname").stdout == "cpu-1\n"
    link = json.loads(stack.run("ip", "-json", "addr", "show", "eth0").stdout)[0]
    assert link["address"] == "02:00:0a:4d:00:0b"
    assert [(each["local"], each["prefixlen"]) for each in link["addr_info"]] == [("10.77.0.11", 16)]
    processes = stack.run("ps", "-e", "-o", "pid=,comm=").stdout.split("\n")
    assert len(processes) == 3, processes  # the first one, ps, and the end
    assert (machine.cpus, machine.memory_mib, machine.address) == (1.0, 64, "10.77.0.11")


def test_machines_of_a_network_reach_each_other_by_name(stack: Stack) -> None:
    stack.network()
    for number in (1, 2):
        stack.create(replace(stack.answering(number), aliases=(f"login-{number}",)))
        wait_ready(stack.data, stack.name, f"cpu-{number}", 20)
    assert stack.ask("cpu-2", on="cpu-1") == f"cpu-2 of {stack.name}"
    assert stack.ask("login-1", on="cpu-2") == f"cpu-1 of {stack.name}"
    # What is deleted is forgotten by those that stay.
    delete_machine(stack.data, stack.name, "cpu-2")
    assert stack.run("getent", "hosts", "cpu-2").code == 2


def test_machines_acknowledge_at_once(stack: Stack) -> None:
    """Slurm writes a message in two pieces, of which the second waits for the first one's acknowledgement."""
    stack.network()
    stack.create(stack.spec())
    (route,) = json.loads(stack.run("ip", "-json", "-details", "route", "show").stdout)
    assert (route["dst"], route["dev"], route["prefsrc"]) == ("10.77.0.0/16", "eth0", "10.77.0.11")
    assert {"quickack": 1} in route["metrics"]


def test_the_host_reaches_machines_through_the_network(stack: Stack) -> None:
    network = stack.network()
    stack.create(stack.answering())
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    asking = (
        "import socket, subprocess, sys\n"
        "code = 'import socket; print(socket.create_connection((\"10.77.0.11\", 7000), 5).recv(99).decode())'\n"
        "print(subprocess.check_output([*sys.argv[1:], sys.executable, '-c', code], text=True))\n"
    )
    assert run_python(asking, *network.prefix).stdout.strip() == f"cpu-1 of {stack.name}"


def test_a_switch_is_the_same_to_who_stays_when_a_machine_goes(stack: Stack) -> None:
    network = stack.network()
    stack.create(stack.spec())

    def ip(*argv: str) -> str:
        command = [*network.prefix, "ip", *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    def mac() -> str:
        (switch,) = json.loads(ip("-json", "link", "show", "switch"))
        return str(switch["address"])

    before = mac()
    assert before == "02:74:0a:4d:ff:fe"
    # A bridge's own choice is the lowest of its ports, which are random.
    ip("link", "add", "lowest", "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "other")
    ip("link", "set", "lowest", "master", "switch")
    assert mac() == before
    ip("link", "delete", "lowest")
    assert mac() == before


def test_creating_again_changes_nothing(stack: Stack) -> None:
    network = stack.network()
    assert stack.network() == network
    machine = stack.create(stack.answering())
    ready = wait_ready(stack.data, stack.name, "cpu-1", 20)
    again = stack.create(stack.answering())
    assert again.pid == machine.pid
    assert again.services == ready.services


def test_one_of_many_creators_makes_it(stack: Stack) -> None:
    with ThreadPoolExecutor(8) as pool:
        networks = list(pool.map(lambda _: stack.network(), range(8)))
        machines = list(pool.map(lambda _: stack.create(stack.spec()), range(8)))
    assert len({network.pid for network in networks}) == 1
    assert len({machine.pid for machine in machines}) == 1


def test_deleting_what_is_gone_succeeds(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    for _ in range(2):
        delete_machine(stack.data, stack.name, "cpu-1")
        assert read_machine(stack.data, stack.name, "cpu-1") is None
    for _ in range(2):
        delete_network(stack.data, stack.name, "net")
        assert read_network(stack.data, stack.name, "net") is None
    assert list_machines(stack.data, stack.name) == ()
    assert list_networks(stack.data, stack.name) == ()


def test_stopped_it_keeps_its_disk_and_deleted_it_does_not(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    assert stack.run("sh", "-c", "echo kept >/var/state").code == 0
    stop_machine(stack.data, stack.name, "cpu-1")
    assert stack.read().state == "dead"
    assert stack.read().pid is None
    with pytest.raises(NoSuchMachine, match=r"cpu-1 .* is not running"):
        stack.run("true")
    stack.create(stack.spec())
    assert stack.run("cat", "/var/state").stdout == "kept\n"
    delete_machine(stack.data, stack.name, "cpu-1")
    stack.create(stack.spec())
    assert stack.run("cat", "/var/state").code == 1


def test_the_image_is_never_written_to(stack: Stack) -> None:
    stack.network()
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in stack.image.rglob("*"))
    stack.create(stack.spec())
    assert stack.run("sh", "-c", "rm /etc/passwd; echo x >/etc/new; mkdir /var/run/new").code == 0
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in stack.image.rglob("*")) == before


def test_files_are_there_before_the_services_and_nowhere_else(stack: Stack) -> None:
    stack.network()
    service = Service("reader", ("/bin/cat", "/etc/munge/key"), user="smith", once=True)
    secret = File("/etc/munge/key", _SECRET, mode="0600", owner="smith", group="video")
    bytes_ = File("/var/run/bytes", "AP8K", is_base64=True)
    folder = Folder("/run/munge", mode="0711", owner="1234", group="44")
    spec = replace(stack.spec(1, service), files=(secret, bytes_), folders=(folder,))
    stack.create(spec)
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    assert stack.run("stat", "-c", "%a %U %G", "/etc/munge/key").stdout == "600 smith video\n"
    assert stack.run("stat", "-c", "%a %u %g", "/run/munge").stdout == "711 1234 44\n"
    assert stack.run("od", "-An", "-tx1", "/run/bytes").stdout.split() == ["00", "ff", "0a"]
    folder_of = stack.data / stack.name / "machines" / "cpu-1"
    holding = [path.relative_to(folder_of) for path in folder_of.rglob("*") if _holds(path, _SECRET)]
    # The service printed it; else only the machine's own disk has it, closed to others.
    assert sorted(map(str, holding)) == ["boot.log", "upper/etc/munge/key"]
    assert stat.S_IMODE(folder_of.stat().st_mode) == 0o700
    assert _SECRET not in repr(spec)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes()


def test_folders_of_the_host_are_mounted_as_asked(stack: Stack, tmp_path: Path) -> None:
    stack.network()
    (tmp_path / "file").write_text("here")
    mounts = (Mount(str(tmp_path), "/var/run/shared"), Mount(str(tmp_path), "/home", read_only=False))
    spec = stack.spec()
    stack.create(replace(spec, mounts=(*spec.mounts, *mounts)))
    assert stack.run("cat", "/run/shared/file").stdout == "here"  # not on the host, where the link points too
    assert "Read-only" in stack.run("touch", "/run/shared/new").stderr
    assert stack.run("touch", "/home/new").code == 0
    assert (tmp_path / "new").exists()
    assert not Path("/run/shared").exists()


def test_what_does_not_boot_is_told_and_leaves_nothing(stack: Stack) -> None:
    stack.network()
    spec = replace(stack.spec(), files=(File("/etc/key", "", owner="nobody-here"),))
    with pytest.raises(BootFailed, match="the image has no user nobody-here"):
        stack.create(spec)
    with pytest.raises(BootFailed, match="cannot mount overlay"):
        stack.create(replace(stack.spec(), image="/proc"))
    assert list_machines(stack.data, stack.name) == ()
    # Its address is free again.
    stack.create(replace(stack.spec(2), address=spec.address))


def test_refusals_name_what_stands_in_the_way(stack: Stack) -> None:
    with pytest.raises(NoSuchNetwork, match=r"network net of stack .* does not exist; create it first"):
        stack.create(stack.spec())
    stack.network()
    stack.create(stack.spec())
    with pytest.raises(InUse, match=r"address 10\.77\.0\.11 of cpu-2 belongs to cpu-1"):
        stack.create(replace(stack.spec(2), address="10.77.0.11"))
    with pytest.raises(InUse, match="the name cpu-1 of cpu-2 belongs to cpu-1"):
        stack.create(replace(stack.spec(2), aliases=("cpu-1",)))
    with pytest.raises(InUse, match=r"10\.77\.255\.254 is the switch's own"):
        stack.create(replace(stack.spec(2), address="10.77.255.254"))
    with pytest.raises(BadSpec, match=r"10\.78\.0\.1 is not in 10\.77\.0\.0/16"):
        stack.create(replace(stack.spec(2), address="10.78.0.1"))
    with pytest.raises(InUse, match=r"still has machines: cpu-1; delete them first"):
        delete_network(stack.data, stack.name, "net")
    with pytest.raises(InUse, match=r"cpu-1; delete them before it gets 10\.78\.0\.0/16"):
        create_network(stack.data, NetworkSpec(stack.name, "net", "10.78.0.0/16"))
    with pytest.raises(InUse, match=r"overlaps with 10\.77\.0\.0/16 of network net"):
        create_network(stack.data, NetworkSpec(stack.name, "other", "10.77.8.0/24"))
    assert [machine.name for machine in list_machines(stack.data, stack.name)] == ["cpu-1"]
    assert [network.name for network in list_networks(stack.data, stack.name)] == ["net"]


def test_commands_end_as_they_end_outside(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    assert stack.run("sh", "-c", "cat; exit 7").code == 7
    assert execute(stack.data, stack.name, "cpu-1", ["cat"], timeout_s=9, stdin="in").stdout == "in"
    assert stack.run("sh", "-c", "kill -9 $$").code == 137
    assert stack.run("no-such-command").code == 127
    os.environ["TIDEPOOL_TEST_SECRET"] = "x"
    assert "TIDEPOOL_TEST_SECRET" not in stack.run("env").stdout


def test_a_command_that_hangs_is_ended(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    with pytest.raises(TimedOut, match=r"sh did not end within 0\.2 s on machine cpu-1"):
        stack.run("sh", "-c", "sleep 1000 & sleep 1000", timeout_s=0.2)
    # A zombie is there until it is reaped, which another does.
    deadline = time.monotonic() + 10
    while "sleep" in (left := stack.run("ps", "-e", "-o", "comm=").stdout):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_a_prefix_is_good_for_one_boot(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    prefix = enter_prefix(stack.data, stack.name, "cpu-1")
    call = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    assert run_python(call, *prefix, "true").returncode == 0
    stop_machine(stack.data, stack.name, "cpu-1")
    stack.create(stack.spec())
    done = run_python(call, *prefix, "true", check=False)
    assert (done.returncode, done.stderr) == (125, "init: the machine is not running\n")


def test_the_boot_log_is_kept_over_boots(stack: Stack) -> None:
    stack.network()
    spec = stack.spec(1, Service("greeting", ("/bin/echo", "hello"), once=True))
    for _ in range(2):
        stack.create(spec)
        wait_ready(stack.data, stack.name, "cpu-1", 20)
        stop_machine(stack.data, stack.name, "cpu-1")
    log = boot_log(stack.data, stack.name, "cpu-1")
    assert log.count("hello\n") == 2
    assert boot_log(stack.data, stack.name, "cpu-1", lines=1).endswith("init: stopped\n")
    with pytest.raises(NoSuchMachine):
        boot_log(stack.data, stack.name, "cpu-9")


def test_a_machine_outlives_the_session_of_its_maker(stack: Stack) -> None:
    stack.network()
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.infrastructures.local.stacks import Stack\n"
        "stack = Stack(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))\n"
        "print(stack.create(stack.answering(1)).pid)\n"
    )
    done = run_python(code, str(stack.data), stack.name, str(stack.image))
    assert wait_ready(stack.data, stack.name, "cpu-1", 20).pid == int(done.stdout)


def test_creating_has_a_deadline(stack: Stack) -> None:
    stack.network()
    with pytest.raises(TimedOut):
        create_machine(stack.data, stack.spec(), timeout_s=0)
    assert list_machines(stack.data, stack.name) == ()

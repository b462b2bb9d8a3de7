"""What happens to machines, and what is done to them by tests of faults."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.infrastructures.local.stacks import PYTHON, Stack, kill_hard
from tests.machine_faults import freeze_machine, pull_plug, thaw_machine
from tidepool.cluster.boot import Service
from tidepool.infrastructures.local.kernel import (
    NoSuchMachine,
    delete_machine,
    list_machines,
    list_networks,
    read_network,
    stop_machine,
    wait_ready,
)


def test_a_pulled_plug_ends_all_at_once_and_it_boots_again(stack: Stack) -> None:
    stack.network()
    machine = stack.create(stack.answering())
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    assert stack.run("sh", "-c", "echo kept >/var/state").code == 0
    pull_plug(stack.data, stack.name, "cpu-1")
    assert stack.read().state == "dead"
    assert not Path(f"/proc/{machine.pid}/ns/net").exists()
    pull_plug(stack.data, stack.name, "cpu-1")
    again = stack.create(stack.answering())
    assert again.pid != machine.pid
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    assert stack.run("cat", "/var/state").stdout == "kept\n"


def test_its_first_process_killed_from_outside_is_seen(stack: Stack) -> None:
    stack.network()
    machine = stack.create(stack.spec(1, Service("sleep", ("/bin/sleep", "1000"))))
    assert machine.pid is not None
    kill_hard(machine.pid)
    assert stack.read().state == "dead"
    with pytest.raises(NoSuchMachine):
        wait_ready(stack.data, stack.name, "cpu-1", 20)


def test_frozen_it_stands_still_and_thawed_it_goes_on(stack: Stack) -> None:
    stack.network()
    stack.create(stack.answering(1))
    stack.create(stack.spec(2))
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    for _ in range(2):
        freeze_machine(stack.data, stack.name, "cpu-1")
    assert stack.read().state == "frozen"
    # The kernel still takes the connection; nobody answers.
    assert "timed out" in stack.ask("cpu-1", on="cpu-2", timeout_s=0.3)
    # To make what is there changes nothing: whoever froze it wants it so.
    assert stack.create(stack.answering(1)).state == "frozen"
    for _ in range(2):
        thaw_machine(stack.data, stack.name, "cpu-1")
    assert stack.read().state == "running"
    assert stack.ask("cpu-1", on="cpu-2") == f"cpu-1 of {stack.name}"


@pytest.mark.parametrize("end", [delete_machine, pull_plug, stop_machine])
def test_a_frozen_one_can_be_ended(stack: Stack, end: object) -> None:
    stack.network()
    stack.create(stack.answering())
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    freeze_machine(stack.data, stack.name, "cpu-1")
    assert callable(end)
    end(stack.data, stack.name, "cpu-1")
    with pytest.raises(NoSuchMachine):
        thaw_machine(stack.data, stack.name, "cpu-1")


def test_a_switch_that_died_is_made_again_and_its_machines_plugged_in(stack: Stack) -> None:
    network = stack.network()
    pids = [stack.create(stack.answering(number)).pid for number in (1, 2)]
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    assert network.pid is not None
    kill_hard(network.pid)
    again = read_network(stack.data, stack.name, "net")
    assert again is not None
    assert (again.state, again.machines) == ("dead", ("cpu-1", "cpu-2"))
    assert stack.read().state == "unplugged"
    assert stack.network().state == "up"
    assert [stack.create(stack.answering(number)).pid for number in (1, 2)] == pids
    assert stack.read().state == "running"
    assert stack.ask("cpu-1", on="cpu-2") == f"cpu-1 of {stack.name}"


@pytest.mark.parametrize("lost", ["{", "", "null", '{"spec": {}}'])
def test_a_lost_record_is_no_lost_machine(stack: Stack, lost: str) -> None:
    stack.network()
    machine = stack.create(stack.answering())
    record = stack.data / stack.name / "machines" / "cpu-1" / "record.json"
    record.write_text(lost)
    assert stack.read().state == "half-made"
    again = stack.create(stack.answering())
    assert (again.state, again.pid == machine.pid) == ("running", False)
    assert not Path(f"/proc/{machine.pid}/ns/net").exists()
    # Deleted without a record too: the fixture counts what is left.
    record.write_text(lost)
    delete_machine(stack.data, stack.name, "cpu-1")


def test_a_pid_that_another_process_has_now_is_left_alone(stack: Stack) -> None:
    stack.network()
    machine = stack.create(stack.spec())
    pull_plug(stack.data, stack.name, "cpu-1")
    record = stack.data / stack.name / "machines" / "cpu-1" / "record.json"
    # As after a long time, or a boot of the host: the record's pid is this very process.
    record.write_text(record.read_text().replace(f"[{machine.pid}, ", f"[{os.getpid()}, "))
    assert stack.read().state == "dead"
    pull_plug(stack.data, stack.name, "cpu-1")
    delete_machine(stack.data, stack.name, "cpu-1")


def test_what_was_started_within_ends_with_it(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    detach = "import os, time; os.fork() or (os.setsid(), os.close(1), os.close(2), time.sleep(1000))"
    assert stack.run(PYTHON, "-c", detach).code == 0
    assert "python3" in stack.run("ps", "-e", "-o", "comm=").stdout
    stop_machine(stack.data, stack.name, "cpu-1")


def test_what_runs_is_found_when_its_folder_was_removed(stack: Stack) -> None:
    stack.network()
    stack.create(stack.spec())
    shutil.rmtree(stack.data / stack.name)
    assert [(each.name, each.state) for each in list_machines(stack.data, stack.name)] == [
        ("cpu-1", "half-made")
    ]
    assert [(each.name, each.state) for each in list_networks(stack.data, stack.name)] == [("net", "dead")]
    stack.delete_all()
    assert list_machines(stack.data, stack.name) == ()

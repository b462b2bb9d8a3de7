"""The faults that only hosts and the ways to them have, beside those of `test_contract_faults`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.conftest import a_request
from tests.infrastructures.ssh.fake import connection, tree
from tests.infrastructures.ssh_world import SshWorld, a_task, model, ssh_world
from tidepool.cluster.failures import InsufficientCapacity, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.ssh.kinds import SshHostKind
from tidepool.infrastructures.ssh.machines import claim_key
from tidepool.resources.kind import Home, Refusal


@pytest.fixture
def world() -> Iterator[SshWorld]:
    with ssh_world() as made:
        yield made


def test_more_nodes_than_hosts_is_no_capacity_and_those_that_fit_are_made(world: SshWorld) -> None:
    for number in (1, 2, 3):
        world.infrastructure.create(a_request(world.stack, number))
    with pytest.raises(InsufficientCapacity, match="alpha is the node cpu-1"):
        world.infrastructure.create(a_request(world.stack, 4))
    assert [each.key.node for each in world.infrastructure.list(world.stack)] == ["cpu-1", "cpu-2", "cpu-3"]


def test_a_host_of_another_stack_is_no_capacity_and_is_listed_by_its_own_alone(world: SshWorld) -> None:
    world.infrastructure.create(a_request("chemistry"))
    with pytest.raises(InsufficientCapacity, match="of the stack chemistry: give it back there first"):
        world.infrastructure.create(a_request(world.stack))
    world.infrastructure.delete(MachineKey(world.stack, "cpu-1"))
    assert world.infrastructure.list(world.stack) == ()
    assert len(world.infrastructure.list("chemistry")) == 1


def test_a_lost_answer_to_a_delete_is_asked_for_again(world: SshWorld) -> None:
    before = tree(world.hosts.root("alpha"))
    machine = world.infrastructure.create(a_request(world.stack))
    kind = SshHostKind(Home(Path("/"), Path("/")), world.hosts)
    state = model(machine.key, "alpha", "10.77.1.1", connection("alpha"))
    world.hosts.lost = 1
    with pytest.raises(Refusal, match=r"could not be given back.*pulumi state delete"):
        kind.delete("one/cpu-1", state, a_task())
    kind.delete("one/cpu-1", state, a_task())
    assert tree(world.hosts.root("alpha")) == before


def test_a_pools_host_that_is_swept_keeps_nothing_of_the_role_that_it_has(world: SshWorld) -> None:
    """As where the state was lost: nobody had it lose the role before."""
    root = world.hosts.root("alpha")
    (root / "etc/systemd/system").mkdir(parents=True)
    before = tree(root)
    machine = world.infrastructure.create(a_request(world.stack))
    (root / "etc/systemd/system/tidepool-slurm.target").touch()
    (root / "etc/munge").mkdir()
    assert world.hosts.keeper("alpha", "note", {"key": claim_key(machine.key)}) == {"noted": True}
    (root / "etc/munge/munge.key").write_text("the cluster's")
    for path in ("run/munge/socket", "run/slurm/conf", "var/spool/slurmd/job"):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("left")
    world.infrastructure.delete(machine.key)
    assert tree(root) == before


def test_a_host_that_does_not_answer_is_not_gone(world: SshWorld) -> None:
    machine = world.infrastructure.create(a_request(world.stack))
    world.hosts.down.add("alpha")
    for key in machine.key, MachineKey(world.stack, "cpu-1"):
        for call in (world.infrastructure.read, world.infrastructure.delete):
            with pytest.raises(Transient, match="host alpha: nothing answers"):
                call(key)
    kind = SshHostKind(Home(Path("/"), Path("/")), world.hosts)
    state = model(machine.key, "alpha", "10.77.1.1", connection("alpha"))
    assert kind.look("one/cpu-1", state) == {}
    world.hosts.down.clear()
    assert world.infrastructure.list(world.stack) == (machine,)
    assert kind.look("one/cpu-1", state) == {}


def test_a_host_that_does_not_answer_hides_no_other(world: SshWorld) -> None:
    _, second = (world.infrastructure.create(a_request(world.stack, number)) for number in (1, 2))
    world.hosts.down.add("alpha")
    assert world.infrastructure.read(second.key) == second
    unknown, seen = world.infrastructure.list(world.stack)
    assert (unknown.key, unknown.state) == (MachineKey(world.stack, "cpu-1"), "unknown")
    assert unknown.why.startswith("host alpha: nothing answers")
    assert seen == second
    world.infrastructure.delete(MachineKey(world.stack, "cpu-2"))
    assert [each.state for each in world.infrastructure.list(world.stack)] == ["unknown"]
    world.hosts.down |= {"beta", "gamma"}
    with pytest.raises(Transient, match="nothing answers"):
        world.infrastructure.list(world.stack)


def test_a_look_waits_once_for_a_host_that_does_not_answer_and_sees_it_when_it_does(world: SshWorld) -> None:
    machines = [world.infrastructure.create(a_request(world.stack, number)) for number in (1, 2)]
    answers = threading.Event()

    def ask(connection: Mapping[str, Any], *told: Any) -> Mapping[str, Any]:
        if connection["address"] == "alpha" and "facts alpha" in world.hosts.calls:
            answers.wait(20)
        return world.hosts(connection, *told)

    world.hosts.down.add("alpha")
    world.hosts.calls.clear()
    looks = replace(world.infrastructure, ask=ask)
    for _ in range(3):
        assert [each.state for each in looks.list(world.stack)] == ["unknown", "running"]
    world.hosts.down.clear()
    answers.set()
    deadline = time.monotonic() + 20
    while (seen := [*looks.list(world.stack)]) != machines:
        assert time.monotonic() < deadline, seen


def test_a_host_that_was_given_back_by_hand_is_gone_and_what_is_left_is_told_of(world: SshWorld) -> None:
    machine = world.infrastructure.create(a_request(world.stack))
    kind = SshHostKind(Home(Path("/"), Path("/")), world.hosts)
    state = model(machine.key, "alpha", "10.77.1.1", connection("alpha"))
    home = world.hosts.root("alpha") / "home/ada"
    home.mkdir()
    (home / "thesis").write_text("years")
    said: list[str] = []
    kind.delete("one/cpu-1", state, a_task(said))
    assert said == ["the host alpha was given back, but for /home/ada: somebody's files are in it"]
    assert kind.look("one/cpu-1", state) is None
    kind.delete("one/cpu-1", state, a_task())

"""The promises of `tidepool.infrastructures.machines`, of the fake and of this machine."""

from __future__ import annotations

import pytest

from tests.infrastructures.conftest import World, a_request
from tidepool.cluster.failures import Permanent
from tidepool.infrastructures import MachineKey


def test_nothing_there_is_nothing_and_deleting_it_succeeds(world: World) -> None:
    key = MachineKey(world.stack, "cpu-1")
    assert world.infrastructure.list(world.stack) == ()
    assert world.infrastructure.read(key) is None
    world.infrastructure.delete(key)


def test_a_machine_that_is_asked_for_twice_is_made_once(world: World) -> None:
    request = a_request(world.stack)
    one, other = (world.infrastructure.create(request) for _ in range(2))
    assert one == other
    assert world.infrastructure.list(world.stack) == (one,)


def test_a_machine_carries_its_key_and_has_its_place(world: World) -> None:
    request = a_request(world.stack, 3)
    machine = world.infrastructure.create(request)
    assert world.infrastructure.read(request.key) == machine
    assert (machine.key, machine.address, machine.state) == (request.key, request.address, "running")
    assert (machine.key.fleet, machine.key.node) == ("cpu", "cpu-3")


def test_machines_are_listed_by_their_keys_and_only_those_of_the_stack(world: World) -> None:
    for number in (2, 1):
        world.infrastructure.create(a_request(world.stack, number))
    assert [each.key.node for each in world.infrastructure.list(world.stack)] == ["cpu-1", "cpu-2"]
    assert world.infrastructure.list("another") == ()


def test_a_deleted_machine_is_gone_and_deleting_it_again_succeeds(world: World) -> None:
    request = a_request(world.stack)
    world.infrastructure.create(request)
    for _ in range(2):
        world.infrastructure.delete(request.key)
        assert world.infrastructure.read(request.key) is None
    assert world.infrastructure.list(world.stack) == ()


def test_a_generation_has_its_name_to_itself(world: World) -> None:
    first, second = (a_request(world.stack, generation=generation) for generation in (1, 2))
    one = world.infrastructure.create(first)
    with pytest.raises(Permanent, match=r"generation 1.* is there; delete it first"):
        world.infrastructure.create(second)
    assert world.infrastructure.list(world.stack) == (one,)
    world.infrastructure.delete(first.key)
    other = world.infrastructure.create(second)
    assert other.machine_id != one.machine_id


def test_deleting_a_generation_that_is_gone_spares_the_next_one(world: World) -> None:
    second = world.infrastructure.create(a_request(world.stack, generation=2))
    world.infrastructure.delete(MachineKey(world.stack, "cpu-1", 1))
    assert world.infrastructure.read(MachineKey(world.stack, "cpu-1", 1)) is None
    assert world.infrastructure.list(world.stack) == (second,)


def test_a_stopped_machine_is_there_and_runs_again_when_it_is_asked_for(world: World) -> None:
    request = a_request(world.stack)
    machine = world.infrastructure.create(request)
    world.stop(request.key)
    stopped = world.infrastructure.read(request.key)
    assert stopped is not None
    assert (stopped.machine_id, stopped.state) == (machine.machine_id, "stopped")
    assert world.infrastructure.create(request) == machine


def test_a_machine_that_is_gone_from_outside_is_made_again(world: World) -> None:
    request = a_request(world.stack)
    world.infrastructure.create(request)
    world.vanish(request.key)
    assert world.infrastructure.read(request.key) is None
    assert world.infrastructure.create(request).state == "running"
    assert len(world.infrastructure.list(world.stack)) == 1

"""The promises of `tidepool.infrastructures.machines`, of the fake and of this machine."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests import versions
from tests.infrastructures.conftest import World, a_request
from tests.infrastructures.kubernetes_world import KubernetesWorld
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.registry import BUILT_IN, descriptor

pytestmark = [
    pytest.mark.runs("local", "this kernel"),
    pytest.mark.runs("aws", versions.installed("moto")),
    pytest.mark.runs("libvirt", "libvirt of Debian 12"),
]

#: By the names of worlds.
OBJECTS = {name: descriptor(name).objects for name in BUILT_IN}
OBJECTS["cloudstack-simulator"] = OBJECTS["cloudstack"]


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
    assert (machine.address, machine.state) == (request.address, "running")
    assert machine.machine_id
    assert request.key.matches(machine.key)
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


def test_the_next_machine_of_a_node_has_another_id(world: World) -> None:
    request = a_request(world.stack)
    first = world.infrastructure.create(request)
    world.infrastructure.delete(first.key)
    second = world.infrastructure.create(request)
    assert first.machine_id != second.machine_id
    assert (first.key.node, first.address) == (second.key.node, second.address)


def test_deleting_a_machine_that_is_gone_spares_the_next_of_its_node(world: World) -> None:
    """A deletion that was decided on comes late: the machine went, and its successor serves."""
    first = world.infrastructure.create(a_request(world.stack))
    world.infrastructure.delete(first.key)
    second = world.infrastructure.create(a_request(world.stack))
    world.infrastructure.delete(first.key)
    assert world.infrastructure.read(first.key) is None
    assert world.infrastructure.list(world.stack) == (second,)
    assert world.infrastructure.read(second.key) == second


def test_a_stopped_machine_is_there_and_runs_again_when_it_is_asked_for(world: World) -> None:
    request = a_request(world.stack)
    machine = world.infrastructure.create(request)
    world.stop(request.key)
    stopped = world.infrastructure.read(request.key)
    assert stopped is not None
    assert (stopped.machine_id, stopped.state) == (machine.machine_id, "stopped")
    again = world.infrastructure.create(request)
    assert again.state == "running"
    # A pod that has ended is never started again: its node gets another.
    assert (again == machine) is not isinstance(world, KubernetesWorld)
    assert world.infrastructure.list(world.stack) == (again,)


def test_what_somebody_else_deletes_takes_no_job_with_it_where_the_api_has_what_objects(
    world: World, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["world"]
    machine = world.infrastructure.create(a_request(world.stack))
    # Whoever deletes it is refused; or it goes on until its jobs have ended.
    with suppress(Exception):
        getattr(world, "delete_outside", world.vanish)(machine.key)
    found = world.infrastructure.read(machine.key)
    if OBJECTS.get(name):
        assert found is not None
        assert (found.state, found.is_ending) == ("running", name == "kubernetes")
    else:
        assert found is None
    # Its own stack deletes it, whatever objected.
    world.infrastructure.delete(machine.key)
    assert world.infrastructure.list(world.stack) == ()


def test_a_machine_that_is_gone_from_outside_is_made_again(world: World) -> None:
    request = a_request(world.stack)
    world.infrastructure.create(request)
    world.vanish(request.key)
    assert world.infrastructure.read(request.key) is None
    assert world.infrastructure.create(request).state == "running"
    assert len(world.infrastructure.list(world.stack)) == 1

"""The promises of `tidepool.infrastructures.machines` where something fails: the same in every world that can be made to fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.infrastructures.conftest import FAKES, SERVED, a_request
from tests.infrastructures.faulty import FAULTY, LASTING, Faulty, ironic_faults, made_faulty
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient


@pytest.fixture(params=[*FAULTY, *LASTING, pytest.param("ironic", marks=pytest.mark.slow)])
def faulty(request: pytest.FixtureRequest) -> Iterator[Faulty]:
    if request.param == "ironic":
        with ironic_faults(request.getfixturevalue("ironic_server")) as real:
            yield real
        return
    with made_faulty(request.param) as it:
        yield it


def running(faulty: Faulty) -> list[str]:
    found = faulty.world.infrastructure.list(faulty.world.stack)
    return [machine.key.node for machine in found if machine.state == "running"]


def test_every_world_of_a_fake_can_be_made_to_fail() -> None:
    assert (set(FAULTY), set(LASTING)) == (set(FAKES), set(SERVED))


def test_a_stock_out_is_told_as_that_and_what_is_deleted_then_is_gone(faulty: Faulty) -> None:
    faulty.stock(0)
    request = a_request(faulty.world.stack)
    with pytest.raises(InsufficientCapacity, match="cpu-1"):
        faulty.world.infrastructure.create(request)
    faulty.world.infrastructure.delete(request.key)
    assert faulty.world.infrastructure.list(faulty.world.stack) == ()


def test_what_is_there_is_granted_and_the_rest_refused(faulty: Faulty) -> None:
    faulty.stock(2)
    requests = [a_request(faulty.world.stack, number) for number in (1, 2, 3, 4)]
    for request in requests[:2]:
        faulty.world.infrastructure.create(request)
    for request in requests[2:]:
        with pytest.raises(InsufficientCapacity):
            faulty.world.infrastructure.create(request)
    for request in requests[2:]:
        faulty.world.infrastructure.delete(request.key)
    assert running(faulty) == ["cpu-1", "cpu-2"]


def test_a_lost_answer_leaves_one_machine_which_is_found_by_its_key(faulty: Faulty) -> None:
    request = a_request(faulty.world.stack)
    faulty.lose_answer()
    with pytest.raises(Transient):
        faulty.world.infrastructure.create(request)
    machine = faulty.world.infrastructure.create(request)
    assert faulty.world.infrastructure.list(faulty.world.stack) == (machine,)
    assert machine.state == "running"


def test_not_seen_is_not_gone(faulty: Faulty) -> None:
    request = a_request(faulty.world.stack)
    machine = faulty.unseen(request)
    assert faulty.world.infrastructure.read(request.key) is None
    assert faulty.world.infrastructure.list(faulty.world.stack) == ()
    faulty.show()
    assert faulty.world.infrastructure.list(faulty.world.stack) == (machine,)


def test_a_refused_delete_says_so_and_leaves_the_machine(faulty: Faulty) -> None:
    request = a_request(faulty.world.stack)
    faulty.world.infrastructure.create(request)
    faulty.keep(request.key)
    with pytest.raises(Permanent):
        faulty.world.infrastructure.delete(request.key)
    assert running(faulty) == ["cpu-1"]
    faulty.release(request.key)
    faulty.world.infrastructure.delete(request.key)
    assert faulty.world.infrastructure.list(faulty.world.stack) == ()

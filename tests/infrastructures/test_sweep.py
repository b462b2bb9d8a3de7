"""What `tidepool down` does with machines that no state knows: all of the stack's go, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.infrastructures.conftest import FAKES, SERVED, World, a_request
from tests.infrastructures.faulty import FAULTY, LASTING, Faulty, made_faulty
from tests.simulation.infrastructure import FakeInfrastructure
from tidepool.cli.remote_infrastructure import Deletion, delete_remote_machines
from tidepool.cluster.failures import Transient
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.several import Several


@pytest.fixture(params=[*FAKES, *SERVED])
def some(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each infrastructure in memory."""
    if request.param in FAKES:
        yield FAKES[request.param]()
        return
    with SERVED[request.param]() as served:
        yield served


@pytest.fixture(params=[*FAULTY, *LASTING])
def faulty(request: pytest.FixtureRequest) -> Iterator[Faulty]:
    """The same, each of which can be made to fail."""
    with made_faulty(request.param) as it:
        yield it


def swept(
    sides: Mapping[str, Infrastructure], stack: str, before: Callable[..., None] = lambda _: None
) -> Deletion:
    return delete_remote_machines(Several(lambda: sides, patience_s=20), stack, before, sleep=lambda _: None)


def test_a_stack_s_machines_go_and_those_of_other_departments_stay(some: World) -> None:
    """Their names begin or end as the stack's does, on the same infrastructure."""
    there, stack = some.infrastructure, some.stack
    others = (f"{stack}-b", f"{stack[:-1]}x")
    there.create(a_request(stack, 1))
    kept = [there.create(a_request(other, number)) for number, other in enumerate(others, start=2)]
    told: list[object] = []
    assert swept({"cloud": there}, stack, told.append) == Deletion({"cloud": ("cpu-1",)})
    assert told == [{"cloud": ("cpu-1",)}]
    assert there.list(stack) == ()
    for machine, other in zip(kept, others, strict=True):
        assert [each.key for each in there.list(other)] == [machine.key]
        there.delete(machine.key)


def test_where_there_is_none_nothing_is_told_or_deleted(some: World) -> None:
    told: list[object] = []
    assert swept({"cloud": some.infrastructure}, some.stack, told.append) == Deletion()
    assert told == []


def test_one_that_is_refused_is_named_and_the_others_go(faulty: Faulty) -> None:
    there, stack = faulty.world.infrastructure, faulty.world.stack
    kept = there.create(a_request(stack, 1))
    there.create(a_request(stack, 2))
    faulty.keep(kept.key)
    found = swept({"cloud": there}, stack)
    # Where a right is missing, that is all of them.
    listed = there.list(stack)
    still = [machine.key.node for machine in listed]
    assert still in (["cpu-1"], ["cpu-1", "cpu-2"])
    assert found.swept == ({"cloud": ("cpu-2",)} if still == ["cpu-1"] else {})
    named = [left.partition(" on cloud: ")[0] for left in found.left]
    assert named == [f"machine {machine.key}" for machine in listed]
    faulty.release(kept.key)
    assert swept({"cloud": there}, stack).left == ()
    assert there.list(stack) == ()


def test_one_that_cannot_be_asked_is_named_and_the_others_go() -> None:
    here, away = FakeInfrastructure(), FakeInfrastructure()
    here.create(a_request("one", 1))
    away.fail(Transient("the API is down"))
    found = swept({"here": here, "away": away}, "one")
    assert found == Deletion(
        {"here": ("cpu-1",)}, ("machines of away, for it cannot be asked: the API is down",)
    )


def test_machines_of_another_stack_that_an_infrastructure_tells_of_by_mistake_stay() -> None:
    class Careless(FakeInfrastructure):
        def list(self, stack: str) -> tuple[Machine, ...]:
            return (*super().list("one"), *super().list("two"))

    careless = Careless()
    careless.create(a_request("one", 1))
    careless.create(a_request("two", 2))
    assert swept({"cloud": careless}, "one").swept == {"cloud": ("cpu-1",)}
    assert careless.known(MachineKey("two", "cpu-2")) is not None


def test_two_machines_of_a_node_both_go() -> None:
    fake = FakeInfrastructure()
    first = fake.create(a_request("one", 1))
    fake.vanish(first.key)
    fake.create(a_request("one", 1))
    fake.return_from_the_dead(first.key)
    assert len(fake.list("one")) == 2
    assert swept({"cloud": fake}, "one") == Deletion({"cloud": ("cpu-1",)})
    assert fake.list("one") == ()

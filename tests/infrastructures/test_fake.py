"""The faults of the fake: each as real infrastructures have it, and what the contract promises in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.infrastructures.conftest import a_request
from tests.simulation.infrastructure import FakeInfrastructure
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.simulation.machines import MachineRequest


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def request(number: int = 1) -> MachineRequest:
    return a_request("one", number)


def nodes(fake: FakeInfrastructure) -> list[str]:
    return [machine.key.node for machine in fake.list("one")]


def test_a_lost_answer_leaves_one_machine_which_the_next_call_finds() -> None:
    fake = FakeInfrastructure()
    fake.lose_answers()
    with pytest.raises(Transient, match="no answer"):
        fake.create(request())
    (made,) = fake.list("one")
    assert fake.create(request()) == made


def test_a_new_machine_is_not_seen_for_a_while_and_still_made_once(clock: Clock) -> None:
    fake = FakeInfrastructure(clock, unseen_s=60)
    machine = fake.create(request())
    assert fake.read(request().key) is None
    assert fake.list("one") == ()
    assert fake.create(request()) == machine
    clock.advance(60)
    assert fake.read(request().key) == machine
    assert fake.list("one") == (machine,)


def test_half_of_what_is_asked_for_is_granted() -> None:
    fake = FakeInfrastructure(stock=2)
    for number in (1, 2):
        fake.create(request(number))
    for number in (3, 4):
        with pytest.raises(InsufficientCapacity, match=f"cpu-{number}"):
            fake.create(request(number))
    assert nodes(fake) == ["cpu-1", "cpu-2"]


def test_what_is_there_is_found_when_all_is_sold_out() -> None:
    fake = FakeInfrastructure(stock=1)
    machine = fake.create(request())
    assert fake.create(request()) == machine
    fake.stop(request().key)
    assert fake.create(request()) == machine


def test_a_quota_is_free_again_when_a_machine_goes() -> None:
    fake = FakeInfrastructure(quota=1)
    fake.create(request(1))
    with pytest.raises(InsufficientCapacity, match="quota of 1"):
        fake.create(request(2))
    fake.delete(request(1).key)
    fake.create(request(2))


def test_a_refused_delete_leaves_the_machine() -> None:
    fake = FakeInfrastructure()
    fake.create(request())
    fake.refuse_deletion("cpu-1")
    with pytest.raises(Permanent, match="protected"):
        fake.delete(request().key)
    assert nodes(fake) == ["cpu-1"]
    fake.release("cpu-1")
    fake.delete(request().key)
    assert nodes(fake) == []


def test_machines_register_when_they_have_booted_and_a_mute_one_never_does(clock: Clock) -> None:
    fake = FakeInfrastructure(clock, boot_s=30)
    fake.mute("cpu-2")
    for number in (1, 2):
        fake.create(request(number))
    assert fake.registered() == ()
    clock.advance(30)
    assert [machine.key.node for machine in fake.registered()] == ["cpu-1"]
    clock.advance(1e6)
    assert [machine.key.node for machine in fake.registered()] == ["cpu-1"]
    assert nodes(fake) == ["cpu-1", "cpu-2"]


def test_a_stopped_machine_is_registered_no_more_until_it_booted_again(clock: Clock) -> None:
    fake = FakeInfrastructure(clock, boot_s=30)
    fake.create(request())
    clock.advance(30)
    fake.stop(request().key)
    assert fake.registered() == ()
    fake.create(request())
    assert fake.registered() == ()
    clock.advance(30)
    assert len(fake.registered()) == 1


def test_one_that_is_back_from_the_dead_is_told_from_its_successor() -> None:
    fake = FakeInfrastructure()
    old = fake.create(request())
    fake.vanish(old.key)
    new = fake.create(request())
    fake.return_from_the_dead(old.key)
    assert set(fake.list("one")) == {old, new}
    assert fake.read(request().key) == new
    fake.delete(old.key)
    assert fake.list("one") == (new,)


@pytest.mark.parametrize("error", [Transient("busy"), InsufficientCapacity("none"), Permanent("no")])
def test_a_call_that_fails_does_nothing(error: Exception) -> None:
    fake = FakeInfrastructure()
    fake.fail(error)  # type: ignore[arg-type]
    with pytest.raises(type(error), match=str(error)):
        fake.create(request())
    assert fake.list("one") == ()
    assert fake.calls == {"create": 1, "read": 0, "list": 1, "delete": 0}


def test_the_clusters_own_machines_are_of_no_fleet() -> None:
    assert MachineKey("one", "ctl").fleet == ""

"""What goes wrong with Nomad alone, beside the faults of all infrastructures; over a fake of its API."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.infrastructures.conftest import a_request
from tests.infrastructures.nomad_world import NomadWorld, nomad_world
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.api import Host
from tidepool.infrastructures.nomad.assignment import find

JOBS = ["one-munge-cpu", "one-slurmd-cpu"]


@pytest.fixture
def world() -> Iterator[NomadWorld]:
    with nomad_world() as made:
        yield made


def test_a_machine_is_a_host_with_metadata_and_the_jobs_of_its_fleet_come_to_it(world: NomadWorld) -> None:
    made = world.infrastructure.create(a_request("one"))
    assert world.nomad.host("alpha").meta == {
        "rack": "r1",
        "tidepool_stack": "one",
        "tidepool_fleet": "cpu",
        "tidepool_node": "cpu-1",
        "tidepool_address": "10.77.1.1",
        "tidepool_machine": made.machine_id.partition("/")[2],
    }
    assert world.nomad.running("alpha") == JOBS
    assert world.nomad.running("beta") == []


def test_a_deleted_machine_leaves_its_host_as_it_was_and_nothing_runs_there(world: NomadWorld) -> None:
    """Nomad lets a system job stay where it is no longer wanted: who gives the host back stops it."""
    request = a_request("one")
    world.infrastructure.create(request)
    world.infrastructure.delete(request.key)
    assert world.nomad.host("alpha").told == {"rack": "r1"}
    assert world.nomad.running("alpha") == []


def test_what_is_stopped_before_the_servers_know_would_come_back(world: NomadWorld) -> None:
    request = a_request("one")
    world.infrastructure.create(request)
    world.nomad.late = 3
    world.nomad.requests.clear()
    world.infrastructure.delete(request.key)
    assert world.nomad.running("alpha") == []
    stops = [each for each in world.nomad.requests if each.endswith("/stop")]
    assert len(stops) == 2


def test_a_host_is_one_machines_and_goes_to_another_stack_when_it_is_given_back(world: NomadWorld) -> None:
    for number in (1, 2, 3):
        world.infrastructure.create(a_request("one", number))
    other = a_request("two")
    with pytest.raises(InsufficientCapacity, match="all are machines already"):
        world.infrastructure.create(other)
    world.infrastructure.delete(MachineKey("one", "cpu-2"))
    assert world.infrastructure.create(other).machine_id.startswith("id-beta/")


def test_hosts_that_are_not_as_the_fleet_wants_them_are_told_with_what_they_lack(world: NomadWorld) -> None:
    world.nomad.tell("alpha", rack="r9")
    world.nomad.host("beta").status = "down"
    world.nomad.host("gamma").drivers.clear()
    with pytest.raises(InsufficientCapacity) as raised:
        world.infrastructure.create(a_request("one"))
    said = str(raised.value)
    assert "alpha: ${meta.rack} is r9, and not r1" in said
    assert "beta: it is down" in said
    assert "gamma: its driver raw_exec does not work" in said


@pytest.mark.parametrize("freed", [False, True])
def test_a_machine_that_the_servers_do_not_know_yet_is_made_once(world: NomadWorld, freed: bool) -> None:
    """Its host knows, which is asked; even where another one, earlier in the order, became free meanwhile."""
    world.nomad.tell("alpha", rack="r9")
    world.nomad.late = 50
    one = world.infrastructure.create(a_request("one"))
    assert one.machine_id.startswith("id-beta/")
    assert world.infrastructure.list("one") == ()
    if freed:
        world.nomad.tell("alpha", rack="r1")
    assert world.infrastructure.create(a_request("one")) == one
    other = world.infrastructure.create(a_request("one", 2))
    assert other.machine_id.partition("/")[0] != "id-beta"


def test_a_delete_that_was_cut_off_is_finished_by_the_next_one(world: NomadWorld) -> None:
    request = a_request("one")
    world.infrastructure.create(request)
    world.nomad.denied.add("stop")
    with pytest.raises(Permanent):
        world.infrastructure.delete(request.key)
    assert world.nomad.running("alpha") == JOBS
    world.nomad.denied.clear()
    world.infrastructure.delete(request.key)
    assert world.nomad.running("alpha") == []


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (500, "No cluster leader", Transient),
        (429, "too many requests", Transient),
        (502, "", Transient),
        (403, "Permission denied", Permanent),
        (400, "bad request", Permanent),
    ],
)
def test_answers_that_are_none_are_of_a_kind(
    world: NomadWorld, status: int, words: str, kind: type[Exception]
) -> None:
    world.nomad.fail = [(status, words)]
    with pytest.raises(kind, match=str(status)):
        world.infrastructure.list("one")
    assert world.infrastructure.list("one") == ()


def test_a_host_that_is_given_back_between_the_list_and_the_look_at_it_is_no_machine() -> None:
    api: Any = SimpleNamespace(hosts=lambda **_filters: (Host("1", "alpha"),))
    assert find(api, "one") == ()

"""What goes wrong with CloudStack alone, beside the faults of all infrastructures; over the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.cloudstack_world import CloudStackWorld, cloudstack_world
from tests.infrastructures.conftest import a_request
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.cloudstack.api import QuotaReached

pytestmark = [
    pytest.mark.runs("cloudstack", versions.installed("cs"), "a stand-in of the tests' for CloudStack")
]


@pytest.fixture
def world() -> Iterator[CloudStackWorld]:
    with cloudstack_world() as made:
        yield made


def nodes(world: CloudStackWorld) -> list[str]:
    return [machine.key.node for machine in world.infrastructure.list("one")]


def test_a_machine_has_its_names_in_the_deploy_call_and_tags_for_people(world: CloudStackWorld) -> None:
    world.infrastructure.create(a_request("one"))
    vm = world.cloud.vm("cpu-1")
    assert (vm["name"], vm["displayname"], vm["group"]) == ("cpu-1", "one-cpu-1", "tidepool-one")
    assert {tag["key"]: tag["value"] for tag in vm["tags"]} == {
        "tidepool:stack": "one",
        "tidepool:node": "cpu-1",
    }
    assert vm["nic"][0]["ipaddress"] == "10.77.1.1"


def test_one_that_was_cut_off_before_its_tags_is_found_and_tagged(world: CloudStackWorld) -> None:
    made = world.infrastructure.create(a_request("one"))
    world.cloud.vm("cpu-1")["tags"] = []
    assert world.infrastructure.list("one") == (made,)
    assert world.infrastructure.create(a_request("one")) == made
    assert len(world.cloud.vm("cpu-1")["tags"]) == 2


def test_one_that_was_cut_off_before_its_protection_is_protected_by_the_next(world: CloudStackWorld) -> None:
    made = world.infrastructure.create(a_request("one"))
    assert world.cloud.vm("cpu-1")["deleteprotection"] is True
    world.cloud.vm("cpu-1")["deleteprotection"] = False
    assert world.infrastructure.create(a_request("one")) == made
    assert world.cloud.vm("cpu-1")["deleteprotection"] is True


def test_a_deletion_that_is_cut_off_without_the_protection_is_done_by_the_next(
    world: CloudStackWorld,
) -> None:
    made = world.infrastructure.create(a_request("one"))
    world.cloud.denied.add("destroyVirtualMachine")
    with pytest.raises(Permanent):
        world.infrastructure.delete(made.key)
    assert world.cloud.vm("cpu-1")["deleteprotection"] is False
    world.cloud.denied.clear()
    world.infrastructure.delete(made.key)
    assert nodes(world) == []


def test_a_cloudstack_that_has_no_protection_is_asked_for_none(world: CloudStackWorld) -> None:
    world.cloud.is_older = True
    made = world.infrastructure.create(a_request("one"))
    world.infrastructure.delete(made.key)
    assert nodes(world) == []
    assert "updateVirtualMachine" not in world.cloud.requests


def test_quotas_and_hosts_are_told_apart(world: CloudStackWorld) -> None:
    world.cloud.limits["user_vm"] = 1
    world.infrastructure.create(a_request("one", 1))
    with pytest.raises(
        QuotaReached, match=r"cpu-2 .*with 535: Maximum amount of resources of Type = 'user_vm'"
    ):
        world.infrastructure.create(a_request("one", 2))
    world.cloud.limits["user_vm"] = -1
    world.cloud.hosts = []
    with pytest.raises(
        InsufficientCapacity, match=r"cpu-2 .*with 533: Unable to create a deployment"
    ) as raised:
        world.infrastructure.create(a_request("one", 2))
    assert not isinstance(raised.value, QuotaReached)
    assert nodes(world) == ["cpu-1"]


def test_what_a_deploy_without_room_leaves_is_taken_away(world: CloudStackWorld) -> None:
    """It is in error, for a day, with its name and its address: the next one could not be made."""
    world.cloud.stock = 0
    with pytest.raises(InsufficientCapacity):
        world.infrastructure.create(a_request("one"))
    assert world.cloud.vms == {}
    world.cloud.stock = None
    assert world.infrastructure.create(a_request("one")).state == "running"


def test_a_job_that_outlives_the_wait_is_gone_on_with(world: CloudStackWorld) -> None:
    world.cloud.stuck.add("deployVirtualMachine")
    hasty = replace(world.infrastructure, delete_s=0)
    for _ in range(2):
        with pytest.raises(Transient, match="goes on"):
            hasty.create(a_request("one"))
    for job in world.cloud.jobs.values():
        job.ends = 0
    machine = world.infrastructure.create(a_request("one"))
    assert (machine.state, len(world.cloud.vms)) == ("running", 1)
    assert world.cloud.requests.count("deployVirtualMachine") == 1


@pytest.mark.parametrize("state", ["Error", "Destroyed"])
def test_what_somebody_elses_try_left_makes_room_for_the_next(world: CloudStackWorld, state: str) -> None:
    """Both have the name and the address of the machine still."""
    first = world.infrastructure.create(a_request("one"))
    world.cloud.vm("cpu-1")["state"] = state
    again = world.infrastructure.create(a_request("one"))
    assert again.machine_id != first.machine_id
    assert [vm["state"] for vm in world.cloud.vms.values()] == ["Running"]


def test_one_in_error_is_listed_to_be_swept_and_a_destroyed_one_is_gone(world: CloudStackWorld) -> None:
    for number in (1, 2):
        world.infrastructure.create(a_request("one", number))
    world.cloud.vm("cpu-1")["state"] = "Error"
    world.cloud.vm("cpu-2")["state"] = "Destroyed"
    assert [(each.key.node, each.state) for each in world.infrastructure.list("one")] == [
        ("cpu-1", "stopped")
    ]
    for number in (1, 2):
        world.infrastructure.delete(MachineKey("one", f"cpu-{number}"))
    assert world.cloud.vms == {}


def test_one_that_somebody_else_has_just_destroyed_is_deleted(world: CloudStackWorld) -> None:
    world.infrastructure.create(a_request("one"))
    real = world.cloud.destroyVirtualMachine

    def late(id: str, expunge: bool = False, **_: Any) -> dict[str, Any]:
        world.cloud.take_away("cpu-1")
        return real(id, expunge)

    world.cloud.destroyVirtualMachine = late  # type: ignore[method-assign]
    world.infrastructure.delete(MachineKey("one", "cpu-1"))
    assert nodes(world) == []


def test_what_may_not_be_expunged_is_not_left_half_way(world: CloudStackWorld) -> None:
    world.infrastructure.create(a_request("one"))
    world.cloud.capabilities["allowuserexpungerecovervm"] = False
    with pytest.raises(Permanent, match=r"cpu-1 .*is not deleted: .*allow.user.expunge.recover.vm"):
        world.infrastructure.delete(MachineKey("one", "cpu-1"))
    assert nodes(world) == ["cpu-1"]


def test_machines_of_others_are_nobodys_business(world: CloudStackWorld) -> None:
    world.infrastructure.create(a_request("one"))
    vm = world.cloud.vm("cpu-1")
    vm |= {"group": None, "tags": []}
    assert world.infrastructure.list("one") == ()
    world.infrastructure.delete(MachineKey("one", "cpu-1"))
    assert [*world.cloud.vms.values()] == [vm]


@pytest.mark.parametrize(
    ("code", "words", "kind"),
    [
        (503, "starting", Transient),
        (530, "Internal Server Error", Transient),
        (401, "unable to verify user credentials", Permanent),
    ],
)
def test_questions_that_fail_are_of_a_kind(
    world: CloudStackWorld, code: int, words: str, kind: type[Exception]
) -> None:
    world.infrastructure.create(a_request("one"))
    world.cloud.fail = [(code, words)]
    with pytest.raises(kind, match=f"{code}: {words}"):
        world.infrastructure.list("one")
    assert nodes(world) == ["cpu-1"]


def test_a_rate_limit_in_the_middle_of_a_deploy_loses_nothing(world: CloudStackWorld) -> None:
    world.cloud.calls_left = 3
    with pytest.raises(Transient, match="429"):
        replace(world.infrastructure, delete_s=0).create(a_request("one"))
    world.cloud.calls_left = None
    world.infrastructure.create(a_request("one"))
    assert nodes(world) == ["cpu-1"]
    assert world.cloud.requests.count("deployVirtualMachine") == 1

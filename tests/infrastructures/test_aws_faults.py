"""The faults of AWS: each as EC2 has it, through boto3 and a front that has them; and what the contract promises in it."""

from __future__ import annotations

import pytest

from tests import versions
from tests.infrastructures.aws.front import client
from tests.infrastructures.aws_world import AwsWorld, aws_world
from tests.infrastructures.conftest import a_request
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.aws.machines import AwsMachines
from tidepool.simulation.machines import MachineRequest

pytestmark = [pytest.mark.runs("aws", versions.installed("moto"))]


@pytest.fixture
def world() -> AwsWorld:
    return aws_world()


def request(world: AwsWorld, number: int = 1) -> MachineRequest:
    return a_request(world.stack, number)


def nodes(world: AwsWorld) -> list[str]:
    return [machine.key.node for machine in world.infrastructure.list(world.stack)]


def test_what_is_sold_out_is_a_lack_of_capacity_and_leaves_nothing(world: AwsWorld) -> None:
    world.front.stock = 0
    with pytest.raises(InsufficientCapacity, match=r"cpu-1 .*InsufficientInstanceCapacity"):
        world.infrastructure.create(request(world))
    assert nodes(world) == []


def test_half_of_what_is_asked_for_is_granted(world: AwsWorld) -> None:
    world.front.stock = 2
    for number in (1, 2):
        world.infrastructure.create(request(world, number))
    for number in (3, 4):
        with pytest.raises(InsufficientCapacity, match=f"cpu-{number}"):
            world.infrastructure.create(request(world, number))
    assert nodes(world) == ["cpu-1", "cpu-2"]


def test_a_lost_answer_leaves_one_machine_which_the_next_call_finds(world: AwsWorld) -> None:
    world.front.lose_answers()
    with pytest.raises(Transient, match="Connection was closed"):
        world.infrastructure.create(request(world))
    (made,) = world.infrastructure.list(world.stack)
    assert world.infrastructure.create(request(world)) == made
    assert world.front.calls.count("RunInstances") == 1


def test_a_new_machine_is_listed_late_and_not_seen_is_not_gone(world: AwsWorld) -> None:
    machine = world.infrastructure.create(request(world))
    world.front.unseen_s = 3600
    assert world.infrastructure.read(request(world).key) is None
    assert world.infrastructure.list(world.stack) == ()
    # Nothing that is not seen is deleted: it is there when it is seen.
    world.infrastructure.delete(request(world).key)
    world.front.unseen_s = 0
    assert world.infrastructure.list(world.stack) == (machine,)


def test_a_refused_delete_leaves_the_machine(world: AwsWorld) -> None:
    world.infrastructure.create(request(world))
    world.keep(request(world).key)
    with pytest.raises(Permanent, match=r"cpu-1 .*UnauthorizedOperation.*not authorized"):
        world.infrastructure.delete(request(world).key)
    assert nodes(world) == ["cpu-1"]


def test_a_machine_whose_protection_may_not_be_taken_off_stays_and_the_right_is_named(
    world: AwsWorld,
) -> None:
    world.infrastructure.create(request(world))
    world.front.denied.add("ModifyInstanceAttribute")
    with pytest.raises(Permanent, match=r"UnauthorizedOperation\) when calling the ModifyInstanceAttribute"):
        world.infrastructure.delete(request(world).key)
    assert nodes(world) == ["cpu-1"]


def test_one_that_is_not_protected_is_terminated_at_once(world: AwsWorld) -> None:
    """A spot machine, one of an earlier release, or one whose deletion was cut off when its protection was gone."""
    made = world.infrastructure.create(request(world))
    world.ec2.modify_instance_attribute(InstanceId=made.machine_id, DisableApiTermination={"Value": False})
    world.front.denied.add("ModifyInstanceAttribute")
    world.infrastructure.delete(made.key)
    assert nodes(world) == []


def test_a_deletion_that_is_cut_off_without_the_protection_is_done_by_the_next(world: AwsWorld) -> None:
    made = world.infrastructure.create(request(world))
    terminate = world.infrastructure.ec2.terminate_instances
    calls: list[object] = []

    def cut_off(**asked: object) -> object:
        calls.append(asked)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return terminate(**asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.infrastructure.ec2, "terminate_instances", cut_off)
        with pytest.raises(KeyboardInterrupt):
            world.infrastructure.delete(made.key)
    assert nodes(world) == ["cpu-1"]
    world.infrastructure.delete(made.key)
    assert nodes(world) == []


def test_a_lost_answer_of_a_delete_is_asked_again(world: AwsWorld) -> None:
    world.infrastructure.create(request(world))
    world.front.lose_answers()
    with pytest.raises(Transient):
        world.infrastructure.delete(request(world).key)
    world.infrastructure.delete(request(world).key)
    assert nodes(world) == []


def test_boto3_asks_again_by_itself_when_a_connection_breaks(world: AwsWorld) -> None:
    world.infrastructure.create(request(world))
    world.front.lose_answers()
    patient = AwsMachines(client("ec2", attempts=3))
    patient.delete(request(world).key)
    assert nodes(world) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [("RequestLimitExceeded", Transient), ("UnauthorizedOperation", Permanent), ("InternalError", Transient)],
)
def test_a_question_that_fails_fails_in_one_of_three_kinds(
    world: AwsWorld, code: str, kind: type[Exception]
) -> None:
    world.infrastructure.create(request(world))
    world.front.fail(code)
    with pytest.raises(kind, match=code):
        world.infrastructure.list(world.stack)
    assert nodes(world) == ["cpu-1"]


def test_two_of_one_key_are_both_listed_and_both_deleted(world: AwsWorld) -> None:
    """Whose answer was lost for good has no owner: a sweep sees it."""
    machine = world.infrastructure.create(request(world))
    tags = world.ec2.describe_instances(InstanceIds=[machine.machine_id])["Reservations"][0]["Instances"][0][
        "Tags"
    ]
    world.ec2.run_instances(
        ImageId=world.infrastructure.image,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    assert nodes(world) == ["cpu-1", "cpu-1"]
    world.infrastructure.delete(request(world).key)
    assert nodes(world) == []


def test_machines_of_others_are_nobodys_business(world: AwsWorld) -> None:
    world.ec2.run_instances(ImageId=world.infrastructure.image, MinCount=1, MaxCount=1)
    assert world.infrastructure.list(world.stack) == ()
    world.infrastructure.delete(MachineKey(world.stack, "cpu-1"))


def test_many_machines_are_listed_whatever_a_page_holds(
    world: AwsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidepool.infrastructures.aws.machines._PAGE", 5)
    for number in range(1, 8):
        world.infrastructure.create(request(world, number))
    assert len(nodes(world)) == 7

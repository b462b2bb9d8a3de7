"""A machine of AWS that is made anew from another image: its contract, what AWS refuses, and tasks that outlive who began them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests import versions
from tests.infrastructures.aws.front import Front, client, front
from tidepool.cluster.failures import InfrastructureError, Permanent, Transient
from tidepool.cluster.roles import Role
from tidepool.infrastructures.aws.imaging import RootVolumeImaging, imaging_of
from tidepool.infrastructures.registry import imaging_of as registered

pytestmark = [pytest.mark.runs("aws", versions.installed("moto"))]


@dataclass
class World:
    """An instance of Slurm's image. Each call of `another` is another process that converts it."""

    front: Front
    ec2: Any
    instance: str
    images: dict[Role, str]
    now: float = 0.0

    def another(self) -> RootVolumeImaging:
        return RootVolumeImaging(self.ec2, self.instance, self.images, lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def described(self) -> Any:
        return self.ec2.describe_instances(InstanceIds=[self.instance])["Reservations"][0]["Instances"][0]

    def root(self) -> str:
        there = self.described()
        volumes = {each["DeviceName"]: each["Ebs"]["VolumeId"] for each in there["BlockDeviceMappings"]}
        return str(volumes[there["RootDeviceName"]])

    def is_of(self, role: Role) -> bool:
        """The instance runs, of that role's image alone."""
        return self.another().imaged() == {role} and self.described()["State"]["Name"] == "running"

    def made(self) -> int:
        """How many tasks were asked for."""
        return self.front.calls.count("CreateReplaceRootVolumeTask")


@pytest.fixture
def world() -> World:
    made, _ = front()
    made.forget()
    ec2 = client("ec2")
    images: dict[Role, str] = {
        "slurm": ec2.register_image(Name=f"old-{uuid4()}")["ImageId"],
        "kubernetes": ec2.register_image(Name=f"new-{uuid4()}")["ImageId"],
    }
    said = ec2.run_instances(ImageId=images["slurm"], InstanceType="c7i.large", MinCount=1, MaxCount=1)
    instance = said["Instances"][0]["InstanceId"]
    made.roots.launched(instance)
    return World(made, ec2, instance, images)


def test_it_keeps_the_contract(world: World) -> None:
    imaging, was = world.another(), world.root()
    assert (world.is_of("slurm"), imaging.is_blank()) == (True, False)
    imaging.image("kubernetes")
    assert world.is_of("kubernetes")
    # The old volume would cost.
    assert world.root() != was
    kept = {each["VolumeId"] for each in world.ec2.describe_volumes()["Volumes"]}
    assert was not in kept
    # Done again, after one that was cut off: it is made anew, and the machine may be off.
    world.ec2.stop_instances(InstanceIds=[world.instance])
    imaging.image("kubernetes")
    assert world.is_of("kubernetes")
    imaging.image("slurm")
    assert world.is_of("slurm")
    assert world.made() == 3


def test_one_that_is_of_an_image_that_is_no_roles_any_more_is_of_none(world: World) -> None:
    world.images["slurm"] = world.ec2.register_image(Name=f"newer-{uuid4()}")["ImageId"]
    assert world.another().imaged() == set()
    # Nor is one whose image is taken away by now.
    world.images["slurm"] = "ami-00000000000000000"
    assert world.another().imaged() == set()


def test_a_task_that_takes_longer_than_one_waits_is_gone_on_with_by_whoever_asks_next(world: World) -> None:
    world.front.roots.looks = 60
    imaging = world.another()
    with pytest.raises(Transient, match="its root volume is replaced"):
        imaging.image("kubernetes")
    # Less than half of what a driver may say nothing for.
    assert world.now < 30
    # Which image it is of is not known meanwhile: the old one is there, and is not to stay.
    assert imaging.imaged() == set()
    # Who waited is killed, and another goes on.
    other = world.another()
    with pytest.raises(Transient, match="its root volume is replaced"):
        other.image("kubernetes")
    other.image("kubernetes")
    assert world.is_of("kubernetes")
    assert world.made() == 1


def test_one_that_goes_back_waits_for_the_task_that_is_under_way(world: World) -> None:
    world.front.roots.looks = 30
    with pytest.raises(Transient):
        world.another().image("kubernetes")
    back = world.another()
    for _ in range(10):
        try:
            back.image("slurm")
            break
        except Transient:
            continue
    assert world.is_of("slurm")
    assert world.made() == 2


def test_an_answer_that_is_lost_is_no_second_task(world: World) -> None:
    world.front.roots.looks = 3
    world.front.lose_answers()
    imaging = world.another()
    with pytest.raises(Transient):
        imaging.image("kubernetes")
    imaging.image("kubernetes")
    assert world.is_of("kubernetes")
    assert world.made() == 1


def test_a_task_that_fails_is_asked_for_again_and_one_that_leaves_no_volume_is_for_a_person(
    world: World,
) -> None:
    world.front.roots.ends += ["failed", "succeeded", "failed-detached"]
    imaging = world.another()
    with pytest.raises(Transient, match="has its old root volume still"):
        imaging.image("kubernetes")
    assert world.is_of("slurm")
    imaging.image("kubernetes")
    with pytest.raises(
        Permanent, match=r"has no root volume: .*terminate the instance, and `tidepool up --refresh`"
    ):
        imaging.image("slurm")
    assert imaging.imaged() == set()
    assert imaging.is_blank()


@pytest.mark.parametrize("call", ["CreateReplaceRootVolumeTask", "DescribeReplaceRootVolumeTasks"])
def test_a_right_that_is_missing_is_told_of_and_nothing_is_done(world: World, call: str) -> None:
    world.front.denied.add(call)
    with pytest.raises(Permanent, match=f"UnauthorizedOperation.*{call}"):
        world.another().image("kubernetes")
    world.front.denied.clear()
    assert world.is_of("slurm")


def test_a_machine_that_somebody_terminated_is_for_good(world: World) -> None:
    world.ec2.terminate_instances(InstanceIds=[world.instance])
    for ask in (lambda: world.another().imaged(), lambda: world.another().image("kubernetes")):
        with pytest.raises(Permanent, match="is terminated: `tidepool up --refresh` makes another"):
            ask()


def test_a_question_that_fails_may_be_asked_again(world: World) -> None:
    world.front.fail("RequestLimitExceeded", status=503)
    with pytest.raises(InfrastructureError) as raised:
        world.another().imaged()
    assert raised.type is Transient
    assert world.is_of("slurm")


def test_it_is_read_from_what_the_graph_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    images = {"slurm": "ami-1", "kubernetes": "ami-2"}
    said = {"kind": "aws", "region": "eu-central-1", "instance": "i-1", "images": images}
    found, same = registered(said, Path("/data")), imaging_of(said, Path("/data"))
    assert isinstance(found, RootVolumeImaging)
    assert (found.instance, found.images, found.ec2.meta.region_name) == ("i-1", images, "eu-central-1")
    assert (same.instance, same.images) == (found.instance, found.images)

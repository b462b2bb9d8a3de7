"""A machine of AWS that is made anew from another image: its root volume is replaced, and the instance stays.

Addresses, interfaces, role and user data stay with the instance. Pulumi's state has an image of it that it is not looked at for again.
Which image the machine is of, its root volume is asked: by the snapshot that it was made from, which is that of one AMI.

AWS does it by a task, which takes longer than a driver of a conversion may say nothing. One that is not done yet is told of as not done, and gone on
with by whoever asks next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import Permanent, Transient
from tidepool.cluster.roles import Role
from tidepool.infrastructures.aws.session import client, kinds_of_failures

#: How long a call waits for a task, in seconds: less than half of what a driver may say nothing for.
_PATIENCE_S: Final = 20.0
_PAUSE_S: Final = 1.0
#: The task goes on, and the volume that is at the instance now is not the one to be.
_UNDER_WAY: Final = ("pending", "in-progress", "failing", "failing-detached")
#: The old volume is off, and no other is there.
_WITHOUT: Final = "failed-detached"
_GONE: Final = ("shutting-down", "terminated")


def imaging_of(said: Mapping[str, Any], _data: Path) -> RootVolumeImaging:
    """The machine of which `tidepool.infrastructures.aws.graph` said this."""
    return RootVolumeImaging(client("ec2", said["region"]), said["instance"], said["images"])


@dataclass(slots=True)
class RootVolumeImaging:
    """`tidepool.infrastructures.imaging.Imaging` of ``instance``; ``images`` are AMIs, by role. ``ec2`` is a client of boto3."""

    ec2: Any
    instance: str
    images: Mapping[Role, str]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    #: The task that `image` waits for, where a call before did not see its end.
    _task: str = field(default="", init=False)

    def imaged(self) -> frozenset[Role]:
        with kinds_of_failures(f"{self.instance}: its image is not known"):
            if self._under_way() or (snapshot := self._snapshot()) is None:
                return frozenset()
            # By a filter: one that is taken away is no error.
            filters = [{"Name": "image-id", "Values": sorted({*self.images.values()})}]
            said = self.ec2.describe_images(Filters=filters)["Images"]
            made_from = {each["ImageId"]: _snapshots(each) for each in said}
            return frozenset(
                role for role, image in self.images.items() if snapshot in made_from.get(image, ())
            )

    def is_blank(self) -> bool:
        with kinds_of_failures(f"{self.instance}: its root volume is not known"):
            return not self._under_way() and self._root_volume() is None

    def image(self, role: Role) -> None:
        with kinds_of_failures(f"{self.instance} is not made anew"):
            end = self.clock() + _PATIENCE_S
            if not self._task:
                self._task = self._begun(role, end)
            task = self._task
            state = self._patiently(lambda: self._state(task), "its root volume is replaced", end)
            self._task = ""
        if state == "succeeded":
            return
        if state == _WITHOUT:
            raise Permanent(
                f"{self.instance} has no root volume: AWS took the old one off and could not put another there ({task}); terminate the "
                "instance, and `tidepool up --refresh` makes another"
            )
        raise Transient(f"{self.instance} has its old root volume still: AWS could not replace it ({task})")

    def _begun(self, role: Role, end: float) -> str:
        """Return the task that makes it anew from the role's image: one that somebody began who was cut off, or another."""
        for each in self._under_way():
            if each.get("ImageId") == self.images[role]:
                return str(each["ReplaceRootVolumeTaskId"])
        self._patiently(lambda: not self._under_way(), "another root volume is put there first", end)
        if self._instance_state() == "stopped":
            self.ec2.start_instances(InstanceIds=[self.instance])
        # A task is taken of an instance that runs.
        self._patiently(lambda: self._instance_state() == "running", "it starts", end)
        said = self.ec2.create_replace_root_volume_task(
            InstanceId=self.instance, ImageId=self.images[role], DeleteReplacedRootVolume=True
        )
        return str(said["ReplaceRootVolumeTask"]["ReplaceRootVolumeTaskId"])

    def _patiently(self, look: Callable[[], Any], what: str, end: float) -> Any:
        """Return what ``look`` gives once it gives something.

        Raises:
            Transient: it does not yet, and is to be asked again.
        """
        while not (seen := look()):
            if self.clock() > end:
                raise Transient(f"{self.instance}: {what}")
            self.sleep(_PAUSE_S)
        return seen

    def _state(self, task: str) -> str:
        """Return how it ended; empty while it has not."""
        said = self.ec2.describe_replace_root_volume_tasks(ReplaceRootVolumeTaskIds=[task])
        # One that was begun just now may not be seen.
        states = [each["TaskState"] for each in said["ReplaceRootVolumeTasks"]]
        return next((state for state in states if state not in _UNDER_WAY), "")

    def _under_way(self) -> list[Mapping[str, Any]]:
        filters = [{"Name": "instance-id", "Values": [self.instance]}]
        pages = self.ec2.get_paginator("describe_replace_root_volume_tasks").paginate(Filters=filters)
        return [
            each
            for page in pages
            for each in page["ReplaceRootVolumeTasks"]
            if each["TaskState"] in _UNDER_WAY
        ]

    def _described(self) -> Mapping[str, Any]:
        said = self.ec2.describe_instances(InstanceIds=[self.instance])["Reservations"]
        found: Mapping[str, Any] = said[0]["Instances"][0]
        if found["State"]["Name"] in _GONE:
            raise Permanent(f"{self.instance} is terminated: `tidepool up --refresh` makes another")
        return found

    def _instance_state(self) -> str:
        return str(self._described()["State"]["Name"])

    def _snapshot(self) -> str | None:
        """Return that of the root volume; None where there is no such volume."""
        if (volume := self._root_volume()) is None:
            return None
        (told,) = self.ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
        return str(told.get("SnapshotId") or "") or None

    def _root_volume(self) -> str | None:
        there = self._described()
        volumes = (
            str(each["Ebs"]["VolumeId"])
            for each in there.get("BlockDeviceMappings", ())
            if each["DeviceName"] == there.get("RootDeviceName")
        )
        return next(volumes, None)


def _snapshots(image: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        snapshot
        for each in image.get("BlockDeviceMappings", ())
        if (snapshot := each.get("Ebs", {}).get("SnapshotId"))
    )

"""Root volumes that are replaced by tasks of EC2, over moto, which has none of that: as AWS documents them.

What is not documented, and taken for so here: a second task of an instance is refused while one is under way, as `IncorrectState`; the volume is
another one at the same moment at which the task has succeeded; and the instance says the new image from then on, which is the harder case for whoever compares it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moto.ec2.models import ec2_backends

from tests.infrastructures.aws.http import Asked, Refused
from tests.infrastructures.aws.specs import REGION

_ACCOUNT: Final = "123456789012"
_UNDER_WAY: Final = ("pending", "in-progress")


@dataclass
class _Task:
    id: str
    instance: str
    image: str
    ends: str
    #: How often it is looked at until it has ended.
    looks: int
    state: str = "pending"

    @property
    def said(self) -> Mapping[str, Any]:
        return {
            "replaceRootVolumeTaskId": self.id,
            "instanceId": self.instance,
            "imageId": self.image,
            "taskState": self.state,
            "deleteReplacedRootVolume": "true",
        }


@dataclass
class RootVolumes:
    """Those of moto's instances. ``replaced`` is called with an instance and the image that it is of from then on.

    ``looks`` is how often tasks are looked at until they have ended, ``ends`` how the next ones end: `succeeded` when nothing is said.
    """

    replaced: Callable[[str, str], None] = lambda _instance, _image: None
    looks: int = 1
    ends: list[str] = field(default_factory=list)
    _tasks: dict[str, _Task] = field(default_factory=dict)
    _tokens: dict[str, _Task] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def launched(self, instance: str) -> None:
        """Have the root volume of a new instance be of its image, as it is at AWS: moto's is of none."""
        self._renew(instance, self._instance(instance).image_id)

    def create(self, asked: Asked) -> Mapping[str, Any]:
        """Answer CreateReplaceRootVolumeTask."""
        token = asked.get("ClientToken", "")
        if token not in self._tokens:
            self._tokens[token] = self._created(asked)
        return {"replaceRootVolumeTask": self._tokens[token].said}

    def _created(self, asked: Asked) -> _Task:
        instance, image = asked["InstanceId"], asked["ImageId"]
        state = self._instance(instance).state
        if state != "running":
            raise Refused("IncorrectInstanceState", f"The instance {instance} is {state}, and not running")
        if any(each.instance == instance and each.state in _UNDER_WAY for each in self._tasks.values()):
            raise Refused("IncorrectState", f"a root volume of {instance} is replaced already")
        if asked.get("DeleteReplacedRootVolume") != "true":
            raise Refused("InvalidParameter", "the old root volume would stay, and cost")
        self._image(image)
        ends = self.ends.pop(0) if self.ends else "succeeded"
        task = _Task(f"replacevol-{next(self._numbers):017x}", instance, image, ends, self.looks)
        self._tasks[task.id] = task
        return task

    def describe(self, asked: Asked) -> Mapping[str, Any]:
        """Answer DescribeReplaceRootVolumeTasks, for one task or of one instance."""
        if (id := asked.get("ReplaceRootVolumeTaskId.1")) is not None:
            found = [self._tasks[id]]
        else:
            assert asked["Filter.1.Name"] == "instance-id", asked
            found = [each for each in self._tasks.values() if each.instance == asked["Filter.1.Value.1"]]
        for task in found:
            self._go_on(task)
        return {"replaceRootVolumeTaskSet": [task.said for task in found]}

    def _go_on(self, task: _Task) -> None:
        if task.state not in _UNDER_WAY:
            return
        task.looks -= 1
        task.state = "in-progress" if task.looks > 0 else task.ends
        if task.state == "succeeded":
            self._renew(task.instance, task.image)
            self._instance(task.instance).image_id = task.image
            self.replaced(task.instance, task.image)
        elif task.state == "failed-detached":
            self._take_off(task.instance)

    def _renew(self, instance: str, image: str) -> None:
        device = self._take_off(instance)
        backend = self._backend
        made = backend.create_volume(
            size=16,
            zone_name=self._instance(instance).placement,
            snapshot_id=self._image(image).ebs_snapshot.id,
        )
        backend.attach_volume(made.id, instance, device, True)

    def _take_off(self, instance: str) -> str:
        """Take the root volume away; gives where it was."""
        there = self._instance(instance)
        device = str(self._image(there.image_id).root_device_name)
        if (old := there.block_device_mapping.get(device)) is not None:
            self._backend.detach_volume(old.volume_id, instance, device)
            self._backend.delete_volume(old.volume_id)
        return device

    @property
    def _backend(self) -> Any:
        return ec2_backends[_ACCOUNT][REGION]

    def _instance(self, id: str) -> Any:
        return self._backend.get_instance(id)

    def _image(self, id: str) -> Any:
        return self._backend.describe_images(ami_ids=(id,))[0]

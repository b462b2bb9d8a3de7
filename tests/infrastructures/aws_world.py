"""AWS as an infrastructure of the contract: what is found and deleted is the package's, and here it is made as Pulumi does."""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.infrastructures.aws.front import Front, client, front
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.aws.machines import AwsMachines
from tidepool.infrastructures.aws.names import machine_tags
from tidepool.infrastructures.aws.session import kinds_of_failures
from tidepool.simulation.machines import MachineRequest

_TOKENS = count()


@dataclass(frozen=True, slots=True)
class Made(AwsMachines):
    """Instances with the tags that the graph gives them."""

    image: str = ""

    def create(self, request: MachineRequest) -> Machine:
        key = request.key
        if (there := self.read(key)) is not None:
            if there.state == "stopped":
                with kinds_of_failures(f"{key} is not started"):
                    self.ec2.start_instances(InstanceIds=[there.machine_id])
            return self._known(key)
        tags = machine_tags(key.stack, key.node, request.address)
        with kinds_of_failures(f"{key} is not made"):
            self.ec2.run_instances(
                ImageId=self.image,
                InstanceType="c7i.large",
                MinCount=1,
                MaxCount=1,
                ClientToken=f"terraform-{next(_TOKENS)}",
                TagSpecifications=[
                    {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
                ],
            )
        made = self._known(key)
        # AWS takes it with the launch, of which moto forgets it.
        self.ec2.modify_instance_attribute(InstanceId=made.machine_id, DisableApiTermination={"Value": True})
        return made

    def _known(self, key: MachineKey) -> Machine:
        found = self.read(key)
        assert found is not None
        return found


@dataclass
class AwsWorld:
    """``front`` has the faults, ``ec2`` is what happens from outside."""

    infrastructure: Made
    front: Front
    ec2: Any
    stack: str

    def stop(self, key: MachineKey) -> None:
        self.ec2.stop_instances(InstanceIds=[self._id(key)])

    def vanish(self, key: MachineKey) -> None:
        """AWS itself takes it back, which no protection prevents."""
        self.ec2.modify_instance_attribute(InstanceId=self._id(key), DisableApiTermination={"Value": False})
        self.delete_outside(key)

    def delete_outside(self, key: MachineKey) -> None:
        self.ec2.terminate_instances(InstanceIds=[self._id(key)])

    def keep(self, key: MachineKey) -> None:
        """It is kept from being deleted: whoever asks has no right to."""
        self.front.denied.add("TerminateInstances")

    def _id(self, key: MachineKey) -> str:
        found = self.infrastructure.read(key)
        assert found is not None
        return found.machine_id


def aws_world() -> AwsWorld:
    """One without faults, and with a stack that has nothing."""
    made, _ = front()
    made.forget()
    ec2 = client("ec2")
    return AwsWorld(Made(ec2, _image()), made, ec2, f"t{uuid.uuid4().hex[:8]}")


@functools.cache
def _image() -> str:
    return str(client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"])

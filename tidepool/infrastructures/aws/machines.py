"""The instances of a stack at AWS, as the scaler lists and sweeps them: they are found by their tags, whoever made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import ClientError

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.aws.names import ADDRESS, NODE, STACK
from tidepool.infrastructures.aws.reading import read_options
from tidepool.infrastructures.aws.session import client, kinds_of_failures, tags_of
from tidepool.infrastructures.machines import NO_ADDRESS

#: Those that are there. One that shuts down for good is gone: it never comes back, and its disk goes with it.
_THERE: Final = ("pending", "running", "stopping", "stopped")
_RUNS: Final = ("pending", "running")
#: By what EC2 names in its refusal.
_PROTECTED: Final = "disableApiTermination"
#: Of one question: DescribeInstances answers so many at once.
_PAGE: Final = 1000


def machines_of(spec: ClusterSpec, stack: str, _data: Path) -> Infrastructure:
    """The machines of a stack in the region of its spec.

    Raises:
        InfrastructureError: who asks is not known.
    """
    place = read_options(spec, stack).place
    with kinds_of_failures("the machines of AWS cannot be listed"):
        return AwsMachines(client("ec2", place.region))


@dataclass(frozen=True, slots=True)
class AwsMachines:
    """`tidepool.infrastructures.Infrastructure`, of the region of ``ec2``, a client of boto3."""

    ec2: Any

    def read(self, key: MachineKey) -> Machine | None:
        found = self._instances(_by_key(key))
        return to_machine(found[0]) if found else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        filters = [_tagged(STACK, stack), {"Name": "tag-key", "Values": [NODE]}]
        return tuple(sorted(map(to_machine, self._instances(filters)), key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        # All of that key: where an answer was lost and nobody asked again, there may be one that no state knows.
        ids = [each["InstanceId"] for each in self._instances(_by_key(key))]
        if ids:
            with kinds_of_failures(f"{key} is not deleted"):
                self._terminate(ids)

    def _terminate(self, ids: Sequence[str]) -> None:
        """Terminate them, without the protection of those that have it: the graph gives it to all but spot machines."""
        try:
            self.ec2.terminate_instances(InstanceIds=ids)
        except ClientError as error:
            if _PROTECTED not in str(error):
                raise
            for each in ids:
                self.ec2.modify_instance_attribute(InstanceId=each, DisableApiTermination={"Value": False})
            self.ec2.terminate_instances(InstanceIds=ids)

    def _instances(self, filters: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the instances that are there, the oldest first."""
        asked = [*filters, {"Name": "instance-state-name", "Values": [*_THERE]}]
        with kinds_of_failures("the machines of AWS cannot be listed"):
            return sorted(self._pages(asked), key=lambda each: (each["LaunchTime"], each["InstanceId"]))

    def _pages(self, filters: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        pages = self.ec2.get_paginator("describe_instances")
        for page in pages.paginate(Filters=filters, PaginationConfig={"PageSize": _PAGE}):
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]


def to_machine(instance: Mapping[str, Any]) -> Machine:
    """An instance as EC2 describes it, in the words of the contract."""
    tags = tags_of(instance)
    key = MachineKey(tags.get(STACK, ""), tags.get(NODE, ""), instance["InstanceId"])
    address = IPv4Address(tags[ADDRESS]) if ADDRESS in tags else NO_ADDRESS
    runs = instance["State"]["Name"] in _RUNS
    since = instance.get("LaunchTime")
    return Machine(key, address, "running" if runs else "stopped", since)


def _by_key(key: MachineKey) -> list[Mapping[str, Any]]:
    this = [{"Name": "instance-id", "Values": [key.machine_id]}] if key.machine_id else []
    return [_tagged(STACK, key.stack), _tagged(NODE, key.node), *this]


def _tagged(name: str, value: str) -> Mapping[str, Any]:
    return {"Name": f"tag:{name}", "Values": [value]}

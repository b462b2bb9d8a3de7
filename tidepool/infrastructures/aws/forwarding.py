"""EC2's check that what an interface sends and takes is from and to its own address. It must be off on ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import botocore.exceptions

from tidepool.infrastructures.aws.session import client, kinds_of_failures


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface, asked and told by ``ec2``, a client of boto3."""

    ec2: Any
    id: str

    def forward(self) -> None:
        """Have it forward.

        Raises:
            InfrastructureError: AWS does not.
        """
        with kinds_of_failures(f"the interface {self.id} is not made to forward"):
            self.ec2.modify_network_interface_attribute(
                NetworkInterfaceId=self.id, SourceDestCheck={"Value": False}
            )

    @property
    def forwards(self) -> bool | None:
        """Return whether it forwards; None where it is gone.

        Raises:
            InfrastructureError: AWS does not say.
        """
        with kinds_of_failures(f"the interface {self.id} cannot be looked at"):
            try:
                said = self.ec2.describe_network_interfaces(NetworkInterfaceIds=[self.id])
            except botocore.exceptions.ClientError as error:
                if error.response.get("Error", {}).get("Code") == "InvalidNetworkInterfaceID.NotFound":
                    return None
                raise
        (found,) = said["NetworkInterfaces"]
        return not found["SourceDestCheck"]


def interface(region: str, id: str) -> Interface:
    """An interface of that region."""
    return Interface(client("ec2", region), id)

"""Clients of AWS: made once, with time-outs that a person waits for; what AWS answers, in the kinds that we know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import boto3
import botocore.config
import botocore.exceptions

from tidepool.cluster.failures import Permanent, Transient
from tidepool.infrastructures.aws.failures import kind_of

_CONFIG: Final = botocore.config.Config(
    connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3}
)


def client(service: str, region: str) -> Any:
    """A client; who asks is what the environment and ~/.aws say."""
    return boto3.client(service, region_name=region, config=_CONFIG)


@contextmanager
def kinds_of_failures(what: str) -> Iterator[None]:
    """Failures as the contract knows them.

    Raises:
        InfrastructureError: of one of the three kinds.
    """
    try:
        yield
    except botocore.exceptions.ClientError as error:
        # The message may name things of people's: it counts where there is no code alone.
        code = error.response.get("Error", {}).get("Code")
        raise kind_of(code or str(error))(f"{what}: {error}") from error
    except (
        botocore.exceptions.NoCredentialsError,
        botocore.exceptions.PartialCredentialsError,
        botocore.exceptions.ProfileNotFound,
    ) as error:
        raise Permanent(f"{what}: {error}; set AWS_PROFILE, or run `aws configure`") from error
    except botocore.exceptions.BotoCoreError as error:
        # No answer, or none that is understood: it may have been done.
        raise Transient(f"{what}: {error}") from error


def tags_of(said: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the tags of a resource as EC2 describes it."""
    return {tag["Key"]: tag["Value"] for tag in said.get("Tags", ())}


def forward(region: str, interface: str) -> None:
    """Have a network interface forward.

    Raises:
        InfrastructureError: AWS does not.
    """
    with kinds_of_failures(f"the interface {interface} is not made to forward"):
        client("ec2", region).modify_network_interface_attribute(
            NetworkInterfaceId=interface, SourceDestCheck={"Value": False}
        )


def forwards(region: str, interface: str) -> bool | None:
    """Return whether a network interface forwards; None where it is gone.

    Raises:
        InfrastructureError: AWS does not say.
    """
    with kinds_of_failures(f"the interface {interface} cannot be looked at"):
        try:
            said = client("ec2", region).describe_network_interfaces(NetworkInterfaceIds=[interface])
        except botocore.exceptions.ClientError as error:
            if error.response.get("Error", {}).get("Code") == "InvalidNetworkInterfaceID.NotFound":
                return None
            raise
    (found,) = said["NetworkInterfaces"]
    return not found["SourceDestCheck"]

"""Calls to AWS by boto3, and what all kinds of resources there have in common."""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Final, Generic, TypeVar
from uuid import uuid4

import boto3
import botocore.config
from botocore.exceptions import ClientError

from tests.plugins.serving import Configuration
from tidepool.resources.kind import AS_KNOWN, Kind, Made, Refusal, Task
from tidepool.resources.model import Model
from tidepool.resources.values import Plain

#: How long one waits between two looks; the real plugin takes seconds.
_AGAIN_S: Final = 0.2
_KNOWN: Final = {"region", "maxRetries", "skipRegionValidation", "skipCredentialsValidation", "version"}
#: Codes of errors that say that something is not there.
_GONE: Final = ("NotFound", "NoSuch", ".Malformed", "FileSystemNotFound", "MountTargetNotFound")

#: Clients are many threads', and made by one at a time.
_MAKES_CLIENTS: Final = threading.Lock()

T = TypeVar("T", bound=Model)


@cache
def _client(service: str, region: str, attempts: int, endpoint: str | None) -> Any:
    config = botocore.config.Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        # Signed by their addresses alone: an image has gigabytes. S3's own client does so over TLS.
        s3={"payload_signing_enabled": False, "addressing_style": "path"},
        request_checksum_calculation="when_required",
    )
    return boto3.client(service, region_name=region, endpoint_url=endpoint, config=config)


class AwsKind(Kind[T], Generic[T]):
    """A kind of AWS: made and looked at, and for the most part replaced where it is to be another."""

    timeout_s: ClassVar[float] = 600.0
    service: ClassVar[str] = "ec2"

    def __init__(self, configuration: Configuration) -> None:
        if unknown := configuration.keys() - _KNOWN:
            raise Refusal(f"this plugin of the tests does not know the settings {', '.join(sorted(unknown))}")
        self.region = str(configuration["region"])
        self._attempts = int(float(configuration.get("maxRetries") or 25))

    @property
    def api(self) -> Any:
        """The client of the service that it is of."""
        return self.client(self.service)

    def client(self, service: str) -> Any:
        """A client; where AWS is, the environment says."""
        with _MAKES_CLIENTS:
            return _client(service, self.region, self._attempts, os.environ.get("AWS_ENDPOINT_URL"))

    @abstractmethod
    def make(self, wanted: T, task: Task) -> Made:
        """Make it."""

    @abstractmethod
    def found(self, id: str, state: T) -> Mapping[str, Plain] | None:
        """The inputs that are otherwise than in the state; None or an error of AWS's where it is gone."""

    @abstractmethod
    def remove(self, id: str, state: T, task: Task) -> None:
        """Take it away; an error where it is gone is none."""

    def create(self, wanted: T, task: Task) -> Made:
        with told(f"creating {self.resource.token}"):
            return self.make(wanted, task)

    def look(self, id: str, state: T) -> Mapping[str, Plain] | None:
        with told(f"reading {self.resource.token} ({id})"):
            try:
                return self.found(id, state)
            except ClientError as error:
                if is_gone(error):
                    return None
                raise

    def update(self, id: str, old: T, wanted: T, task: Task) -> Mapping[str, Plain]:
        with told(f"updating {self.resource.token} ({id})"):
            return self.change(id, old, wanted, task)

    def change(self, id: str, old: T, wanted: T, task: Task) -> Mapping[str, Plain]:
        """Change it in place."""
        raise Refusal(f"this plugin of the tests does not change a {self.resource.token}")

    def delete(self, id: str, state: T, task: Task) -> None:
        with told(f"deleting {self.resource.token} ({id})"):
            try:
                self.remove(id, state, task)
            except ClientError as error:
                if not is_gone(error):
                    raise

    # Of EC2

    def tag(self, id: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Give something of EC2 its tags in place of those that it had."""
        if gone := old.keys() - new.keys():
            self.client("ec2").delete_tags(Resources=[id], Tags=[{"Key": key} for key in gone])
        if new:
            self.client("ec2").create_tags(Resources=[id], Tags=listed(new))


@contextmanager
def told(what: str) -> Iterator[None]:
    """Errors of AWS in the words in which the real plugin has them."""
    try:
        yield
    except ClientError as error:
        raise Refusal(f"{what}: {error}") from error


def is_gone(error: ClientError) -> bool:
    """Return whether AWS says that it is not there."""
    code = str(error.response.get("Error", {}).get("Code"))
    return any(each in code for each in _GONE)


def patiently(task: Task, is_done: Callable[[], bool], what: str) -> None:
    """Wait until it is."""
    if why := task.wait(lambda: "" if is_done() else what, "waiting", _AGAIN_S, time.sleep):
        raise Refusal(f"timeout while waiting for {why}")


def listed(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as most services have them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tagging(kind: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """The argument by which what EC2 makes has its tags."""
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": listed(tags)}]} if tags else {}


def drift(state: Model, there: Mapping[str, Any]) -> Mapping[str, Plain]:
    """Those of what is ``there``, by names in Python, that are otherwise in the state."""
    properties = state.properties
    found = {properties[name].wire: value for name, value in there.items() if getattr(state, name) != value}
    return found or AS_KNOWN


def tags_of(said: Mapping[str, Any]) -> dict[str, str]:
    """Tags of something that EC2 describes; those of AWS's own are nobody's."""
    return {tag["Key"]: tag["Value"] for tag in said.get("Tags", ()) if not tag["Key"].startswith("aws:")}


def auto_name(what: str) -> str:
    """A name for what has none, with seven hexadecimal letters as Pulumi's have them."""
    return f"{what}-{uuid4().hex[:7]}"


#: Lists and maps of the package that EC2's API has under other names.
_RENAMED: Final = {"securityGroups": "Groups", "vpcSecurityGroupIds": "SecurityGroupIds"}


def api_value(value: Plain) -> Any:
    """Something nested as boto3 takes it: names begin with capitals, numbers are whole, what may be unset is said by a text."""
    if isinstance(value, Mapping):
        return {
            _RENAMED.get(key, key[0].upper() + key[1:]): listed(each) if key == "tags" else api_value(each)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list | tuple):
        return [api_value(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value

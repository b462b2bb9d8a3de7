"""What kind of failure a text of AWS tells of, as the plugin and boto3 write it."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.aws.failures import kind_of
from tidepool.infrastructures.aws.session import kinds_of_failures

PLUGIN = "creating EC2 Instance: operation error EC2: RunInstances, https response error StatusCode: {}, RequestID: 4, api error {}: {}"
BOTO = "An error occurred ({}) when calling the RunInstances operation: {}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PLUGIN.format(500, "InsufficientInstanceCapacity", "We currently do not have sufficient c7i capacity"), InsufficientCapacity),
        (PLUGIN.format(400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your limit"), InsufficientCapacity),
        (PLUGIN.format(400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"), InsufficientCapacity),
        (PLUGIN.format(400, "InsufficientFreeAddressesInSubnet", "not enough free addresses"), InsufficientCapacity),
        ("creating Route in Route Table: api error RouteLimitExceeded: maximum number of routes", InsufficientCapacity),
        (BOTO.format("RequestLimitExceeded", "Request limit exceeded."), Transient),
        (BOTO.format("InternalError", "An internal error has occurred"), Transient),
        ("waiting for EC2 Instance (i-1) create: timeout while waiting for state to become 'running'", Transient),
        ("dial tcp 10.0.0.1:443: i/o timeout", Transient),
        (BOTO.format("OperationNotPermitted", "The instance may not be terminated"), Permanent),
        (BOTO.format("InvalidParameterValue", "Invalid value 'x' for instanceType"), Permanent),
        (BOTO.format("UnauthorizedOperation", "You are not authorized"), Permanent),
        (BOTO.format("AuthFailure", "AWS was not able to validate the credentials"), Permanent),
        ("something that nobody has seen", Permanent),
        # A code within a longer one is another.
        (BOTO.format("NotInternalErrorAtAll", "no"), Permanent),
    ],
)  # fmt: skip
def test_a_failure_is_of_its_kind(text: str, kind: type[Exception]) -> None:
    assert kind_of(text) is kind


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("RequestLimitExceeded", "Request limit exceeded.", Transient),
        ("VcpuLimitExceeded", "You have requested more", InsufficientCapacity),
        # What people's things are called says nothing of what happened.
        ("UnauthorizedOperation", "not authorized to use the profile Throttling", Permanent),
        ("", "connection reset by peer", Transient),
    ],
)
def test_the_kind_of_an_error_of_boto3_is_in_its_code(code: str, message: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=message) as raised, kinds_of_failures("it is not made"):
        raise ClientError({"Error": {"Code": code, "Message": message}}, "RunInstances")
    assert type(raised.value) is kind

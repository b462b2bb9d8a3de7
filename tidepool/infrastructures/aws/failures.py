"""Kinds of AWS's failures: by its error codes, which are in the texts of the plugin and of boto3 alike."""

from __future__ import annotations

import re
from typing import Final

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient

_CAPACITY: Final = (
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientCapacity",
    "InsufficientCapacityOnHost",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientVolumeCapacity",
    "InsufficientAddressCapacity",
    "InstanceLimitExceeded",
    "VcpuLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow",
    "VolumeLimitExceeded",
    "RouteLimitExceeded",
    "NetworkInterfaceLimitExceeded",
    "ReservationCapacityExceeded",
    "UnfulfillableCapacity",
    "capacity-not-available",
    "no Spot capacity available",
)
_TRANSIENT: Final = (
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
    "ServiceUnavailable",
    "Unavailable",
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "RequestExpired",
    "IncorrectState",
    "IncorrectInstanceState",
    "DependencyViolation",
    "ResourceNotReady",
    "InvalidIamInstanceProfile",
    "timeout while waiting",
    "context deadline exceeded",
    "connection reset",
    "connection refused",
    "i/o timeout",
    "EOF",
)


def kind_of(text: str) -> type[InfrastructureError]:
    """The kind of the failure that a text tells of; what is not known to pass by itself is permanent."""
    if _has(_CAPACITY, text):
        return InsufficientCapacity
    return Transient if _has(_TRANSIENT, text) else Permanent


def _has(words: tuple[str, ...], text: str) -> bool:
    """Whole words: no code is found within a longer one."""
    found = "|".join(map(re.escape, words))
    return re.search(rf"(?<![A-Za-z.])(?:{found})(?![A-Za-z])", text) is not None

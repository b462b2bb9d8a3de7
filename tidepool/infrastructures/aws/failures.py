"""Kinds of AWS's failures: by its error codes, which are in the texts of the plugin and of boto3 alike."""

from __future__ import annotations

import re
from typing import Final

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.failures import by_words

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


def _codes(words: tuple[str, ...]) -> tuple[str]:
    """Whole words: no code is found within a longer one."""
    return (rf"(?<![A-Za-z.])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z])",)


#: What is not known to pass by itself is permanent.
kind_of: Final = by_words(
    (InsufficientCapacity, _codes(_CAPACITY)), (Transient, _codes(_TRANSIENT)), otherwise=Permanent, flags=0
)

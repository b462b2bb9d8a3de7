"""Kinds of failures of libvirt, of QEMU and of the plugin: they are told from each other by their words.

The words are those of libvirt 9.0 and QEMU 7.2, most of them as a libvirtd said them when it was asked for what it
had not.
"""

from __future__ import annotations

from typing import Final

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.failures import by_words

#: In this order: what a host has no more of is often wrapped in words that say less. What is not known is `Transient`: libvirt's own
#: time-outs, hosts that do not answer, locks that others hold, and a machine of that name that an earlier attempt left there, until
#: it is swept.
kind_of: Final = by_words(
    (
        InsufficientCapacity,
        (
            # Memory, and pages of it.
            r"cannot allocate memory",
            r"cannot set up guest memory",
            r"unable to map backing store",
            r"insufficient free host memory pages",
            r"unable to allocate .*memory",
            # Disks. What is read from full disks is QEMU's and libvirt's word for the same.
            r"no space left on device",
            r"disk quota exceeded",
            r"not enough (free )?space",
            # Devices and virtual functions, which another machine has.
            r"is in use by (driver|domain)",
            r"is already in use",
            r"requires exclusive access to interfaces, but none are available",
            r"no (usable|free) (virtual function|vf)",
            r"device is busy|device or resource busy.*vfio|vfio.*device or resource busy",
        ),
    ),
    (
        Permanent,
        (
            r"unsupported configuration",
            r"is not supported by",
            r"does ?n.t support",
            r"xml error",
            r"invalid argument",
            r"hugetlbfs filesystem is not mounted",
            r"(network|pool|domain snapshot) not found",
            r"no (network|storage pool) with matching name",
            r"cannot get interface mtu",
            r"cannot access storage file",
            r"permission denied",
            r"access denied",
            r"authentication (failed|unavailable)",
            r"host key verification failed",
            r"unable to find any firmware",
        ),
    ),
    otherwise=Transient,
)

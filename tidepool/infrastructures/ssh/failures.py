"""Failures with existing hosts: their type, and their kinds by their words, which are our own and those of SSH."""

from __future__ import annotations

from typing import Final

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.failures import by_words


class HostError(Exception):
    """A host was not reached, or did not do what it was told. The text says what, where, and the remedy."""


#: What is not known is `Transient`: hosts come back.
kind_of: Final = by_words(
    # Another node has the host, and there are no more.
    (InsufficientCapacity, (r"is (already )?the node \S+ .*of the stack", "No space left on device")),
    (
        Permanent,
        (
            "host's key is not the one that is known",
            "is not accepted",
            "may not use sudo",
            "the play failed",
            "no such name",
            "cannot be read",
            "has no module `lustre`",
            "Read-only file system",
        ),
    ),
    otherwise=Transient,
    flags=0,
)

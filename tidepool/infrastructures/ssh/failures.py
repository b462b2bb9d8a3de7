"""Failures with existing hosts: their type, and their kinds by their words, which are our own and those of SSH."""

from __future__ import annotations

import re
from typing import Final

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient


class HostError(Exception):
    """A host was not reached, or did not do what it was told. The text says what, where, and the remedy."""


_KINDS: Final[tuple[tuple[type[InfrastructureError], re.Pattern[str]], ...]] = (
    # Another node has the host, and there are no more.
    (InsufficientCapacity, re.compile(r"is (already )?the node \S+ .*of the stack|No space left on device")),
    (
        Permanent,
        re.compile(
            r"host's key is not the one that is known|is not accepted|may not use sudo|the play failed|no such name|"
            r"cannot be read|has no module `lustre`|Read-only file system"
        ),
    ),
)


def kind_of(text: str) -> type[InfrastructureError]:
    """The kind of a failure that was told in these words. What is not known is `Transient`: hosts come back."""
    return next((kind for kind, words in _KINDS if words.search(text)), Transient)

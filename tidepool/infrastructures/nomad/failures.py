"""Failures of Nomad: their types, and their kinds by their words, for its API and the plugin of Pulumi say them in text alone."""

from __future__ import annotations

from typing import Final

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.failures import by_words


class NotAllowed(Permanent):
    """The token has not the right to it."""


class NotThere(Permanent):
    """There is no such thing."""


#: In this order. A plan that finds no place is no capacity, whatever else the text says. One that nobody knows is transient: it is
#: tried again, and not for ever.
kind_of: Final = by_words(
    (
        InsufficientCapacity,
        (
            r"no nodes were eligible|placement failure|dimension .* exhausted|resources exhausted",
            r"quota .*(?:exceeded|limit)|reserved port collision|no free host",
        ),
    ),
    (
        Permanent,
        (
            r"permission denied|\b40[0134]\b|acl token not found|validation failed|missing drivers?",
            r"no such (?:job|node|namespace)|unknown namespace|nonexistent namespace|job .* is in nonexistent",
        ),
    ),
    otherwise=Transient,
)

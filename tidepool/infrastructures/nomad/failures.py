"""Failures of Nomad: their types, and their kinds by their words, for its API and the plugin of Pulumi say them in text alone."""

from __future__ import annotations

import re
from typing import Final

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient


class NotAllowed(Permanent):
    """The token has not the right to it."""


class NotThere(Permanent):
    """There is no such thing."""


#: In this order. A plan that finds no place is no capacity, whatever else the text says.
_SIGNS: Final[tuple[tuple[type[InfrastructureError], re.Pattern[str]], ...]] = (
    (
        InsufficientCapacity,
        re.compile(
            r"no nodes were eligible|placement failure|dimension .* exhausted|resources exhausted|quota .*"
            r"(?:exceeded|limit)|reserved port collision|no free host",
            re.IGNORECASE,
        ),
    ),
    (
        Permanent,
        re.compile(
            r"permission denied|\b40[0134]\b|acl token not found|validation failed|missing drivers?|"
            r"no such (?:job|node|namespace)|unknown namespace|nonexistent namespace|job .* is in nonexistent",
            re.IGNORECASE,
        ),
    ),
    (
        Transient,
        re.compile(
            r"no cluster leader|connection (?:refused|reset)|timed? ?out|deadline exceeded|\b(?:429|50[0234])\b|"
            r"rate limit|does not answer|unexpected eof|deployment .*(?:failed|cancelled)|no path to node|"
            r"check-?and-?set|modify index",
            re.IGNORECASE,
        ),
    ),
)


def kind_of(text: str) -> type[InfrastructureError]:
    """The kind that a text is of. One that nobody knows is transient: it is tried again, and not for ever."""
    return next((kind for kind, sign in _SIGNS if sign.search(text)), Transient)

"""Errors for a person, with what Pulumi then has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidepool.cluster.failures import Cause
from tidepool.resources.values import Plain


class Refusal(Exception):
    """It is not done. The text is for a person: what, where, what is allowed, the remedy."""


@dataclass
class Unfinished(Exception):
    """Something was made, but it is not as it should be: Pulumi keeps it, and the next `up` goes on from there."""

    id: str
    reason: str
    outputs: Mapping[str, Plain] = field(default_factory=dict)
    cause: Cause | None = None

    def __str__(self) -> str:
        return self.reason

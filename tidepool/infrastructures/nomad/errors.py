"""Errors of Nomad, for a person: the three kinds of every infrastructure."""

from __future__ import annotations

from tidepool.cluster.failures import Permanent


class NotAllowed(Permanent):
    """The token has not the right to it."""


class NotThere(Permanent):
    """There is no such thing."""

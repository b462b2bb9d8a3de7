"""Errors between us and Slurm, as types: what happened, where, and the remedy.

An answer that is not certain is one of these and never an empty list: whoever removes machines reads these answers.
"""

from __future__ import annotations

from tidepool.clients.errors import ClientError

#: All that can be raised where Slurm is asked: also that the way to it failed (`Unreachable`, `TimedOut`).
SlurmError = ClientError


class ControllerDown(SlurmError):
    """slurmctld does not answer: it is down, is being restarted, or is a backup in standby."""


class DatabaseDown(SlurmError):
    """slurmdbd, or the database behind it, does not answer. Nodes and jobs are not concerned."""


class Malformed(SlurmError):
    """An answer came, but it is not the one that was asked for: cut off, or in a form that is not known."""


class Refused(SlurmError):
    """Slurm understood and said no. ``words`` are its own."""

    def __init__(self, what: str, *, words: str, where: str, remedy: str) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.words = words


class NotFound(Refused):
    """Slurm knows no node, job, partition or reservation of that name."""


class PermissionDenied(Refused):
    """Slurm, or munge before it, does not let this user do that."""

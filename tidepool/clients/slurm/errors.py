"""Errors between us and Slurm, as types: what happened, where, and the remedy.

An answer that is not certain is one of these and never an empty list: whoever removes machines reads these answers.
"""

from __future__ import annotations


class SlurmError(Exception):
    """Slurm was not asked, did not answer, refused, or was not understood.

    ``what`` happened, ``where`` (the transport and the command), and the ``remedy`` are for people; the message is
    made of all three.
    """

    def __init__(self, what: str, *, where: str, remedy: str) -> None:
        super().__init__(f"{what} ({where}); {remedy}")
        self.what = what
        self.where = where
        self.remedy = remedy


class Unreachable(SlurmError):
    """The machine or the command that would ask Slurm cannot be reached; nothing was asked.

    A connection of SSH that breaks while a command runs is one too: then the request may have been carried out.
    """


class TimedOut(SlurmError):
    """No answer in time. What was asked for may have been done, or may still be."""


class ControllerDown(SlurmError):
    """slurmctld does not answer: it is down, is being restarted, or is a backup in standby."""


class DatabaseDown(SlurmError):
    """slurmdbd, or the database behind it, does not answer. Nodes and jobs are not concerned."""


class Malformed(SlurmError):
    """An answer came, but it is not the one that was asked for: cut off, or in a form that is not known."""


class Unsupported(SlurmError):
    """This transport, or this version of Slurm, cannot do that; nothing was asked."""


class Refused(SlurmError):
    """Slurm understood and said no. ``words`` are its own."""

    def __init__(self, what: str, *, words: str, where: str, remedy: str) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.words = words


class NotFound(Refused):
    """Slurm knows no node, job, partition or reservation of that name."""


class PermissionDenied(Refused):
    """Slurm, or munge before it, does not let this user do that."""

"""Errors of the ways to a machine, as types: what happened, where, and the remedy."""

from __future__ import annotations


class ClientError(Exception):
    """The other side was not asked, did not answer, refused, or was not understood.

    ``what`` happened, ``where`` (the transport and the command), and the ``remedy`` are for people; the message is
    made of all three.
    """

    def __init__(self, what: str, *, where: str, remedy: str) -> None:
        super().__init__(f"{what} ({where}); {remedy}")
        self.what = what
        self.where = where
        self.remedy = remedy


class Unreachable(ClientError):
    """The machine or the command that would be asked cannot be reached; nothing was asked.

    A connection of SSH that breaks while a command runs is one too: then the request may have been carried out.
    """


class TimedOut(ClientError):
    """No answer in time. What was asked for may have been done, or may still be."""

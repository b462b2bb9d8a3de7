"""Why a registration ends an operation."""

from __future__ import annotations


class Stopped(Exception):
    """The operation cannot go on, and why was reported already."""


class GoalError(Exception):
    """A registration that cannot be served; the text is for the person."""

    def __init__(self, message: str, urn: str = "") -> None:
        super().__init__(message)
        self.urn = urn

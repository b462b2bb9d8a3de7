"""Machines that are made anew from another image while they are there: name, place and address stay."""

from __future__ import annotations

from typing import Protocol

from tidepool.cluster.roles import Role


class Imaging(Protocol):
    """A machine that is made anew from the image of a role. What is asked and done is its infrastructure's; the machine need not answer.

    All raise `InfrastructureError`; what is `Permanent` will not be, however often it is tried.
    """

    def imaged(self) -> frozenset[Role]:
        """Return the roles whose image the machine runs, or would if it were started; none where it is another, or it `is_blank`."""
        ...

    def is_blank(self) -> bool:
        """Return whether it does not run and nothing of a role is left on it: its root was in memory, or it has no disk."""
        ...

    def image(self, role: Role) -> None:
        """Stop the machine, make its root anew from the role's image, and start it; returns when nothing of before runs, before it has booted.

        May be called again after one that was cut off.
        """
        ...

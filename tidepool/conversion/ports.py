"""Ports of a conversion: the machine, and both sides. Each is a protocol; tests hand in fakes.

A machine that runs a part of a control plane is checked before it leaves that. A controller of Slurm goes when another one
has taken over. A member of Kubernetes' control plane keeps its state by a majority of votes (etcd): it goes where the others
that are well are still a majority of those that then are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tidepool.cluster.roles import Role
from tidepool.conversion.record import Work


class ConversionError(Exception):
    """A side could not do what was asked; the text is for a person. The conversion goes on when it can."""


class Refused(ConversionError):
    """It will not be, however often it is tried (a Node of that name is another cluster's): who converts goes back at once."""


class NotOrdered(ConversionError):
    """An order that cannot be: another conversion of the machine is under way, or there is nothing to cancel."""


class TakenOver(ConversionError):
    """Another process drives the conversion by now: this one writes and does no more."""


#: How the reason of a hold of ours begins, by which it is told from a person's.
OUR_HOLD: Final = "tidepool: moves to"


class Machine(Protocol):
    """A machine of a pool, as who converts it reaches it. Every call may be made again after one that was cut off."""

    def roles(self) -> frozenset[Role]:
        """Return the roles whose services run, or whose credentials are there. More than one is a fault, which is told."""
        ...

    def take(self, role: Role) -> frozenset[Role]:
        """Put the role's credentials there, and start its services; returns the roles that it has, when they were started."""
        ...

    def lose(self, role: Role) -> frozenset[Role]:
        """Stop its services and all that they started, shred its credentials, unmount and remove what it left.

        Returns the roles that it has then.
        """
        ...

    def can_image(self) -> bool:
        """Return whether it can be made anew."""
        ...

    def imaged(self) -> frozenset[Role]:
        """Return the roles whose image it has: both, where they have the same one. The machine need not run."""
        ...

    def image(self, role: Role) -> None:
        """Stop it, make its root anew from the role's image, and start it; returns before it has booted.

        What was on it is gone. Name, address and hardware address stay.
        """
        ...

    def left_behind(self, role: Role) -> tuple[str, ...]:
        """Return the remains of a role that was lost, for checks: paths, mounts, processes, control groups."""
        ...


#: How a side sees the machine. ``absent``: it does not know it (no Node object; a slot that is FUTURE, or none).
#: ``joining``: it knows it, and it is not up, held back or not. ``held``: it is up, and takes no new work. ``serving``.
Sight = Literal["absent", "joining", "held", "serving"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the machine has to stay, empty where it may go; and whether it may as soon as another has taken over."""

    keeps: str = ""
    hands_over: bool = False


class Side(Protocol):
    """Slurm, or Kubernetes, as it sees one machine. Every call may be made again after one that was cut off.

    All raise `ConversionError` where the side cannot be asked: then nothing is known, and nothing moves.
    """

    role: Role

    def see(self) -> Sight:
        """Return how it sees the machine now."""
        ...

    def held_by(self) -> str:
        """Say who else holds it back, and why, for a person: ``root: bad disk``. Empty where nobody does, or only we do."""
        ...

    def hold(self, reason: str) -> None:
        """Let nothing new come: drain, cordon. A hold of somebody else's stays as it is; one that is absent needs none."""
        ...

    def release(self) -> None:
        """Take the hold back: only ours, never one that a person set."""
        ...

    def work(self) -> tuple[Work, ...]:
        """Return the work that runs there, and what each waits for. Empty: nothing does, and that is known.

        The fate of what cannot be kept any more, though it has not ended, is known already.
        """
        ...

    def ask_to_leave(self, work: Collection[Work]) -> None:
        """Ask what can be asked of ``work`` to end: evict pods under their budgets. Jobs are waited for.

        What came since that was seen is not touched: nothing goes that is not written down.
        """
        ...

    def force_out(self, work: Collection[Work], reason: str) -> tuple[Work, ...]:
        """Requeue jobs (cancel those that cannot be), kill pods; gives what it did to each. Called until nothing is there.

        ``work`` is what was seen to run there, and is written down; what came since is not touched.

        Each owner is told *before*: who is cut off between the two has told, and does it again.
        """
        ...

    def prepare(self) -> None:
        """Before the machine takes the role, each time: what lets it in (a bootstrap token, a slot).

        What is left of the machine from before, as a Node object that could not be deleted, is taken away.
        """
        ...

    def admit(self) -> None:
        """While it joins, again and again: approve its certificate, undrain what we drained; as far as it is now."""
        ...

    def remove_node(self) -> None:
        """After its services were stopped: the slot is FUTURE, or the Node object, its lease and its requests are gone."""
        ...

    def verdict(self) -> Verdict:
        """Judge if the machine may leave, for all that it runs of the side's control plane. Asked after `see`, which answered."""
        ...

    def hand_over(self) -> None:
        """Have another part of the control plane take over from the machine, if none has; returns before it is done.

        Raises:
            Refused: it was done, and the machine has taken it back.
        """
        ...

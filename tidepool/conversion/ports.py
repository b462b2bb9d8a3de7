"""Ports of a conversion: the machine, both sides, and the journal. Each is a protocol; tests hand in fakes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, Literal, Protocol

from tidepool.cluster.roles import Role
from tidepool.conversion.control_nodes import Standing
from tidepool.conversion.record import Conversion, Order, Work


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

    def take(self, role: Role) -> None:
        """Put the role's credentials there, and start its services; returns when they were started."""
        ...

    def lose(self, role: Role) -> None:
        """Stop its services and all that they started, shred its credentials, unmount and remove what it left."""
        ...

    def left_behind(self, role: Role) -> tuple[str, ...]:
        """Return the remains of a role that was lost, for checks: paths, mounts, processes, control groups."""
        ...


#: How a side sees the machine. ``absent``: it does not know it (no Node object; a slot that is FUTURE, or none).
#: ``joining``: it knows it, and it is not up, held back or not. ``held``: it is up, and takes no new work. ``serving``.
Sight = Literal["absent", "joining", "held", "serving"]


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


class Control(Protocol):
    """The control planes that the machine is a part of: Slurm's controllers, the members of Kubernetes'."""

    def standing(self, role: Role) -> tuple[Standing, ...]:
        """Return the other members of the control plane of ``role``'s side, and who is at work; none where it is no member.

        It is asked after the side itself, which has answered.

        Raises:
            ConversionError: it cannot be asked, or cannot be told; then nothing moves.
        """
        ...

    def hand_over(self, role: Role) -> None:
        """Have another part take over from the machine, if none has; returns before it is done.

        Raises:
            Refused: it was done, and the machine has taken it back.
        """
        ...


class Journal(Protocol):
    """Conversions of one stack, durable, for several processes at once. All may raise `ConversionError`."""

    def order(self, order: Order, leaves: Role | None) -> Conversion:
        """Write a new one down, in phase ``asked``; the one under way where it has the same target, forced if the order is.

        Args:
            order: what is asked for.
            leaves: the role that the machine has; of both, the one that is not ordered.

        Raises:
            NotOrdered: another of the machine is under way; says which, and how to cancel it.
        """
        ...

    def cancel(self, node: str, by: str) -> Conversion:
        """Ask the one under way to go back. One that nobody has begun to carry out has stopped by that.

        Raises:
            NotOrdered: there is none, or it is past the point of no return.
        """
        ...

    def force(self, node: str, by: str) -> Conversion:
        """Make the one under way a forced one.

        Raises:
            NotOrdered: there is none, or it goes back already.
        """
        ...

    def under_way(self, node: str) -> Conversion | None:
        """That of a machine that has not ended."""
        ...

    def conversion(self, id: int) -> Conversion:
        """One, under way or ended, as it is now."""
        ...

    def write(self, conversion: Conversion) -> Conversion:
        """Keep it as it is now, but for ``cancel_by`` and the order's force, which others write; gives it with theirs.

        One that was cancelled meanwhile does not go past the point of no return: its phase stays what it was.

        Raises:
            TakenOver: its ``driver`` is no longer the one that drives it.
        """
        ...

    def take_over(self, id: int, driver: str, now: datetime, lasting_s: float) -> bool:
        """Be the one that drives it, until so long from now; whether one is: another that lives may be at it."""
        ...

    def let_go(self, id: int, driver: str) -> None:
        """Drive it no more, if one did: another may at once."""
        ...

    def conversions(
        self, *, node: str = "", since: datetime | None = None, limit: int | None = 1000
    ) -> Sequence[Conversion]:
        """The newest first: ``limit`` of them, and those that are under way, however old; with None, all."""
        ...

    def prune(self, before: datetime) -> None:
        """Forget those that ended before."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...

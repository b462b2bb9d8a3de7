"""Machines that are suspended to disk: their memory is kept, they take no processor, and go on from there."""

from __future__ import annotations

from typing import Literal, Protocol

MachineState = Literal["running", "suspended", "stopped", "gone"]


class Suspension(Protocol):
    """A machine that can be suspended. What is asked and done is its infrastructure's; the machine need not answer.

    Name, disk, address and id stay what they are. All raise `InfrastructureError`; both verbs may be called again after one that
    was cut off.
    """

    def state(self) -> MachineState:
        """Return how it is: ``stopped`` is one that has no memory to go on with, and would boot."""
        ...

    def suspend(self) -> None:
        """Write its memory to disk and stop it; returns when it is there. Where that fails it goes on as it ran.

        Raises:
            InsufficientCapacity: there is no room for its memory.
            Permanent: it is stopped, or gone, so that there is no memory of it.
        """
        ...

    def resume(self) -> None:
        """Have it go on from its memory, which is deleted by that; one that is stopped boots, and one that runs goes on.

        Its clock stands where it stood: who resumes it sets it.
        """
        ...

"""Contract of a client of Slurm, whichever way it talks to it; and its errors, as types: what happened, where, and the remedy.

`Slurm` does it by Slurm's commands, over this machine, namespaces or SSH; `SimulatedSlurm` does it in memory. One suite of tests
holds them to the same promises:

- A call comes back within its time-out, with an answer or with a `SlurmError`.
- A list is the whole list. What cannot be known is an error: never an empty list, never a shorter one, for whoever removes
  machines reads these answers.
- What is returned is frozen.
- A change that was made is seen by the next look, unless Slurm itself takes its time (a job's nodes).
- `TimedOut` after a change means that it may have been made: look again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from tidepool.clients.slurm.job import Job, JobState
from tidepool.clients.slurm.limits import Limited
from tidepool.clients.slurm.request import JobRequest, Slots
from tidepool.clients.slurm.scontrol import Node, Partition, Reservation
from tidepool.clients.transport import ClientError

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


@dataclass(frozen=True, slots=True)
class Controller:
    """A slurmctld as ``scontrol ping`` sees it. ``role`` is primary, backup, backup1, ..."""

    role: str
    host: str
    is_up: bool


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that Slurm took, and what it said besides (a warning, the words of a submit plugin)."""

    job_id: int
    messages: str = ""


class SlurmClient(Protocol):
    """Looks and changes. ``nodes`` are hostlists; an empty one, and ``ALL``, are a ValueError."""

    def ping(self) -> tuple[Controller, ...]:
        """The controllers, and which of them answer. That none does is no error here."""

    def version(self) -> str:
        """The version of slurmctld: ``22.05.8``."""

    def nodes(self, names: str = "") -> tuple[Node, ...]:
        """The nodes of the hostlist ``names``, or all; slots too, which are nodes in state FUTURE.

        Raises:
            NotFound: Slurm does not know one of ``names``.
        """

    def jobs(self, states: Collection[JobState] = ()) -> tuple[Job, ...]:
        """The jobs in one of ``states``, or all that have not ended. An array's waiting tasks are one record."""

    def job(self, job_id: int) -> tuple[Job, ...]:
        """The records of one job, ended or not: several for an array some of whose tasks have begun.

        Raises:
            NotFound: Slurm does not know it, or has forgotten it (MinJobAge).
        """

    def partitions(self) -> tuple[Partition, ...]:
        """All partitions, hidden ones too."""

    def reservations(self) -> tuple[Reservation, ...]:
        """All reservations, those that have not begun too."""

    def limits(self) -> tuple[Limited, ...]:
        """The limits in force of all associations and qualities of service, and what is used of them; none without slurmdbd."""

    def peak_memory_mib(self, job_id: int) -> int | None:
        """The most memory that one of a job's steps was seen with on a node, looked at now and then; None where it is not known.

        Raises:
            Refused: there is no slurmdbd, which keeps it.
        """

    def close(self) -> None:
        """Let go of connections. Closing twice is no mistake."""

    def create_slots(self, slots: Slots) -> None:
        """Declare nodes that are not there yet. Names that are there already stay as they are, whatever their shape.

        Raises:
            Refused: the cluster has no room for all of them (MaxNodeCount); some may have been made.
        """

    def to_future(self, nodes: str) -> None:
        """Give nodes without jobs back as slots.

        Raises:
            Refused: one of them has jobs.
        """

    def power_down(self, nodes: str) -> None:
        """Have Slurm's power saving take nodes away: at once those without jobs, the others when these have ended.

        SuspendProgram is called, and after SuspendTimeout they are powered down: in service when they are asked for,
        whatever was wrong with them. One that is powering up is waited for first, unless it is DOWN.
        """

    def delete_nodes(self, nodes: str) -> None:
        """Forget nodes that were created, slots too.

        Raises:
            Refused: one of them has jobs, is in a reservation, or stands in slurm.conf by name.
        """

    def set_features(self, nodes: str, features: Collection[str]) -> None:
        """Give nodes and slots these features and no others; jobs that run go on."""

    def drain(self, nodes: str, reason: str) -> None:
        """Let no new jobs start on ``nodes``; those that run go on."""

    def undrain(self, nodes: str) -> None:
        """Let jobs start again; a node that is DOWN stays so."""

    def resume(self, nodes: str) -> None:
        """Put nodes that are draining, drained or down back into service."""

    def down(self, nodes: str, reason: str) -> None:
        """Say that nodes are down: their jobs are requeued, or end with NODE_FAIL."""

    def reconfigure(self) -> None:
        """Have all daemons read their configuration again; jobs go on.

        Raises:
            Refused: there is a mistake in it; the daemons go on with what they had.
        """

    def takeover(self) -> None:
        """Have the first backup be in charge. The primary ends; one that is started again takes control back at once.

        Raises:
            ControllerDown: it does not answer, or slurm.conf has none.
        """

    def submit(self, request: JobRequest) -> Submitted:
        """Submit a batch job."""

    def cancel(self, job_id: int, *, array_id: str = "") -> None:
        """Cancel a job, all tasks of an array. One that has ended is left as it is.

        One task of an array has the array's own number for a job id, and that names them all: its ``array_id``
        (`Job.array_id`) names it alone, here and below.

        Raises:
            NotFound: Slurm does not know it.
        """

    def release(self, job_id: int) -> None:
        """Let a job go that was submitted held, all tasks of an array. One that is not held is left as it is.

        Raises:
            NotFound: Slurm does not know it.
        """

    def requeue(self, job_id: int, *, array_id: str = "") -> None:
        """Stop a batch job that runs, and put it back into the queue. One that waits already goes on waiting.

        Raises:
            NotFound: Slurm does not know it.
            Refused: it is not to be requeued, or is being requeued.
        """

    def tell(self, job_id: int, message: str, *, array_id: str = "") -> None:
        """Tell whose job it is something: on its standard error where it runs, and in its AdminComment, behind others'.

        Told twice, the comment has it once.

        Raises:
            NotFound: Slurm does not know the job.
        """

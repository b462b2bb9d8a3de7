"""Ports of a run: its cluster, the jobs on it, its files, and where results are kept. Protocols; tests hand in fakes.

Every call may be made again after one that was cut off, wherever that was. All raise `RunError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from tidepool.runs.record import Cost, Output, Run, RunJob


class RunError(Exception):
    """It could not be done, or asked; the text is for a person. The run goes on when it can."""


class Refused(RunError):
    """It will not be, however often it is tried (an input is not there): the run ends."""


class NotOrdered(RunError):
    """An order that cannot be: a run of that name is under way, or there is nothing to cancel."""


class TakenOver(RunError):
    """Another process drives the run by now: this one writes and does no more."""


#: ``absent``: nothing of it is left, no machine, network, token. ``partial``: something is. ``up``: Slurm answers.
ClusterSight = Literal["absent", "partial", "up"]


@dataclass(frozen=True, slots=True)
class ClusterUse:
    """Use of the cluster so far: by image its digest, the names of its nodes, what it cost."""

    images: Mapping[str, str]
    nodes: tuple[str, ...]
    cost: Cost


class Cluster(Protocol):
    """The cluster of one run, in a stack of its own."""

    def see(self) -> ClusterSight:
        """Return what is there now."""
        ...

    def up(self) -> None:
        """Bring it up, or go on with that; returns when Slurm answers.

        Raises:
            Refused: no cluster will come of it.
        """
        ...

    def down(self, *, with_home: bool) -> None:
        """Take it down, whatever runs there, or go on with that; /home only ``with_home``: results may be there alone."""
        ...

    def use(self) -> ClusterUse:
        """Return what it has been so far. One that is down is not known any more."""
        ...

    def remove_file(self) -> None:
        """Remove the file that describes it: nothing of it is there any more."""
        ...


class Jobs(Protocol):
    """The run's jobs in its cluster's Slurm, known there by the run's id and their names."""

    def see(self) -> tuple[RunJob, ...]:
        """Return all that Slurm knows of this run: also one that was taken, and whose number nobody wrote down."""
        ...

    def submit(self, name: str, ids: Mapping[str, int]) -> int:
        """Submit a job, held, behind those of ``ids`` that come before it; returns its id."""
        ...

    def release(self, ids: Collection[int]) -> None:
        """Let jobs begin."""
        ...

    def stop(self, ids: Collection[int]) -> None:
        """Have jobs end: those that run hear SIGTERM, and SIGKILL after the run's grace; those that wait are cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """The outputs that are there, with their checksums, and the globs that match nothing."""

    outputs: tuple[Output, ...]
    unmatched: tuple[str, ...] = ()


class Files(Protocol):
    """The run's folder on the cluster, and what goes in and out."""

    def stage(self) -> None:
        """Make the folder, with all inputs in it; what is there whole is not fetched again.

        Raises:
            Refused: an input is not there, or may not be read.
        """
        ...

    def list(self) -> Listed:
        """Return the outputs as they are now."""
        ...

    def upload(self, outputs: Sequence[Output], kept: Callable[[Output], None]) -> None:
        """Have the results hold ``outputs``, several at once; ``kept`` hears of each when all of it is there.

        What is there already, and is the same, is not written again; a part that is there is gone on with. One that cannot be
        kept keeps no other back.

        Raises:
            Refused: results will never hold one of them: another file has its name there. All others are there.
        """
        ...

    def verify(self, outputs: Sequence[Output]) -> tuple[Output, ...]:
        """Return those that the results do not hold as they are, by size and checksum."""
        ...

    def abandon(self) -> None:
        """Take away parts of outputs that will not be gone on with."""
        ...


class Records(Protocol):
    """The journal's copy where the results are: by it another machine goes on with a run, and people read what came of it."""

    def claim(self, run: Run, now: datetime) -> int:
        """Have the run's ``driver`` drive it, of all machines alone, until ``driver_until``; returns the epoch that began so.

        Of several at once, one does. One that has it already has it still.

        Raises:
            TakenOver: another has it, and may be alive.
        """
        ...

    def renew(self, run: Run, until: datetime) -> None:
        """Say that the run's ``driver`` lives, and may be taken to until then; called from a thread of its own.

        Raises:
            TakenOver: somebody has claimed a later epoch.
        """
        ...

    def publish(self, run: Run) -> None:
        """Write the copy.

        Raises:
            TakenOver: somebody has claimed a later epoch.
        """
        ...


@dataclass(frozen=True, slots=True)
class Parties:
    """The parties of a run."""

    cluster: Cluster
    jobs: Jobs
    files: Files
    records: Records

"""`Plan`: what is measured of one scheduler; and the schedulers that there are to choose from. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, Self

from tidepool.lab.errors import LabError

Family = Literal["slurm", "kubernetes"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A scheduler with its settings.

    Attributes:
        parameters: Slurm's SchedulerParameters.
        has_limits: programs of Kubernetes ask its API as seldom as they do where nobody says anything.
        volcano: pods are Volcano's, and its programs run instead of kube-scheduler.
    """

    name: str
    family: Family
    parameters: str = ""
    has_limits: bool = False
    volcano: bool = False


CHOICES: Final = {
    each.name: each
    for each in (
        # Jobs are looked at when they come, as pods are, and all of them: by default batch jobs are gathered for up to 3 s, and of
        # a longer queue only the first 100 are looked at, so that who comes last waits for a round of all, each minute.
        Choice("slurm", "slurm", parameters="batch_sched_delay=0,default_queue_depth=10000"),
        Choice("slurm-defaults", "slurm"),
        Choice("kubernetes", "kubernetes"),
        Choice("kubernetes-defaults", "kubernetes", has_limits=True),
        Choice("volcano", "kubernetes", volcano=True),
    )
}


@dataclass(frozen=True, slots=True)
class Plan:
    """One scheduler with so many nodes, and in each round so many single jobs and a burst, for each length of the queue."""

    scheduler: str
    nodes: int
    pending: Sequence[int]
    rounds: int
    burst: int
    singles: int
    ready_s: float

    @property
    def choice(self) -> Choice:
        return choice(self.scheduler)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def choice(name: str) -> Choice:
    """Return the scheduler of that name.

    Raises:
        LabError: there is none.
    """
    if name not in CHOICES:
        raise LabError(f"there is no scheduler {name!r} with simulated nodes; choose of {', '.join(CHOICES)}")
    return CHOICES[name]

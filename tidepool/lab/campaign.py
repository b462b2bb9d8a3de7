"""`Campaign`: what a laboratory measures, as trials in their order; pure, so that a campaign that was killed goes on by it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True, slots=True, order=True)
class Trial:
    """One workload under one scheduler, once.

    Attributes:
        scheduler: its name in the laboratory's file.
        workload: likewise.
        repeat: counted from 1; 0 is the warm-up, which is in no figure.
    """

    scheduler: str
    workload: str
    repeat: int

    @property
    def id(self) -> str:
        """The name of its folder."""
        return f"{self.scheduler}.{self.workload}.{self.repeat}"

    @property
    def is_warm_up(self) -> bool:
        return self.repeat == 0


@dataclass(frozen=True, slots=True)
class Campaign:
    """All that is measured, and by what chance it is ordered.

    Attributes:
        name: that of its folder of results.
        schedulers: names, no two alike.
        workloads: names, no two alike.
        repeats: of each pair.
        seed: that of the order, and of the workloads.
        roles: that of the machines under each scheduler, in the order of those; empty where all have one.
    """

    name: str
    schedulers: tuple[str, ...]
    workloads: tuple[str, ...]
    repeats: int
    seed: int
    roles: tuple[str, ...] = ()

    def trials(self) -> Iterator[Trial]:
        """Yield the trials in order: a warm-up for each scheduler, then blocks of one repeat of all.

        Moving machines to another role takes seconds, so all schedulers of a role are next to each other in a block, and all
        workloads of a scheduler, and a block begins with the role that the one before ended with. Two roles so come first in
        turns; of more the others, and in all cases schedulers and workloads, are in an order that is another in each block.
        What drifts over hours meets all alike.
        """
        by_role = self._by_role()
        for scheduler in chain.from_iterable(by_role):
            yield Trial(scheduler, self.workloads[0], 0)
        for number in range(1, self.repeats + 1):
            chance = self._chance(number)
            last, others = by_role[-1], by_role[:-1]
            by_role = (last, *chance.sample(others, len(others)))
            for schedulers in by_role:
                for scheduler in chance.sample(schedulers, len(schedulers)):
                    for workload in chance.sample(self.workloads, len(self.workloads)):
                        yield Trial(scheduler, workload, number)

    def seed_of(self, workload: str, repeat: int) -> int:
        """Return the seed of a workload's jobs in a repeat: the same under all schedulers."""
        return int.from_bytes(hashlib.sha256(f"{self.seed}/{workload}/{repeat}".encode()).digest()[:6])

    def _by_role(self) -> tuple[tuple[str, ...], ...]:
        found: dict[str, tuple[str, ...]] = {}
        for scheduler, role in zip(self.schedulers, self.roles or [""] * len(self.schedulers), strict=True):
            found[role] = (*found.get(role, ()), scheduler)
        return tuple(found.values())

    def _chance(self, repeat: int) -> random.Random:
        return random.Random(f"{self.seed}/order/{repeat}")  # noqa: S311 - an order that can be repeated

"""Schedulers by name: each folder beside this file has a `KIND`, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidepool.lab.errors import LabError
from tidepool.lab.schedulers import flux, kubernetes, kueue, slurm, volcano
from tidepool.lab.schedulers.kind import SchedulerKind

_ALL: Final[tuple[SchedulerKind, ...]] = (slurm.KIND, kubernetes.KIND, volcano.KIND, kueue.KIND, flux.KIND)

#: By name.
SCHEDULERS: Final[Mapping[str, SchedulerKind]] = {each.name: each for each in _ALL}


def scheduler_kind(name: str) -> SchedulerKind:
    """Return the scheduler of that name.

    Raises:
        LabError: there is none; says which there are.
    """
    if name not in SCHEDULERS:
        raise LabError(f"there is no scheduler {name!r}; write one of {', '.join(sorted(SCHEDULERS))}")
    return SCHEDULERS[name]

"""Kueue on Kubernetes: jobs wait in a queue until all of their pods have room, and then the scheduler of Kubernetes places them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidepool.lab.errors import LabError
from tidepool.lab.schedulers.contract import Scheduler
from tidepool.lab.schedulers.kind import SchedulerKind
from tidepool.lab.schedulers.kubernetes.needs import no_kubernetes, not_built, refuse_options
from tidepool.lab.schedulers.kubernetes.scheduler import KubernetesScheduler
from tidepool.lab.schedulers.kueue.kueue import Kueue
from tidepool.lab.testbed import Testbed
from tidepool.toolchain import KUEUE


def _missing(testbed: Testbed) -> tuple[str, ...]:
    return (*not_built(KUEUE), *no_kubernetes(testbed))


def _open(testbed: Testbed, options: Mapping[str, object]) -> Scheduler:
    refuse_options("kueue", options, ())
    if lacks := _missing(testbed):
        raise LabError("; ".join(lacks))
    return KubernetesScheduler(testbed, Kueue())


KIND: Final = SchedulerKind(
    name="kueue", family="kubernetes", side="kubernetes", missing=_missing, open=_open
)

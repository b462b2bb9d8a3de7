"""Volcano on Kubernetes: its scheduler and its controllers, with its own kind of job, whose pods start together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidepool.lab.errors import LabError
from tidepool.lab.schedulers.contract import Scheduler
from tidepool.lab.schedulers.kind import SchedulerKind
from tidepool.lab.schedulers.kubernetes.needs import no_kubernetes, not_built, refuse_options
from tidepool.lab.schedulers.kubernetes.scheduler import KubernetesScheduler
from tidepool.lab.schedulers.volcano.volcano import DEFAULT_PERIOD_S, Volcano
from tidepool.lab.testbed import Testbed
from tidepool.toolchain import VOLCANO

_PERIOD: Final = "schedule_period_s"


def _missing(testbed: Testbed) -> tuple[str, ...]:
    return (*not_built(VOLCANO), *no_kubernetes(testbed))


def _open(testbed: Testbed, options: Mapping[str, object]) -> Scheduler:
    refuse_options("volcano", options, (_PERIOD,))
    if lacks := _missing(testbed):
        raise LabError("; ".join(lacks))
    period = options.get(_PERIOD, DEFAULT_PERIOD_S)
    if isinstance(period, bool) or not isinstance(period, int | float) or not 0.01 <= period <= 60:
        raise LabError(f"scheduler volcano: {_PERIOD} is {period!r}; write seconds from 0.01 to 60")
    return KubernetesScheduler(testbed, Volcano(float(period)))


KIND: Final = SchedulerKind(
    name="volcano", family="kubernetes", side="kubernetes", missing=_missing, open=_open
)

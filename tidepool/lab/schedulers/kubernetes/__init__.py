"""Kubernetes with its own scheduler; and what other schedulers on it have in common with that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidepool.lab.schedulers.contract import Scheduler
from tidepool.lab.schedulers.kind import SchedulerKind
from tidepool.lab.schedulers.kubernetes.default import Default
from tidepool.lab.schedulers.kubernetes.needs import no_kubernetes, refuse_options
from tidepool.lab.schedulers.kubernetes.scheduler import KubernetesScheduler
from tidepool.lab.testbed import Testbed


def _open(testbed: Testbed, options: Mapping[str, object]) -> Scheduler:
    refuse_options("kubernetes", options, ())
    return KubernetesScheduler(testbed, Default())


KIND: Final = SchedulerKind(
    name="kubernetes", family="kubernetes", side="kubernetes", missing=no_kubernetes, open=_open
)

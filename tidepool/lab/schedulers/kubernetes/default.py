"""The scheduler that Kubernetes has itself: a job is an Indexed Job. Its pods start one by one, as there is room for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tidepool.lab.schedulers.contract import JobState
from tidepool.lab.schedulers.kubernetes.api import Api
from tidepool.lab.schedulers.kubernetes.beside import Program
from tidepool.lab.schedulers.kubernetes.dialect import Kind, Object
from tidepool.lab.schedulers.kubernetes.objects import batch_job, object_name
from tidepool.lab.schedulers.kubernetes.states import batch_state
from tidepool.lab.testbed import Testbed
from tidepool.lab.workload import Job

BATCH_JOBS: Final = Kind("/apis/batch/v1", "jobs")


class Default:
    """A `Dialect` without anything of its own."""

    can: frozenset[str] = frozenset({"priority", "preemption"})
    kind: Final = BATCH_JOBS

    def programs(self) -> Sequence[Program]:
        return ()

    def define(self, api: Api) -> None:
        """Nothing is needed."""

    def prepare(self, api: Api, testbed: Testbed, namespace: str) -> None:
        """Nothing is needed."""

    def job(self, job: Job, template: Mapping[str, Any]) -> Object:
        return batch_job(job, template)

    def hosts(self, job: Job) -> Sequence[str]:
        return tuple(f"{object_name(job.name)}-{rank}" for rank in range(job.tasks))

    def state(self, thing: Object, pods: Iterable[Object]) -> JobState:
        return batch_state(thing, pods)

    def clear(self, api: Api, namespace: str) -> None:
        """Nothing was made."""

    def settings(self) -> Mapping[str, str]:
        return {}

"""`Volcano`: a job is a Job of batch.volcano.sh with a task for each of its processes, all of which are there, or none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tidepool.lab.schedulers.contract import JobState
from tidepool.lab.schedulers.kubernetes.api import Api
from tidepool.lab.schedulers.kubernetes.beside import FOLDER, KUBECONFIG, Program
from tidepool.lab.schedulers.kubernetes.definitions import definitions
from tidepool.lab.schedulers.kubernetes.dialect import Kind, Object
from tidepool.lab.schedulers.kubernetes.objects import (
    JOB,
    KILLED,
    LABEL,
    LOST,
    object_name,
    priority_class_name,
)
from tidepool.lab.schedulers.kubernetes.states import any_running, job_name, moments, pod_times
from tidepool.lab.testbed import Testbed
from tidepool.lab.workload import Job
from tidepool.toolchain import VOLCANO, find

#: Between two rounds of the scheduler, as Volcano has it where nothing is said.
DEFAULT_PERIOD_S: Final = 1.0
_SCHEDULER: Final = "vc-scheduler"
_CONTROLLERS: Final = "vc-controllers"
_NAME: Final = "volcano"
_QUEUE: Final = "default"
_SCHEDULER_PORT: Final = 11251
_CONTROLLERS_PORT: Final = 11252
_CONF: Final = "volcano-scheduler.conf"
#: As Volcano's own installer has it, and jobs may push out those of a lower priority. So two of its plugins are left out, overcommit
#: and capacity: they keep a job from having pods while all is taken, and it is for pods that others are pushed out.
_CONF_TEXT: Final = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: nodeorder
  - name: binpack
"""
#: All but those of flows of jobs, whose kinds are not defined here.
_CONTROLS: Final = "+gc-controller,+job-controller,+pg-controller,+queue-controller"
#: As the control plane's own controllers have it: by default they ask 50 times a second, and are what a burst waits for.
_RATES: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")
#: How often a job may be pushed out, or lose a machine, and begin anew.
_RETRIES: Final = 1000
_ENDS: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})


class Volcano:
    """A `Dialect`.

    Args:
        period_s: between two rounds of its scheduler.
    """

    can: frozenset[str] = frozenset({"gang", "priority", "preemption"})
    kind: Final = Kind("/apis/batch.volcano.sh/v1alpha1", "jobs")

    def __init__(self, period_s: float = DEFAULT_PERIOD_S) -> None:
        self._tools = find(os.environ, VOLCANO)
        self._period_s = period_s

    def programs(self) -> Sequence[Program]:
        common = (
            f"--kubeconfig={KUBECONFIG}",
            "--leader-elect=false",
            "--enable-healthz=true",
            "--logtostderr=true",
        )
        return (
            Program(
                self._tools.path(_CONTROLLERS),
                (
                    *common,
                    f"--healthz-address=127.0.0.1:{_CONTROLLERS_PORT}",
                    f"--controllers={_CONTROLS}",
                    *_RATES,
                ),
                _CONTROLLERS_PORT,
            ),
            Program(
                self._tools.path(_SCHEDULER),
                (
                    *common,
                    f"--healthz-address=127.0.0.1:{_SCHEDULER_PORT}",
                    f"--scheduler-conf={FOLDER / _CONF}",
                    f"--schedule-period={self._period_s:g}s",
                    "--cache-dumper=false",
                ),
                _SCHEDULER_PORT,
                {_CONF: _CONF_TEXT},
            ),
        )

    def define(self, api: Api) -> None:
        api.define(definitions(self._tools))

    def prepare(self, api: Api, testbed: Testbed, namespace: str) -> None:
        """Wait for the queue that all jobs are in, which Volcano makes itself when it begins."""
        path = f"/apis/scheduling.volcano.sh/v1beta1/queues/{_QUEUE}"

        def is_open() -> bool:
            found = api.find(path, "Queue")
            return found is not None and found.get("status", {}).get("state") == "Open"

        api.wait(is_open, f"Volcano's queue {_QUEUE} is open")

    def job(self, job: Job, template: Mapping[str, Any]) -> Object:
        priority = priority_class_name(job)
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {
                "name": object_name(job.name),
                "labels": {LABEL: ""},
                "annotations": {JOB: job.name},
            },
            "spec": {
                "schedulerName": _NAME,
                "queue": _QUEUE,
                "minAvailable": job.tasks,
                "maxRetry": _RETRIES,
                "policies": [
                    {"event": "PodEvicted", "action": "RestartJob"},
                    {"exitCode": KILLED, "action": "RestartJob"},
                    {"exitCode": LOST, "action": "RestartJob"},
                    {"event": "PodFailed", "action": "TerminateJob"},
                ],
                **({"priorityClassName": priority} if priority else {}),
                "tasks": [
                    {"name": f"t{rank}", "replicas": 1, "template": _of_rank(template, rank)}
                    for rank in range(job.tasks)
                ],
            },
        }

    def hosts(self, job: Job) -> Sequence[str]:
        return tuple(f"{object_name(job.name)}-t{rank}-0" for rank in range(job.tasks))

    def state(self, thing: Object, pods: Iterable[Object]) -> JobState:
        told = thing.get("status", {}).get("state", {})
        phase = str(told.get("phase") or "Pending")
        pods = tuple(pods)
        has_ended = phase in _ENDS
        times = moments({"status.state.lastTransitionTime": told.get("lastTransitionTime")})
        return JobState(
            name=job_name(thing),
            state=phase,
            running=not has_ended and any_running(pods),
            ended=has_ended,
            succeeded=phase == "Completed",
            told={**times, **pod_times(pods)},
        )

    def clear(self, api: Api, namespace: str) -> None:
        """Nothing stands in others' way: kinds without their programs do nothing."""

    def settings(self) -> Mapping[str, str]:
        return {
            "volcano": self._tools.version,
            "volcano.scheduler_sha256": self._tools.tool(_SCHEDULER).sha256,
            "volcano.controllers_sha256": self._tools.tool(_CONTROLLERS).sha256,
            "volcano.schedule_period_s": f"{self._period_s:g}",
            "volcano.conf": _CONF_TEXT,
        }


def _of_rank(template: Mapping[str, Any], rank: int) -> Mapping[str, Any]:
    """Return the template of one task, which is told its rank as a pod of an Indexed Job is."""
    spec = template["spec"]
    (container,) = spec["containers"]
    index = {"name": "JOB_COMPLETION_INDEX", "value": str(rank)}
    return {
        **template,
        "spec": {**spec, "containers": [{**container, "env": [*container["env"], index]}]},
    }

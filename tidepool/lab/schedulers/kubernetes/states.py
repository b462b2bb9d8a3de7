"""States of jobs, as objects of batch/v1 and their pods tell them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tidepool.lab.schedulers.contract import JobState
from tidepool.lab.schedulers.kubernetes.objects import JOB

Object = Mapping[str, Any]


def job_name(thing: Object) -> str:
    """Return the name in its workload of the job that an object is of; empty where it is of none."""
    return str(thing["metadata"].get("annotations", {}).get(JOB, ""))


def batch_state(job: Object, pods: Iterable[Object]) -> JobState:
    """Return the state of a Job of batch/v1: the condition that ended it, ``Suspended``, ``Running`` or ``Pending``."""
    status = job.get("status", {})
    conditions = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    ended = conditions & {"Complete", "Failed"}
    running = not ended and any_running(pods)
    if ended:
        (state,) = ended
    elif job["spec"].get("suspend"):
        state = "Suspended"
    else:
        state = "Running" if running else "Pending"
    times = {f"status.{name}": status.get(name) for name in ("startTime", "completionTime")}
    return JobState(
        job_name(job), state, running, bool(ended), "Complete" in ended, {**moments(times), **pod_times(pods)}
    )


def any_running(pods: Iterable[Object]) -> bool:
    """Return whether processes of a pod may be running: its node has it, and did not say that it ended."""
    return any(pod.get("status", {}).get("phase") == "Running" for pod in pods)


def pod_times(pods: Iterable[Object]) -> dict[str, float]:
    """Return the times that a job's pods tell: when the last was bound, the first container started, the last one ended."""
    statuses = [pod.get("status", {}) for pod in pods]
    scheduled = [
        each.get("lastTransitionTime")
        for status in statuses
        for each in status.get("conditions") or ()
        if each["type"] == "PodScheduled" and each["status"] == "True"
    ]
    states = [each.get("state", {}) for status in statuses for each in status.get("containerStatuses") or ()]
    begun = [state.get("running") or state.get("terminated") or {} for state in states]
    return moments(
        {
            "PodScheduled": max(filter(None, scheduled), default=None),
            "containerStatuses.startedAt": min(_times(begun, "startedAt"), default=None),
            "containerStatuses.finishedAt": max(_times(begun, "finishedAt"), default=None),
        }
    )


def _times(states: Iterable[Object], name: str) -> list[str]:
    return [str(state[name]) for state in states if state.get(name)]


def moments(times: Mapping[str, str | None]) -> dict[str, float]:
    """Return those of the times that are there, in seconds since the epoch; Kubernetes tells whole ones."""
    return {name: datetime.fromisoformat(time).timestamp() for name, time in times.items() if time}

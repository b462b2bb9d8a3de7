"""Objects that jobs are for Kubernetes, and what is read from them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidepool.lab.schedulers.kubernetes.api import request_counts
from tidepool.lab.schedulers.kubernetes.default import Default
from tidepool.lab.schedulers.kubernetes.mpi import mpi_command
from tidepool.lab.schedulers.kubernetes.objects import (
    JOB,
    object_name,
    pod_template,
    priority_class,
    priority_class_name,
)
from tidepool.lab.schedulers.kubernetes.states import batch_state
from tidepool.lab.workload import Job, RunKernel, Sleep

#: A label of DNS (RFC 1123), with room for what is put behind the name of a job for its pods.
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
NAMES = st.text(min_size=1, max_size=90)


@given(NAMES, NAMES)
def test_every_job_has_a_name_of_its_own_that_kubernetes_takes(one: str, other: str) -> None:
    names = object_name(one), object_name(other)
    for name in names:
        assert LABEL.fullmatch(name)
        assert len(name) <= 50
    assert (names[0] == names[1]) == (one == other)


@given(st.integers(-1_000_000, 1_000_000), st.booleans())
def test_jobs_of_the_same_priority_are_of_one_class(priority: int, preempts: bool) -> None:
    job = Job("a", 0.0, Sleep(1), priority=priority, preempts=preempts)
    name = priority_class_name(job)
    assert bool(name) == (bool(priority) or preempts)
    made = priority_class(job)
    assert made["value"] == priority
    assert (made["preemptionPolicy"] == "Never") == (not preempts)


def test_a_pod_has_as_much_as_it_asks_for_and_whole_processors() -> None:
    job = Job("a", 0.0, Sleep(1), cpus_per_task=2, memory_mib=100, limit_s=2.5)
    spec = pod_template(job, ("/home/probe",), pool="shared")["spec"]
    (container,) = spec["containers"]
    # What is asked for is the limit: the pod is of the class Guaranteed.
    assert container["resources"] == {
        name: {"cpu": "2", "memory": "100Mi"} for name in ("requests", "limits")
    }
    assert spec["activeDeadlineSeconds"] == 3
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/home"]


def test_a_job_of_mpi_has_the_machines_programs_and_knows_its_hosts() -> None:
    job = Job("Ring_1", 0.0, RunKernel("ping_pong"), tasks=3)
    hosts = Default().hosts(job)
    command = mpi_command(("/home/ping_pong", "x"), PurePosixPath("/home/launch/ring"), hosts)
    assert command[-2:] == ("/home/ping_pong", "x")
    assert command[5] == ",".join(hosts)
    spec = pod_template(job, command, pool="shared", has_system=True)["spec"]
    mounts = {
        each["mountPath"]: each.get("readOnly", False) for each in spec["containers"][0]["volumeMounts"]
    }
    assert mounts.pop("/home") is False
    assert all(mounts.values())
    assert "/usr" in mounts


def _object(conditions: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    said = [{"type": name, "status": status} for name, status in (conditions or {}).items()]
    return {
        "metadata": {"name": "a", "annotations": {JOB: "a"}},
        "spec": spec,
        "status": {"conditions": said, "startTime": "2026-01-01T00:00:00Z"},
    }


def test_the_state_of_a_job_is_the_condition_that_ended_it_or_that_of_its_pods() -> None:
    running = {"metadata": {"name": "a-0"}, "status": {"phase": "Running"}}
    cases = [
        (_object(), [], ("Pending", False, False, False)),
        (_object(suspend=True), [], ("Suspended", False, False, False)),
        (_object(), [running], ("Running", True, False, False)),
        # Being pushed out: its processes may still be there.
        (_object(suspend=True), [running], ("Suspended", True, False, False)),
        # On its way to an end that is not there yet.
        (_object({"FailureTarget": "True", "Failed": "False"}), [running], ("Running", True, False, False)),
        (_object({"FailureTarget": "True", "Failed": "True"}), [], ("Failed", False, True, False)),
        (_object({"SuccessCriteriaMet": "True", "Complete": "True"}), [], ("Complete", False, True, True)),
    ]
    for thing, pods, wanted in cases:
        state = batch_state(thing, pods)
        assert (state.state, state.running, state.ended, state.succeeded) == wanted
        assert state.told == {"status.startTime": 1767225600.0}


def test_requests_are_added_up_by_what_they_were() -> None:
    page = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 3
apiserver_request_total{code="403",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1
apiserver_request_total{code="200",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 1.2e+02
apiserver_request_total{code="200",resource="",scope="",subresource="/healthz",verb="GET",version=""} 2
apiserver_other_total{verb="LIST"} 9
"""
    assert request_counts(page) == {"LIST pods": 4, "POST pods/binding": 120, "GET /healthz": 2}

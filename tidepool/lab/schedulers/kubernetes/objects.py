"""Objects that a job is for Kubernetes: its pod, an Indexed Job of batch/v1, a class of priority, the trial's namespace. Pure.

A pod runs the same files as Slurm's jobs: those of /home, and for MPI the libraries and programs of its machine's own image. Its
container asks for whole processors, and has no more than it asks for: where the kubelet's CPU manager is static, they are its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from tidepool.lab.workload import Job

Object = Mapping[str, Any]

#: On all objects of the laboratory.
LABEL: Final = "tidepool/lab"
#: On namespaces: whose programs have to run for all in them to go.
DIALECT: Final = "tidepool/lab-dialect"
#: On a job's object and its pods: the job's name in its workload.
JOB: Final = "tidepool/lab-job"
#: The container image, which machines have; what runs is the machine's own.
_IMAGE: Final = "tidepool/busybox:1"
#: Folders of the machine, by where a pod has them, that programs of MPI and what starts them need. They are read only.
_SYSTEM: Final[Mapping[str, str]] = {
    "/usr": "/usr",
    "/bin": "/usr/bin",
    "/lib": "/usr/lib",
    "/lib64": "/usr/lib64",
    "/etc/alternatives": "/etc/alternatives",
    "/etc/openmpi": "/etc/openmpi",
}
_SHARED: Final = "/home"
#: What a pod that is to end is given, and how long one stays bound to a machine that says nothing.
_GRACE_S: Final = 1
_LOST_S: Final = 1
#: Exit code of a container that was killed, and how often that is made good; and of one that was lost with its machine, as containerd
#: says it when it begins anew.
KILLED: Final = 137
LOST: Final = 255
_TRIES: Final = 6
#: The label by which Tidepool marks the nodes of a pool.
_POOL: Final = "tidepool/pool"
_LONGEST: Final = 40


def object_name(name: str) -> str:
    """Return a name that Kubernetes takes: that of the job where it does, else one like it with a digest of it."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    if plain == name and len(plain) <= _LONGEST and not plain[0].isdigit():
        return plain
    return f"j-{plain[: _LONGEST - 12]}".rstrip("-") + f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def namespace(name: str, dialect: str) -> Object:
    """Return the namespace of a trial in a dialect, whose pods may have folders of their machines."""
    labels = {LABEL: "", DIALECT: dialect, "pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def priority_class_name(job: Job) -> str:
    """Return the name of the class that a job's pods are of; empty for jobs of no priority that push nobody out."""
    if not job.priority and not job.preempts:
        return ""
    sign = "m" if job.priority < 0 else "p"
    return f"lab-{sign}{abs(job.priority)}-{'preempts' if job.preempts else 'waits'}"


def priority_class(job: Job) -> Object:
    """Return the class of priority of a job."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": priority_class_name(job), "labels": {LABEL: ""}},
        "value": job.priority,
        "preemptionPolicy": "PreemptLowerPriority" if job.preempts else "Never",
    }


def pod_template(job: Job, command: Sequence[str], *, pool: str, has_system: bool = False) -> dict[str, Any]:
    """Return the template of the pods of a job, for machines of ``pool``: each runs ``command`` once.

    ``has_system`` pods have the machine's programs and libraries.
    """
    priority = priority_class_name(job)
    asked = {"cpu": str(job.cpus_per_task), "memory": f"{job.memory_mib}Mi"}
    folders = {**(_SYSTEM if has_system else {}), _SHARED: _SHARED}
    container = {
        "name": "task",
        "image": _IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "env": [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in (("NODE_NAME", "spec.nodeName"), ("POD_UID", "metadata.uid"))
        ],
        "resources": {"requests": asked, "limits": asked},
        "volumeMounts": [
            {"name": _volume(path), "mountPath": path, **({} if path == _SHARED else {"readOnly": True})}
            for path in folders
        ],
    }
    spec: dict[str, Any] = {
        "nodeSelector": {_POOL: pool},
        "restartPolicy": "Never",
        # Its process is not the first of its namespace, which SIGTERM would not end: one that is ended at its limit says 143, and only
        # one that was killed says 137.
        "shareProcessNamespace": True,
        # From the moment that its machine's kubelet has it: waiting does not count.
        "activeDeadlineSeconds": ceil(job.limit_s),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "dnsPolicy": "Default",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _LOST_S,
            }
            for state in ("not-ready", "unreachable")
        ],
        "containers": [container],
        "volumes": [
            {"name": _volume(path), "hostPath": {"path": source, "type": "Directory"}}
            for path, source in folders.items()
        ],
        **({"priorityClassName": priority} if priority else {}),
    }
    return {"metadata": {"labels": {LABEL: ""}, "annotations": {JOB: job.name}}, "spec": spec}


def batch_job(
    job: Job, template: Mapping[str, Any], labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the Indexed Job of batch/v1 for a job, with a pod for each of its tasks.

    One that fails is not tried again; one that the scheduler pushed out, or whose machine was lost, is. A machine that comes back before
    it was missed says of its containers that they were lost.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": object_name(job.name),
            "labels": {LABEL: "", **(labels or {})},
            "annotations": {JOB: job.name},
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": job.tasks,
            "parallelism": job.tasks,
            "backoffLimit": _TRIES,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [LOST]}},
                    {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [KILLED]}},
                ]
            },
            "template": template,
        },
    }


def _volume(path: str) -> str:
    return path.strip("/").replace("/", "-")

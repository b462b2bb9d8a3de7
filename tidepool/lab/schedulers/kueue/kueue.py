"""`Kueue`: a job is an Indexed Job that is suspended until Kueue admits it, with all of its pods, to a queue of the pool's size."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidepool.clients.kubernetes.requests import named
from tidepool.lab.schedulers.kubernetes.api import Api
from tidepool.lab.schedulers.kubernetes.beside import FOLDER, Program
from tidepool.lab.schedulers.kubernetes.default import Default
from tidepool.lab.schedulers.kubernetes.definitions import definitions, documents
from tidepool.lab.schedulers.kubernetes.dialect import Object
from tidepool.lab.schedulers.kubernetes.objects import LABEL, batch_job
from tidepool.lab.schedulers.kueue.certificate import loopback_certificate
from tidepool.lab.testbed import Testbed
from tidepool.lab.workload import Job
from tidepool.toolchain import KUEUE, find

_API: Final = "/apis/kueue.x-k8s.io/v1beta1"
_VERSION: Final = "kueue.x-k8s.io/v1beta1"
_QUEUE: Final = "lab"
_FLAVORS, _QUEUES = f"{_API}/resourceflavors", f"{_API}/clusterqueues"
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
_PLURALS: Final[Mapping[str, str]] = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
#: Objects whose webhooks this Kueue answers: its own, and those of the one kind of job that it is told of.
_ANSWERED: Final = frozenset({"batch", "kueue.x-k8s.io"})
_HEALTH_PORT, _METRICS_PORT, _WEBHOOK_PORT = 8081, 8080, 9443
_CONFIG: Final = "kueue.json"
#: While it begins, its webhooks do not answer yet, and what they would check is refused.
_BEGINS_S: Final = 30.0


class Kueue(Default):
    """A `Dialect`: that of Kubernetes' own scheduler, with a queue before it."""

    can: frozenset[str] = frozenset({"gang", "priority", "preemption"})

    def __init__(self) -> None:
        self._tools = find(os.environ, KUEUE)
        self._pair = loopback_certificate()

    def programs(self) -> Sequence[Program]:
        # It listens with its webhooks last.
        return (
            Program(
                self._tools.path("kueue"),
                (f"--config={FOLDER / _CONFIG}",),
                _WEBHOOK_PORT,
                {
                    _CONFIG: json.dumps(_configuration(), indent=1),
                    "tls.crt": self._pair.certificate,
                    "tls.key": self._pair.key,
                },
            ),
        )

    def define(self, api: Api) -> None:
        api.define(definitions(self._tools))

    def prepare(self, api: Api, testbed: Testbed, namespace: str) -> None:
        for configuration in self._webhooks():
            api.put(f"{_WEBHOOKS}/{_PLURALS[configuration['kind']]}", configuration)
        api.put(_FLAVORS, _object("ResourceFlavor", {}), wait_s=_BEGINS_S)
        api.put(_QUEUES, _object("ClusterQueue", _cluster_queue(testbed)), wait_s=_BEGINS_S)
        local = f"{_API}/namespaces/{namespace}/localqueues"
        api.put(local, _object("LocalQueue", {"clusterQueue": _QUEUE}), wait_s=_BEGINS_S)
        api.wait(lambda: _is_active(api.get(named(local, _QUEUE))), "Kueue's queue is active")

    def job(self, job: Job, template: Mapping[str, Any]) -> Object:
        made = batch_job(job, template, {"kueue.x-k8s.io/queue-name": _QUEUE})
        # Kueue pushes out by suspending: pods that go so end as those at their limit do, and say of no disruption.
        ignored = [rule for rule in made["spec"]["podFailurePolicy"]["rules"] if rule["action"] == "Ignore"]
        policy = {"backoffLimit": 0, "podFailurePolicy": {"rules": ignored}}
        return {**made, "spec": {**made["spec"], **policy, "suspend": True}}

    def clear(self, api: Api, namespace: str) -> None:
        """Take away the queue of the pool, and the webhooks: without Kueue they would refuse all jobs."""
        for collection, kind in ((_QUEUES, "ClusterQueue"), (_FLAVORS, "ResourceFlavor")):
            api.remove(named(collection, _QUEUE), kind)
        for plural in _PLURALS.values():
            api.delete(f"{_WEBHOOKS}/{plural}", labels=LABEL)

    def settings(self) -> Mapping[str, str]:
        return {
            "kueue": self._tools.version,
            "kueue.sha256": self._tools.tool("kueue").sha256,
            "kueue.configuration": json.dumps(_configuration()),
        }

    def _webhooks(self) -> Iterator[Mapping[str, Any]]:
        """Yield Kueue's own registrations of webhooks, as far as they are answered, by URL instead of by a service."""
        authority = base64.b64encode(self._pair.certificate.encode()).decode()
        for thing in documents(self._tools, "webhooks.yaml"):
            hooks = [
                {
                    **hook,
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{_WEBHOOK_PORT}{hook['clientConfig']['service']['path']}",
                        "caBundle": authority,
                    },
                }
                for hook in thing["webhooks"]
                if _ANSWERED.issuperset(group for rule in hook["rules"] for group in rule["apiGroups"])
            ]
            name = f"kueue-{thing['metadata']['name']}"
            yield {**thing, "metadata": {"name": name, "labels": {LABEL: ""}}, "webhooks": hooks}


def _configuration() -> Mapping[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{_HEALTH_PORT}"},
        "metrics": {"bindAddress": f"127.0.0.1:{_METRICS_PORT}"},
        "webhook": {"host": "127.0.0.1", "port": _WEBHOOK_PORT, "certDir": str(FOLDER)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        # As many at once as Kueue ships with.
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                "Workload.kueue.x-k8s.io": 5,
                "LocalQueue.kueue.x-k8s.io": 1,
                "ClusterQueue.kueue.x-k8s.io": 1,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        # As the control plane's own controllers have it.
        "clientConnection": {"qps": 500, "burst": 1000},
        "integrations": {"frameworks": ["batch/job"]},
        # A server of its own for questions that nobody asks here.
        "featureGates": {"VisibilityOnDemand": False},
    }


def _cluster_queue(testbed: Testbed) -> Mapping[str, Any]:
    """Return a queue with all that the pool's machines have."""
    machines = len(testbed.machines)
    there = {"cpu": str(machines * testbed.cpus_per_machine), "memory": f"{machines * testbed.memory_mib}Mi"}
    return {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {
                "coveredResources": list(there),
                "flavors": [
                    {
                        "name": _QUEUE,
                        "resources": [{"name": name, "nominalQuota": quota} for name, quota in there.items()],
                    }
                ],
            }
        ],
    }


def _object(kind: str, spec: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": _VERSION,
        "kind": kind,
        "metadata": {"name": _QUEUE, "labels": {LABEL: ""}},
        "spec": spec,
    }


def _is_active(queue: Object) -> bool:
    conditions = queue.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

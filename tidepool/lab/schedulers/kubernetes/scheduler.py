"""`KubernetesScheduler`: a scheduler on the stack's own Kubernetes, in the dialect that it is opened with.

What is in a trial is in a namespace of its own, which goes at its end with all that is in it.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlencode

from tidepool.cluster.names import CONTROL_PLANE_HOST
from tidepool.lab.errors import SchedulerFailed
from tidepool.lab.programs.command import command, uses_mpi
from tidepool.lab.schedulers.contract import JobState, Pause
from tidepool.lab.schedulers.kubernetes import mpi, objects
from tidepool.lab.schedulers.kubernetes.api import Api
from tidepool.lab.schedulers.kubernetes.beside import Beside
from tidepool.lab.schedulers.kubernetes.dialect import Dialect
from tidepool.lab.schedulers.kubernetes.states import job_name
from tidepool.lab.schedulers.kubernetes.watch import Change, Watch, batches
from tidepool.lab.testbed import Testbed
from tidepool.lab.workload import Job

_NAMESPACES: Final = "/api/v1/namespaces"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_QUIET_S: Final = 0.5
#: Programs of a control plane and of a node by the names of their processes, which the kernel cuts at 15 characters.
_CONTROL: Final = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler")
_NODE: Final = ("kubelet", "containerd", "containerd-shim")


class KubernetesScheduler:
    """A `tidepool.lab.schedulers.contract.Scheduler` on the stack's Kubernetes."""

    def __init__(self, testbed: Testbed, dialect: Dialect) -> None:
        """Raise LabError where there is no way to the API server. Nothing is made yet."""
        self._testbed = testbed
        self._dialect = dialect
        self._api = Api.of(testbed)
        self._programs = tuple(dialect.programs())
        self._beside = Beside(testbed, self._programs)
        self._namespace = ""
        self._records = PurePosixPath()
        self._classes: set[str] = set()
        self._before: Counter[str] = Counter()
        self._pool = testbed.pool

    @property
    def can(self) -> frozenset[str]:
        return self._dialect.can

    def begin(self, trial: str, records: Path) -> None:
        """Start its programs, and make the trial's namespace and queues; of earlier trials in this dialect nothing is left."""
        self._namespace = "lab-" + re.sub(r"[^a-z0-9]+", "-", trial.lower()).strip("-")[:50]
        self._records = PurePosixPath(records)
        self._api.close()
        self._api = Api.of(self._testbed)
        self._dialect.define(self._api)
        self._beside.begin()
        # What its programs have to let go of goes only while they run.
        for left in self._left():
            self._remove(left)
        self._remove(self._namespace)
        path = f"{_NAMESPACES}/{self._namespace}"
        self._api.wait(lambda: self._api.find(path, "Namespace") is None, f"{self._namespace} is gone")
        self._api.make(_NAMESPACES, objects.namespace(self._namespace, self._name))
        self._dialect.prepare(self._api, self._testbed, self._namespace)
        launch = self._testbed.here(self._launch)
        launch.mkdir(parents=True, exist_ok=True)
        agent = launch / mpi.AGENT_NAME
        agent.write_text(mpi.AGENT)
        agent.chmod(0o755)
        self._before = self._api.requests()

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            name = objects.priority_class_name(job)
            if name and name not in self._classes:
                self._api.put(_CLASSES, objects.priority_class(job))
                self._classes.add(name)
            self._api.make(self._collection, self._dialect.job(job, self._template(job)))

    def cancel(self, names: Sequence[str]) -> None:
        for name in names:
            self._api.delete(f"{self._collection}/{objects.object_name(name)}")

    def watch(self, pause: Pause = time.sleep) -> Iterator[Sequence[JobState]]:
        # It is told, and asks nobody.
        jobs: dict[str, Mapping[str, Any]] = {}
        pods: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
        told: dict[str, JobState] = {}
        for batch in batches(Watch(self._api, (self._collection, self._pods)), _QUIET_S):
            touched = dict.fromkeys(self._take(change, jobs, pods) for change in batch)
            states = []
            for name in touched:
                state = self._state(name, jobs, pods[name], told.get(name))
                if state is not None and state != told.get(name):
                    told[name] = state
                    states.append(state)
            yield states

    def parts(self) -> Mapping[str, Sequence[int]]:
        control = (*_CONTROL, *(program.name for program in self._programs))
        wanted = [(CONTROL_PLANE_HOST, control), *((machine, _NODE) for machine in self._testbed.machines)]
        found: dict[str, list[int]] = {part: [] for part in (*control, *_NODE)}
        for machine, parts in wanted:
            running = self._testbed.pids(machine)
            for part in parts:
                found[part] += [pid for pid, name in running.items() if name == part[:15]]
        return found

    def requests(self) -> Mapping[str, int]:
        """Return requests since the trial began; those of the laboratory itself are among them."""
        return dict(+(self._api.requests() - self._before))

    def settings(self) -> Mapping[str, str]:
        version = str(self._api.get("/version")["gitVersion"])
        nodes = self._api.get("/api/v1/nodes")["items"]
        kubelets = {f"{node['status']['nodeInfo']['kubeletVersion']}" for node in nodes}
        return {
            "kubernetes": version,
            "kubelets": ", ".join(sorted(kubelets)),
            "schedulers": ", ".join(program.name for program in self._programs) or "kube-scheduler",
            **self._dialect.settings(),
        }

    def end(self) -> None:
        if not self._namespace:
            # Of what another process began nothing decides any more; the rest goes when it begins, as its programs have to run for it.
            self._beside.end()
            return
        self._remove(self._namespace)
        self._beside.end()
        shutil.rmtree(self._testbed.here(self._launch), ignore_errors=True)
        self._api.close()

    @property
    def _collection(self) -> str:
        if not self._namespace:
            raise SchedulerFailed("no trial has begun")
        return self._dialect.kind.collection(self._namespace)

    @property
    def _pods(self) -> str:
        return f"{_NAMESPACES}/{self._namespace}/pods"

    @property
    def _launch(self) -> PurePosixPath:
        """The folder by which pods of MPI meet, as machines see it: beside the records, which hold nothing else."""
        return self._records.with_name(f"{self._records.name}.launch")

    def _template(self, job: Job) -> dict[str, Any]:
        task = command(job, self._testbed.programs, self._records)
        is_gang = uses_mpi(job)
        if is_gang:
            launch = self._launch / objects.object_name(job.name)
            task = mpi.mpi_command(task, launch, self._dialect.hosts(job))
        return objects.pod_template(job, task, pool=self._pool, has_system=is_gang)

    def _take(
        self,
        change: Change,
        jobs: dict[str, Mapping[str, Any]],
        pods: dict[str, dict[str, Mapping[str, Any]]],
    ) -> str:
        """Keep what has changed; returns the name of the job that it is of."""
        name = job_name(change.thing) or self._known(change, jobs, pods)
        if change.collection != self._pods:
            if change.is_gone:
                jobs.pop(name, None)
            else:
                jobs[name] = change.thing
        elif change.is_gone:
            pods[name].pop(change.thing["metadata"]["name"], None)
        else:
            pods[name][change.thing["metadata"]["name"]] = change.thing
        return name

    def _known(
        self,
        change: Change,
        jobs: Mapping[str, Mapping[str, Any]],
        pods: Mapping[str, Mapping[str, Mapping[str, Any]]],
    ) -> str:
        """Return the job of an object that is gone, of which only the name is known."""
        gone = change.thing["metadata"]["name"]
        if change.collection == self._pods:
            return next((name for name, of_job in pods.items() if gone in of_job), "")
        return next((name for name, thing in jobs.items() if thing["metadata"]["name"] == gone), "")

    def _state(
        self,
        name: str,
        jobs: Mapping[str, Mapping[str, Any]],
        pods: Mapping[str, Mapping[str, Any]],
        before: JobState | None,
    ) -> JobState | None:
        if name in jobs:
            return self._dialect.state(jobs[name], tuple(pods.values()))
        if before is None or before.ended:
            return before
        # Its object went before it ended: it was cancelled.
        return JobState(name, "Deleted", running=False, ended=True, succeeded=False, told=before.told)

    @property
    def _name(self) -> str:
        return type(self._dialect).__name__.lower()

    def _left(self) -> tuple[str, ...]:
        """Namespaces of trials in this dialect whose drivers were killed."""
        selector = urlencode({"labelSelector": f"{objects.DIALECT}={self._name}"})
        return tuple(each["metadata"]["name"] for each in self._api.get(f"{_NAMESPACES}?{selector}")["items"])

    def _remove(self, namespace: str) -> None:
        """Take away all that is in a trial's namespace, and classes of priority. The namespace goes by itself, 5 s later.

        So long Kubernetes waits with every namespace, whatever is in it: nobody waits for that here.
        """
        path = f"{_NAMESPACES}/{namespace}"
        if self._api.find(path, "Namespace") is not None:
            contents = (self._dialect.kind.collection(namespace), f"{path}/pods")
            self._api.delete(contents[0])
            self._api.delete(contents[1], grace_s=0)
            self._api.wait(
                lambda: not any(self._api.get(each)["items"] for each in contents), f"{namespace} is empty"
            )
            self._api.delete(path)
        self._dialect.clear(self._api, namespace)
        self._api.delete(_CLASSES, labels=objects.LABEL)
        self._classes.clear()

"""Jobs and pods that go on all the time on a pool, and whether any was lost without a word to its owner."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from demo.pods import Pods
from tests.whole.cluster import until
from tests.whole.pools import ANY, DEPLOYMENTS, PODS, POOL, PoolCluster, deployment
from tidepool.clients.kubernetes.contract import Unreachable
from tidepool.clients.slurm import JobState, SlurmError

_NAMESPACE: Final = "/api/v1/namespaces/default"
_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_DONE: Final = "/home/researcher/done"


@dataclass
class Load:
    """Jobs and pods that go on all the time, and what is known of each that there ever was."""

    pool: PoolCluster
    dice: random.Random
    jobs: set[int] = field(default_factory=set)
    #: By name the uid of each.
    pods: dict[str, str] = field(default_factory=dict)
    #: As they were seen last.
    seen: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    prefix: str = "p"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def begin(self) -> None:
        """What is there always: pods that are made again, under a budget."""
        self.pool.on("login-1", "mkdir", "-p", "-m", "1777", _DONE)
        with self.pool.pods() as pods:
            # The pods write into a folder of their machine that they have ended, which pods may not here unless an
            # administrator says so, as for any namespace.
            pods.requests.patch(_NAMESPACE, {"metadata": {"labels": {_ENFORCED: "privileged"}}}, ANY)
            pods.requests.post(DEPLOYMENTS, deployment("web", 2), ANY)
        self.pool.budget("web", {"app": "web"}, min_available=1)

    def more(self) -> None:
        """A job and a pod, more or less short; some jobs must not be begun twice."""
        run_s = self.dice.choice([0, 1, 2, 5])
        requeue = "--requeue" if self.dice.random() < 0.7 else "--no-requeue"
        script = f"sleep {run_s}; touch {_DONE}/$SLURM_JOB_ID"
        with self._if_it_answers():
            if len(self.jobs - self._ended_jobs()) < 4:
                self.jobs.add(self.pool.submit(script, work_dir="/tmp", memory_mib=64, more=(requeue,)))
        with self._if_it_answers(), self.pool.pods() as pods:
            self._look(pods)
            waiting = [
                name
                for name, item in self.seen.items()
                if not _has_ended(item) and name not in self._gone(pods)
            ]
            if len(waiting) < 3:
                name = f"{self.prefix}-{next(self._numbers)}"
                script = f"trap 'exit 3' TERM; sleep {run_s} & wait $!; touch {_DONE}/{name}"
                pods.make(name, script, pool=POOL, folder=_DONE)
                self._look(pods)

    def lost(self) -> list[str]:
        """Jobs and pods that did not come to their end, and of which nobody was told."""
        with self.pool.journal() as journal:
            conversions = journal.conversions(limit=100_000)
        # One that was taken away by somebody who was killed before he wrote that down has "ended", by the record: that his
        # owner was told is what counts, and asked of Slurm and of Kubernetes.
        recorded = {
            (work.kind, work.name) for each in conversions for work in each.work if work.fate != "runs"
        }
        found = []
        done = set(self.pool.on("login-1", "ls", _DONE).stdout.split())
        for job_id in sorted(self.jobs):
            job = self.pool.job(job_id)
            if job.state is JobState.COMPLETED:
                if str(job_id) not in done:
                    found.append(f"job {job_id} is COMPLETED, and did not come to its end")
            elif ("job", str(job_id)) not in recorded:
                found.append(f"job {job_id} is {job.state}, and no conversion tells of it")
            elif not self._says_why(job_id):
                found.append(f"job {job_id} is {job.state}, and its AdminComment does not say why")
        with self.pool.pods() as pods:
            self._look(pods)
            output_of = told_by_us(pods)
            for name, uid in sorted(self.pods.items()):
                phase = self.seen[name]["status"].get("phase")
                # One that ended goes with its Node: Kubernetes collects it.
                if phase == "Succeeded" or name in done:
                    continue
                if ("pod", f"default/{name}") not in recorded:
                    found.append(
                        f"pod {name} is {phase}, and no conversion tells of it: {_last_seen(self.seen[name])}"
                    )
                elif uid not in output_of:
                    found.append(f"pod {name} was taken away, and no Event of ours says so")
        return found

    def until_ended(self) -> None:
        """Until no job and no pod of its own waits or runs."""
        with self.pool.slurm() as slurm:
            until(lambda: not slurm.jobs() or None, "all jobs have ended", 120, 0.3)
        with self.pool.pods() as pods:

            def ended() -> bool | None:
                self._look(pods)
                there = self._there(pods)
                return all(_has_ended(item) for name, item in there.items() if name in self.pods) or None

            until(ended, "all pods have ended", 120, 0.3)

    def _says_why(self, job_id: int) -> bool:
        """Its owner was told, and it was not to be requeued: who was requeued is to come to his end nevertheless."""
        said = self.pool.on("login-1", "scontrol", "show", "job", str(job_id)).stdout
        return "Requeue=0" in said and f"tidepool: job {job_id} is taken from" in said

    def _ended_jobs(self) -> set[int]:
        with self.pool.slurm() as slurm:
            return self.jobs - {job.job_id for job in slurm.jobs()}

    def _look(self, pods: Any) -> None:
        for name, item in self._there(pods).items():
            if name.startswith(f"{self.prefix}-"):
                self.pods.setdefault(name, item["metadata"]["uid"])
                self.seen[name] = item

    def _there(self, pods: Any) -> dict[str, Mapping[str, Any]]:
        return {
            item["metadata"]["name"]: item
            for item in pods.requests.listed(PODS, ANY, "Pod", lambda item: item)
        }

    def _gone(self, pods: Any) -> set[str]:
        return set(self.pods) - set(self._there(pods))

    @contextmanager
    def _if_it_answers(self) -> Iterator[None]:
        """Daemons are killed all the time: what is not submitted now is so next time."""
        try:
            yield
        except (Unreachable, SlurmError):
            pass


def told_by_us(pods: Pods) -> dict[str, str]:
    """By the uid of each pod that was taken away what its owner was told of it."""
    events = pods.requests.get("/api/v1/namespaces/default/events", ANY)["items"]
    return {
        event["involvedObject"]["uid"]: event["message"]
        for event in events
        if event["reason"] == "MachineConverted" and event["source"]["component"] == "tidepool"
    }


def _last_seen(pod: Mapping[str, Any]) -> str:
    """Where it was and what Kubernetes says of it, for whoever is to find out why it was lost."""
    return json.dumps({"node": pod["spec"].get("nodeName"), **pod["status"]})


def _has_ended(item: Mapping[str, Any]) -> bool:
    return item["status"].get("phase") in ("Succeeded", "Failed")

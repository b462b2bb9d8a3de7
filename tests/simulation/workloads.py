"""Random workloads: days and nights, bursts, arrays, and all that jobs can ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random

from tests.simulation.machines import FaultyCluster
from tidepool.clients.slurm import JobRequest, JobState, Refused, SlurmError
from tidepool.cluster.fleet import Fleet
from tidepool.simulation.cluster import sleeping

_DAY_S = 86400.0
#: Jobs come in the day rather than in the night, by the hour.
_HOURS = (1, 1, 1, 1, 1, 1, 2, 4, 8, 10, 10, 9, 7, 9, 10, 10, 8, 6, 4, 3, 2, 2, 1, 1)


class Workload:
    """Jobs that people submit to ``cluster`` over some days, so many a day on average.

    ``submitted`` are the ids of those that Slurm took, ``refused`` counts the others.
    """

    def __init__(self, cluster: FaultyCluster, random: Random, days: float, jobs_a_day: float) -> None:
        self.submitted: list[int] = []
        self.refused = 0
        self._cluster = cluster
        self._random = random
        for second in sorted(self._moments(days, jobs_a_day)):
            cluster.clock.after(second, self._somebody_submits)

    def _moments(self, days: float, jobs_a_day: float) -> Iterator[float]:
        for day in range(int(days)):
            busy = 0.3 if day % 7 >= 5 else 1.0
            for _ in range(int(self._random.gauss(jobs_a_day * busy, jobs_a_day / 5))):
                hour = self._random.choices(range(24), _HOURS)[0]
                yield (day + hour / 24) * _DAY_S + self._random.uniform(0, 3600)
            if self._random.random() < 0.05:
                begin = (day + self._random.random()) * _DAY_S
                yield from (begin + self._random.uniform(0, 20) for _ in range(self._random.randint(5, 25)))

    def _somebody_submits(self) -> None:
        try:
            job_id = self._cluster.submit(self._request())
        except Refused:
            self.refused += 1
            return
        except SlurmError:
            # Whoever gets no answer tries again.
            self._cluster.clock.after(60, self._somebody_submits)
            return
        self.submitted.append(job_id)
        self._cluster.clock.after(self._random.uniform(3600, 30_000), lambda: self._somebody_looks(job_id))

    def _somebody_looks(self, job_id: int) -> None:
        """People let go of jobs that they held, and give up those that can never run."""
        queue = self._cluster.slurm.queue
        for job in queue.records(job_id):
            if job.job_id not in queue.waiting:
                continue
            if job.reason == "JobHeldUser":
                self._cluster.slurm.queue.release(job.job_id)
            elif job.reason in {"DependencyNeverSatisfied", "PartitionNodeLimit"}:
                queue.end(job.job_id, JobState.CANCELLED, self._cluster.clock.true)

    def give_up_the_hopeless(self) -> None:
        """At the end: what can never run is cancelled, what is held is let go of."""
        for job_id in self.submitted:
            self._somebody_looks(job_id)

    def _request(self) -> JobRequest:
        random = self._random
        fleet = random.choice(self._cluster.spec.fleets)
        run_s = min(random.lognormvariate(6, 1.6), 40_000)
        request = JobRequest(
            sleeping(run_s),
            tasks=random.choice([1, 1, 1, 2, fleet.shape.cpus]),
            memory_mib=random.choice([100, 500, fleet.shape.memory_mib // 2, 0]),
            time_limit_s=random.choice([0, int(run_s * 1.5) + 60, int(run_s * 3) + 60, 86400]),
            partition=random.choice(["", "", fleet.name]),
            account=random.choice(["", "physics", "chemistry"]),
        )
        return self._varied(request, fleet)

    def _varied(self, request: JobRequest, fleet: Fleet) -> JobRequest:
        random = self._random
        kinds = ("plain", "plain", "plain", "array", "wide", "gpu", "feature", "exclusive", "later", "after")
        match random.choice((*kinds, "held", "impossible", "dies", "overruns")):
            case "array":
                tasks = random.choice([2, 5, 20])
                short = sleeping(random.uniform(1, 300))
                return replace(request, array=f"0-{tasks - 1}{random.choice(['', '%3'])}", script=short)
            case "wide":
                nodes = random.randint(1, min(4, fleet.max_nodes))
                return replace(request, nodes=str(nodes), tasks=nodes, partition=fleet.name)
            case "gpu":
                gres = random.choice(["gpu:1", "gpu:a100:1", "gpu:2"])
                return replace(request, gres=gres, tasks=1, memory_mib=100, partition="")
            case "feature":
                return replace(request, features=random.choice([fleet.name, "avx2", f"avx2|{fleet.name}"]))
            case "exclusive":
                return replace(request, exclusive=True)
            case "later":
                begin = self._cluster.clock.true + timedelta(seconds=random.uniform(10, 7200))
                return replace(request, begin=begin.replace(microsecond=0))
            case "after" if self.submitted:
                kind = random.choice(["afterok", "afterany"])
                return replace(request, dependency=f"{kind}:{random.choice(self.submitted[-5:])}")
            case "held":
                return replace(request, hold=True)
            case "impossible":
                return replace(
                    request, nodes=str(fleet.max_nodes + 1), tasks=fleet.max_nodes + 1, partition=fleet.name
                )
            case "dies":
                return replace(request, requeue=False)
            case "overruns":
                return replace(request, script=sleeping(500), time_limit_s=300)
        return request

"""A cluster with converged pools, a daemon, and what must hold of its machines whatever happens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.simulation.machines import FaultyDaemon, Killed, faulty_scaler
from tests.simulation.mortal import Edge, Steps
from tests.simulation.pools import PoolCluster
from tidepool.clients.kubernetes.objects import Pod
from tidepool.clients.slurm import JobRequest, JobState
from tidepool.cluster.roles import Role
from tidepool.cluster.spec_reading import read_spec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.scaling.decision import Convert, Decision
from tidepool.scaling.memory import Memory
from tidepool.simulation.cluster import Speeds, sleeping


def pool(name: str = "shared", number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "subnet": f"10.95.{20 + number}.0/24",
        "machines": 4,
        "shape": {"cpus": 2, "memory": "4GiB"},
        "idle_s": 5,
        "minimum_stay_s": 30,
    } | changes


class PoolScene:
    """The laws are looked at after everything that happens; ``broken`` says which did not hold, and when."""

    def __init__(self, folder: Path, *pools: Mapping[str, Any], **more: Any) -> None:
        spec = {
            "name": "simulated",
            "network": "10.95.0.0/16",
            "fleets": [],
            "partitions": [{"name": "main", "default": True}],
            "kubernetes": {},
            "pools": list(pools) or [pool()],
        }
        self.cluster = PoolCluster(read_spec(spec | more), folder, speeds=Speeds(look=0.25))
        self.pools = self.cluster.pools
        self.said: list[tuple[str, Mapping[str, Any]]] = []
        self.jobs: list[int] = []
        self.pods: list[str] = []
        #: By job, how many machines it asks for.
        self.nodes_of: dict[int, int] = {}
        #: Machines that a person holds.
        self.held: set[str] = set()
        #: Whether as many machines serve each side as the spec says, at every moment.
        self.counts = True
        #: Pods that ran to their end: of a node that goes, their objects go as well.
        self.ended: set[str] = set()
        #: Jobs that did: Slurm forgets them after a while.
        self.completed: set[int] = set()
        self.decisions: list[Decision] = []
        #: By machine, when it was decided that it moves, and where to.
        self.moves: defaultdict[str, list[tuple[datetime, Role]]] = defaultdict(list)
        #: Called after each decision.
        self.on_decision: Callable[[], None] = lambda: None
        self.daemon = self.start()
        self.cluster.watch = self._check

    def start(self, holder: str = "one", **dependencies: Any) -> FaultyDaemon:
        """Run a daemon, with other edges where they are given."""

        def say(what: str, **about: Any) -> None:
            self.said.append((what, about))

        return self.cluster.run_scaler(
            lambda: faulty_scaler(
                self.cluster, decide=self._decide, remember=remember, holder=holder, say=say, **dependencies
            )
        )

    def die_at(self, fatal: int) -> Steps:
        """Have the daemon be killed at its effect of this number; the next one goes on."""

        def dies() -> None:
            raise Killed

        steps = Steps(fatal, dies)
        self.daemon.stopped = True
        cluster = self.cluster
        self.start(
            "one",
            journal=Edge(cluster.journal, steps),
            slurm=Edge(cluster.slurm, steps),
            beside=Edge(cluster.executor, steps),
        )
        return steps

    # What people do

    def submit(self, count: int = 1, seconds: float = 60, **more: Any) -> list[int]:
        """Jobs of a whole machine each."""
        asked: dict[str, Any] = {"tasks": 2, "memory_mib": 1000, **more}
        new = [self.cluster.submit(JobRequest(sleeping(seconds), **asked)) for _ in range(count)]
        self.jobs += new
        self.nodes_of |= dict.fromkeys(new, int(asked.get("nodes", 1)))
        return new

    def want(self, count: int = 1, seconds: float = 60, cpu_milli: int = 2000, **more: Any) -> list[str]:
        """Pods of a whole machine each."""
        new = [f"p{len(self.pods) + number}" for number in range(count)]
        for name in new:
            self.pools.kubernetes.add_pod(name, cpu_milli=cpu_milli, run_s=seconds, **more)
        self.pods += [f"default/{name}" for name in new]
        self.cluster.wake()
        return [f"default/{name}" for name in new]

    # Looking

    def pod(self, key: str) -> Pod:
        pods: tuple[Pod, ...] = self.pools.kubernetes.all_pods()
        return next(pod for pod in pods if pod.key == key)

    def have_run(self, pods: list[str]) -> bool:
        return self.ended.issuperset(pods)

    def run_now(self, pods: list[str]) -> bool:
        return all(self.pod(key).phase == "Running" for key in pods)

    def states(self, jobs: list[int]) -> set[JobState]:
        return {job.state for job_id in jobs for job in self.cluster.slurm.queue.records(job_id)}

    def done(self, jobs: list[int]) -> bool:
        return self.completed.issuperset(jobs)

    def roles(self, of: str = "shared") -> dict[str, Role | None]:
        return {
            name: next(iter(machine.running), None)
            for name, machine in self.pools.machines.items()
            if machine.pool.name == of
        }

    def count(self, role: Role, of: str = "shared") -> int:
        return sum(its == role for its in self.roles(of).values())

    def until(self, holds: Callable[[], bool], within_s: float = 600) -> float:
        """Let time go by until something holds; it must, within so many seconds. Gives how long it took."""
        __tracebackhide__ = True
        began = self.cluster.clock.true
        assert self.cluster.run(within_s, until=holds), self.told()
        return (self.cluster.clock.true - began).total_seconds()

    def pass_time(self, seconds: float) -> None:
        self.cluster.run(seconds)

    def told(self) -> str:
        """How it stands, for a test that fails."""
        lines = [f"{what}: {about}" for what, about in self.said if what not in ("decided", "looked")][-30:]
        lines += [f"job {job}: {self.states([job])}" for job in self.jobs if job not in self.completed]
        lines += [str(pod) for pod in self.pools.kubernetes.all_pods() if pod.key not in self.ended]
        known = {pod.key for pod in self.pools.kubernetes.all_pods()} | self.ended
        lines += [f"pod {key} is gone" for key in self.pods if key not in known]
        last = self.decisions[-1] if self.decisions else None
        if last is not None:
            lines += [f"{name}: {view}" for name, view in last.machines.items()]
            lines += [str(each) for each in (*last.waiting.values(), *last.waiting_pods.values())][:12]
        return "\n".join([*lines, f"{self.roles()} at {self.cluster.clock.true}"])

    # The laws

    def _decide(self, state: ClusterState, memory: Memory) -> Decision:
        decision = decide(state, memory)
        self.decisions.append(decision)
        for action in decision.actions:
            if isinstance(action, Convert):
                assert not state.pools.unseen, "what is unknown moves nothing"
                assert action.repairs or not self.held.intersection(action.nodes), "a person holds it"
                if not action.repairs:
                    self.moves.update({n: [*self.moves[n], (state.at, action.to)] for n in action.nodes})
        self.on_decision()
        return decision

    def _check(self) -> None:
        self.completed |= {job for job in self.jobs if self.states([job]) == {JobState.COMPLETED}}
        self.ended |= {pod.key for pod in self.pools.kubernetes.all_pods() if pod.phase == "Succeeded"}
        for name, machine in self.pools.machines.items():
            assert len(machine.running) <= 1, f"{name} is in two roles"
            giving = self.pools.gives_work(name)
            assert len(giving) <= 1, f"both sides give {name} work"
        for each in self.cluster.spec.pools if self.counts else ():
            for role in ("slurm", "kubernetes"):
                count = self.count(role, each.name)
                assert count >= each.least(role), f"{role}_min of {each.name}: {count}\n{self.told()}"
                assert count <= each.most(role), f"{role}_max of {each.name}: {count}"

    def judge_stays(self) -> None:
        """No machine was moved to and fro within a shorter time than its pool says."""
        for name, moves in self.moves.items():
            least = timedelta(seconds=self.pools.machines[name].pool.minimum_stay_s)
            for (before, to), (after, back) in pairwise(moves):
                assert to == back or after - before >= least, f"{name} flaps: {moves}"

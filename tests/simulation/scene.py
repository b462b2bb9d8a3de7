"""A small cluster to which one thing happens: what tests of faults are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.laws import Laws
from tests.simulation.machines import FaultyCluster, FaultyDaemon, faulty_scaler
from tests.simulation.story import left
from tidepool.clients.slurm import JobRequest, JobState, Node
from tidepool.cluster.spec_reading import read_spec
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import remember
from tidepool.scaling.decision import Phase
from tidepool.simulation.cluster import Speeds, sleeping

SPEC: Mapping[str, Any] = {
    "name": "simulated",
    "network": "10.95.0.0/16",
    "fleets": [
        {
            "name": "cpu",
            "subnet": "10.95.1.0/24",
            "max_nodes": 8,
            "shape": {"cpus": 2, "memory": "4GiB"},
            "idle_timeout_s": 60,
        },
        {
            "name": "gpu",
            "subnet": "10.95.2.0/24",
            "max_nodes": 2,
            "shape": {
                "cpus": 2,
                "memory": "4GiB",
                "gres": [{"name": "gpu", "count": 1, "files": "/dev/nvidia0"}],
            },
            "features": ["fast"],
            "idle_timeout_s": 60,
        },
    ],
    "partitions": [{"name": "main", "default": True}, {"name": "cpu", "fleets": ["cpu"]}],
    "scaling": {"boot_timeout_s": 30},
}


class Scene:
    """A cluster with a daemon, and the laws that watch it. ``more`` are keys of the spec."""

    def __init__(
        self,
        *,
        speeds: Speeds | None = None,
        licenses: dict[str, int] | None = None,
        lease_s: float = 7200.0,
        **more: Any,
    ) -> None:
        self.cluster = FaultyCluster(
            read_spec({**SPEC, **more}), speeds=speeds or Speeds(), licenses=licenses
        )
        self.laws = Laws(self.cluster, decide, thorough=1)
        self.said: list[tuple[str, Mapping[str, Any]]] = []
        self.lease_s = lease_s
        self.jobs: list[int] = []
        self.daemon = self.start()

    def start(self, holder: str = "one", **dependencies: Any) -> FaultyDaemon:
        """Run a daemon, with other edges where they are given."""

        def say(what: str, **about: Any) -> None:
            self.said.append((what, about))

        return self.cluster.run_scaler(
            lambda: faulty_scaler(
                self.cluster,
                decide=self.laws.decide,
                remember=remember,
                holder=holder,
                say=say,
                lease_s=self.lease_s,
                **dependencies,
            )
        )

    # What people do

    def submit(self, count: int = 1, seconds: float = 300, **more: Any) -> list[int]:
        """Submit jobs, each of a whole node of the fleet `cpu` if nothing else is said."""
        asked: dict[str, Any] = {"tasks": 2, "memory_mib": 1000, "partition": "cpu", **more}
        new = [self.cluster.submit(JobRequest(sleeping(seconds), **asked)) for _ in range(count)]
        self.jobs += new
        return new

    # Looking

    def states(self, jobs: list[int]) -> set[JobState]:
        return {job.state for job_id in jobs for job in self.cluster.slurm.queue.records(job_id)}

    def running(self, jobs: list[int]) -> bool:
        return self.states(jobs) == {JobState.RUNNING}

    def until(self, holds: Callable[[], bool], within_s: float = 600) -> None:
        """Let time go by until something holds; it must, within so many seconds."""
        __tracebackhide__ = True
        assert self.cluster.run(within_s, until=holds), self.told()

    def until_running(self, jobs: list[int], within_s: float = 600) -> None:
        __tracebackhide__ = True
        self.until(lambda: self.running(jobs), within_s)

    def pass_time(self, seconds: float) -> None:
        self.cluster.run(seconds)

    def node(self, name: str) -> Node:
        node = self.cluster.slurm.look(name)
        assert node is not None
        return node

    def desired(self) -> list[str]:
        kept = self.cluster.journal.kept()
        return [name for fleet in (kept.desired or {}).values() for name in fleet]

    def standing(self, job_id: int) -> tuple[str, str]:
        """How a job stands, and why, in the last decision."""
        look = self.cluster.journal.last_look()
        assert look is not None
        told = look.decision.waiting[job_id]
        return told.standing, told.reason

    def phase(self, name: str) -> Phase:
        look = self.cluster.journal.last_look()
        assert look is not None
        view = look.decision.nodes.get(name)
        return view.phase if view else Phase.ABSENT

    def made(self) -> int:
        """How many machines were made in all."""
        return sum(bill.made for bill in self.cluster.machines.bills.values())

    def told(self) -> str:
        """What there is, for a test that fails."""
        queue = self.cluster.slurm.queue
        jobs = [
            (j.job_id, j.state.value, j.reason, j.nodelist)
            for j in (*queue.waiting.values(), *queue.running.values())
        ]
        nodes = [(n.name, str(n.state)) for n in self.cluster.slurm.all_nodes() if not n.state.is_slot]
        look = self.cluster.journal.last_look()
        waiting = dict(look.decision.waiting) if look else {}
        turn = self.daemon.last
        return f"{self.cluster.clock.true}: jobs {jobs}; nodes {nodes}; {waiting}; {left(self.cluster)}; {turn and (turn.role, turn.text)}"

    # The end

    def ends_well(self, *, lost: tuple[int, ...] = (), within_s: float = 7200) -> None:
        """Every job completes, and then nothing is left: no machine, no node, no record, no intent."""
        __tracebackhide__ = True
        mine = [job for job in self.jobs if job not in lost]
        ended = self.laws.ended
        queue = self.cluster.slurm.queue
        self.until(lambda: not queue.waiting and not queue.running, within_s)
        for job_id in mine:
            assert ended.get(job_id) is JobState.COMPLETED, (job_id, ended.get(job_id))
        self.until(lambda: not left(self.cluster), within_s)

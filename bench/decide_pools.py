"""How long a decision about converged pools takes: machines, pods and jobs that are seen, to who moves where and why.

Slurm and Kubernetes are the ones in memory that the simulation has, and the daemon's own observer looks at them; machines are
as many as it says. Four pools alike in size; half of the machines serve Slurm and half Kubernetes, all busy where more wait,
some idle elsewhere. Pods are of a few kinds, or each of its own, which is the worst for packing. Each size has a process of its
own. Exit code 1 where the target is missed.

    python bench/decide_pools.py [--sizes 40,100,400,1000] [--rounds 50] [--write docs/benchmarks/decide_pools.md]
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.queues import AT  # noqa: E402
from bench.sizes import BySize, p99, peak_mib  # noqa: E402
from tests.simulation.kubernetes.fake import FakeKubernetes  # noqa: E402
from tests.simulation.pools import PoolCluster  # noqa: E402
from tidepool.clients.kubernetes.objects import POOL_LABEL  # noqa: E402
from tidepool.clients.slurm import JobRequest, JobState  # noqa: E402
from tidepool.cluster.spec import ClusterSpec  # noqa: E402
from tidepool.cluster.spec_reading import read_spec  # noqa: E402
from tidepool.conversion.record import Order  # noqa: E402
from tidepool.scaling.cluster_state import ClusterState  # noqa: E402
from tidepool.scaling.decide.decide import decide  # noqa: E402
from tidepool.scaling.decision import Convert  # noqa: E402
from tidepool.scaling.memory import Memory, PoolMemory  # noqa: E402
from tidepool.scaling.observe.observe import Observer  # noqa: E402
from tidepool.simulation.cluster import sleeping  # noqa: E402

POOLS: Final = 4
#: The variant in which each pod is of a kind of its own.
UNLIKE: Final = "unlike"
#: Of the issue: seconds, at so many machines.
MOST_S, AT_MACHINES = 1.0, 1000
#: For each machine, how many pods and how many jobs wait.
_WAITING: Final = 5
#: The pools whose Slurm side is full, and those whose Kubernetes side is.
_JOBS_WANT: Final = ("poola", "poolb")
_PODS_WANT: Final = ("poolc", "poold")
#: Longer than any measurement; between two looks of one.
_LONG_S: Final = 1e9
_LATER: Final = timedelta(seconds=6)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one size: seconds, and MiB. ``kinds`` says how pods differ; ``look`` is what is before a decision, ``both`` the two together."""

    kinds: str
    machines: int
    pods: int
    jobs: int
    rounds: int
    look_p50_s: float
    p50_s: float
    p99_s: float
    most_s: float
    both_p99_s: float
    peak_mib: float
    moves: int


class Pools:
    """Pools of so many machines in all, served by a Slurm and a Kubernetes in memory, and the daemon's own looks at them."""

    def __init__(self, machines: int, unlike: bool, folder: Path, seed: int = 1) -> None:
        chosen = random.Random(seed)
        each = machines // POOLS
        # As many serve Kubernetes as its minimum says when they begin; from then on it is a tenth.
        self._cluster = PoolCluster(_spec(each, each // 2), folder, start=AT)
        self._cluster.bring_up(_spec(each, each // 10))
        pools = self._cluster.pools
        self._kubernetes, self._slurm, self._journal = pools.kubernetes, self._cluster.slurm, pools.journal
        self._roles = self._cluster.stack.roles
        self._convert(chosen)
        with self._slurm.queue.at_once():
            self._run_jobs()
        self._slurm.advance()
        self._run_pods()
        # They have begun when others come to wait.
        self._cluster.clock.advance(AT + _LATER)
        self._kubernetes.settle()
        self._slurm.advance()
        wanted = machines * _WAITING
        with self._kubernetes.at_once():
            for number in range(wanted):
                _want_pod(self._kubernetes, number, chosen, unlike)
        with self._slurm.queue.at_once():
            for _ in range(wanted):
                self._slurm.submit(_job(chosen))
        self._slurm.advance()
        self._observer = Observer(
            self._cluster.stack.name,
            self._cluster.stack,
            self._cluster.machines,
            lambda _: self._slurm,
            monotonic_s=self._cluster.clock.monotonic_s,
            pools=self._cluster.pool_doors(),
            now=self._cluster.clock,
        )

    def look(self) -> ClusterState:
        """What a turn of the daemon sees: every source is asked, for what was seen before is too old."""
        self._cluster.clock.advance(self._cluster.clock() + _LATER)
        seen = self._observer.look(is_active=True)
        assert not seen.complaints, seen.complaints
        return replace(seen.seen, at=self._cluster.clock())

    def memory(self) -> Memory:
        """All that is idle has been so for a minute."""
        idle = {name: AT - timedelta(seconds=60) for name in self._roles}
        return Memory(pools=PoolMemory(idle_since=idle))

    def _convert(self, chosen: random.Random) -> None:
        """One machine in five has just come to what it serves."""
        for place, pool in enumerate(self._cluster.spec.pools):
            for slot in pool.slots():
                role = self._roles[slot.node_name].role
                if role is None or chosen.random() >= 0.2:
                    continue
                at = AT - timedelta(seconds=30 + 20 * place)
                order = Order(slot.node_name, pool.name, role, at, "scaler", "pods wait")
                begun = self._journal.order(order, "slurm" if role == "kubernetes" else "kubernetes")
                self._journal.write(replace(begun, phase="done", ended=at))

    def _run_jobs(self) -> None:
        """Slurm's machines are full in the pools that jobs wait for, and some of the others."""
        for pool in self._cluster.spec.pools:
            serve = sum(self._roles[slot.node_name].role == "slurm" for slot in pool.slots())
            for _ in range(serve if pool.name in _JOBS_WANT else serve * 7 // 10):
                self._slurm.submit(
                    JobRequest(
                        sleeping(_LONG_S),
                        features=pool.name,
                        nodes="1",
                        tasks=pool.shape.cpus,
                        exclusive=True,
                    )
                )

    def _run_pods(self) -> None:
        """Kubernetes' machines likewise: three pods fill one."""
        with self._kubernetes.at_once():
            for pool in self._cluster.spec.pools:
                serve = [s.node_name for s in pool.slots() if self._roles[s.node_name].role == "kubernetes"]
                for name in serve if pool.name in _PODS_WANT else serve[: len(serve) * 7 // 10]:
                    for number in range(3):
                        milli = pool.shape.cpus * 1000 // 3
                        self._kubernetes.add_pod(f"on-{name}-{number}", cpu_milli=milli, node=name)


def measure(machines: int, rounds: int, variant: str) -> Figures:
    """Look and decide, ``rounds`` times over."""
    gc.disable()  # as the daemon, which looks for cycles between its turns
    unlike = variant == UNLIKE
    with tempfile.TemporaryDirectory() as folder:
        pools = Pools(machines, unlike, Path(folder))
        memory = pools.memory()
        looks: list[float] = []
        decisions: list[float] = []
        moves = 0
        for number in range(rounds + 1):
            began = time.perf_counter()
            state = pools.look()
            looked = time.perf_counter()
            decision = decide(state, memory)
            decided = time.perf_counter()
            moves = sum(len(each.nodes) for each in decision.actions if isinstance(each, Convert))
            if number:  # What Python makes on the first round, it has from then on.
                looks.append(looked - began)
                decisions.append(decided - looked)
            del decision
            if not number % 10:
                gc.collect()
    assert state.pools.kubernetes is not None
    both = [look + decided for look, decided in zip(looks, decisions, strict=True)]
    return Figures(
        kinds="each of its own" if unlike else "a few kinds",
        machines=machines,
        pods=sum(not pod.node for pod in state.pools.kubernetes.pods),
        jobs=sum(job.state is JobState.PENDING for job in state.jobs),
        rounds=rounds,
        look_p50_s=statistics.median(looks),
        p50_s=statistics.median(decisions),
        p99_s=p99(decisions),
        most_s=max(decisions),
        both_p99_s=p99(both),
        peak_mib=peak_mib(),
        moves=moves,
    )


def missed(figures: Sequence[Figures]) -> Sequence[str]:
    """In words, each target that was not met."""
    return [
        f"{each.machines} machines, pods {each.kinds}: p99 {each.both_p99_s:.3f} s to look and decide, and at most {MOST_S:g} s was to be"
        for each in figures
        if each.machines == AT_MACHINES and each.both_p99_s > MOST_S
    ]


def table(figures: Sequence[Figures]) -> str:
    """The figures as a Markdown table, one row a size."""
    lines = [
        "| pods | machines | pods that wait | jobs that wait | look p50, s | decide p50, s | p99, s | most, s | look and decide p99, s | target | peak, MiB | machines that move |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for each in figures:
        target = f"p99 <= {MOST_S:g} s" if each.machines == AT_MACHINES else ""
        lines.append(
            f"| {each.kinds} | {each.machines} | {each.pods} | {each.jobs} | {each.look_p50_s:.3f} | {each.p50_s:.3f} "
            f"| {each.p99_s:.3f} | {each.most_s:.3f} | {each.both_p99_s:.3f} | {target} | {each.peak_mib:.0f} | {each.moves} |"
        )
    return "\n".join(lines)


def _spec(machines: int, kubernetes_min: int) -> ClusterSpec:
    shapes = ({"cpus": 32, "memory": 128_000}, {"cpus": 8, "memory": 32_000}, {"cpus": 64, "memory": 512_000})
    return read_spec(
        {
            "name": "bench",
            "network": "10.64.0.0/12",
            "fleets": [],
            "partitions": [{"name": "main", "default": True}],
            "kubernetes": {"pod_network": "10.128.0.0/12"},
            "pools": [
                {
                    "name": f"pool{'abcd'[place]}",
                    "subnet": f"10.65.{place}.0/24",
                    "machines": machines,
                    "shape": shapes[place % len(shapes)],
                    "idle_s": 10,
                    "minimum_stay_s": 60,
                    "slurm_min": machines // 10,
                    "kubernetes_min": kubernetes_min,
                    "prefers": ("slurm", "kubernetes")[place % 2],
                }
                for place in range(POOLS)
            ],
        }
    )


def _want_pod(kubernetes: FakeKubernetes, number: int, chosen: random.Random, unlike: bool) -> None:
    """One that no machine has room for."""
    cpu_milli = chosen.choice((250, 500, 1000, 2000, 4000, 8000))
    memory_mib = chosen.choice((256, 1024, 4096, 16_384))
    if unlike:
        cpu_milli, memory_mib = cpu_milli + chosen.randrange(250), memory_mib + chosen.randrange(256)
    kubernetes.add_pod(
        f"p{number}",
        f"team{chosen.randrange(20)}",
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        node_selector={POOL_LABEL: chosen.choice(_PODS_WANT)},
        priority=chosen.choice((0, 0, 0, 100)),
    )


def _job(chosen: random.Random) -> JobRequest:
    """One that no machine has room for."""
    nodes = chosen.choice((1, 1, 1, 1, 2, 4))
    return JobRequest(
        sleeping(_LONG_S),
        features=chosen.choice(_JOBS_WANT),
        nodes=str(nodes),
        tasks=nodes * chosen.choice((1, 2, 4, 8)),
        memory_mib=chosen.choice((0, 1000, 16_000)),
    )


if __name__ == "__main__":
    BySize(__file__, __doc__, "40,100,400,1000", 50, measure, Figures, table, ("", UNLIKE), missed).main()

"""How long a decision takes: from the text of squeue and scontrol to what is to be done, and in how much memory.

The text is that of a mixed department (`bench/queues.py`): a tenth as many slots as waiting jobs; of the slots six in
ten are busy, some idle, some being made; jobs of one node and of many, arrays, GPUs, features, some that are held.
Each size has a process of its own, whose peak of memory is told; the text itself is in it.

    python bench/decide.py [--sizes 100,1000,10000] [--rounds 100] [--write docs/benchmarks/decide.md]
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.queues import AT, MARK, cluster  # noqa: E402
from bench.sizes import BySize, p99, peak_mib  # noqa: E402
from tidepool.clients.slurm.job import parse_queue  # noqa: E402
from tidepool.clients.slurm.scontrol import parse_node  # noqa: E402
from tidepool.scaling.cluster_state import ClusterState  # noqa: E402
from tidepool.scaling.decide.decide import decide  # noqa: E402
from tidepool.scaling.decision import Launch as ToLaunch  # noqa: E402
from tidepool.scaling.memory import Launch, Memory  # noqa: E402

JOBS_PER_NODE: Final = 10
#: Of the issue: seconds, MiB, at so many nodes.
P99_S, PEAK_MIB, AT_NODES = 2.0, 1024.0, 10_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one size: seconds, and MiB. ``parse_*`` and ``decide_s`` are medians of their parts.

    ``cpu_s`` is what the whole took of a core, as a median: less than the clock where others were at work besides.
    """

    nodes: int
    jobs: int
    rounds: int
    parse_queue_s: float
    parse_nodes_s: float
    decide_s: float
    p50_s: float
    p99_s: float
    most_s: float
    cpu_s: float
    peak_mib: float
    actions: int
    launched: int


def measure(nodes: int, rounds: int) -> Figures:
    """Read and decide ``rounds`` times over."""
    gc.disable()  # as the daemon, which looks for cycles between its turns
    seen = cluster(nodes, nodes * JOBS_PER_NODE)
    memory = Memory(launches={name: Launch(AT, AT) for name in seen.under_way})
    taken: dict[str, list[float]] = {"queue": [], "nodes": [], "decide": []}
    of_core: list[float] = []
    launched = actions = 0
    for number in range(rounds + 1):
        began, began_cpu = time.perf_counter(), time.process_time()
        jobs = tuple(parse_queue(seen.queue, MARK))
        read_queue = time.perf_counter()
        there = tuple(map(parse_node, seen.nodes.splitlines()))
        read_nodes = time.perf_counter()
        state = ClusterState(
            at=AT,
            spec=seen.spec,
            nodes=there,
            jobs=jobs,
            machines=seen.machines,
            recorded=seen.recorded,
            desired=seen.desired,
            under_way=seen.under_way,
        )
        decision = decide(state, memory)
        decided = time.perf_counter()
        actions = len(decision.actions)
        launched = sum(len(each.nodes) for each in decision.actions if isinstance(each, ToLaunch))
        if number:  # What Python makes on the first round, it has from then on.
            taken["queue"].append(read_queue - began)
            taken["nodes"].append(read_nodes - read_queue)
            taken["decide"].append(decided - read_nodes)
            of_core.append(time.process_time() - began_cpu)
        # What this round made goes when the next has been decided; here, between the two.
        del jobs, there, state, decision
        if not number % 10:
            gc.collect()
    whole = [sum(parts) for parts in zip(*taken.values(), strict=True)]
    return Figures(
        nodes=nodes,
        jobs=nodes * JOBS_PER_NODE,
        rounds=rounds,
        parse_queue_s=statistics.median(taken["queue"]),
        parse_nodes_s=statistics.median(taken["nodes"]),
        decide_s=statistics.median(taken["decide"]),
        p50_s=statistics.median(whole),
        p99_s=p99(whole),
        most_s=max(whole),
        cpu_s=statistics.median(of_core),
        peak_mib=peak_mib(),
        actions=actions,
        launched=launched,
    )


def table(figures: Sequence[Figures]) -> str:
    """The figures as a Markdown table, one row a size."""
    lines = [
        "| nodes | jobs that wait | read the queue, s | read the nodes, s | decide, s | all, p50, s | p99, s | most, s | of a core, s | peak, MiB | nodes launched | target |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for each in figures:
        target = f"p99 <= {P99_S:g} s, <= {PEAK_MIB:g} MiB" if each.nodes == AT_NODES else ""
        lines.append(
            f"| {each.nodes} | {each.jobs} | {each.parse_queue_s:.3f} | {each.parse_nodes_s:.3f} | {each.decide_s:.3f} "
            f"| {each.p50_s:.3f} | {each.p99_s:.3f} | {each.most_s:.3f} | {each.cpu_s:.3f} | {each.peak_mib:.0f} | {each.launched} | {target} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    BySize(
        __file__,
        __doc__,
        "100,300,1000,3000,10000",
        100,
        lambda nodes, rounds, _: measure(nodes, rounds),
        Figures,
        table,
    ).main()

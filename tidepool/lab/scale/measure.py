"""`measure`: the same steps for each scheduler, in namespaces of their own; single values come as lines of JSON.

The queue only ever grows, so it is the shortest one's turn first. The first round of each length warms up, and is not kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.scale.cluster import SimulatedCluster, TakesJobs, Waits, memory_mib
from tidepool.lab.scale.kubernetes import SimulatedKubernetes
from tidepool.lab.scale.kubernetes import lacking as kubernetes_lacks
from tidepool.lab.scale.launches import BURST, SINGLE, ClusterFacts, Launch, row_of
from tidepool.lab.scale.namespaces import enclosed
from tidepool.lab.scale.plan import Choice, Plan
from tidepool.lab.scale.slurm import SimulatedSlurm
from tidepool.lab.scale.slurm import lacking as slurm_lacks

#: Warms up.
_FIRST_ROUND: Final = 0


def lacking(choice: Choice) -> tuple[str, ...]:
    """Return what this machine lacks for a scheduler, each with its remedy."""
    return slurm_lacks() if choice.family == "slurm" else kubernetes_lacks(choice)


def measured(plan: Plan) -> Iterator[Launch | ClusterFacts]:
    """Measure in a process of its own, and yield what comes; one `ClusterFacts` is the last.

    Raises:
        LabError: a scheduler is missing here, or failed; what it came to has been yielded.
    """
    if lacks := lacking(plan.choice):
        raise LabError("; ".join(lacks))
    argv = enclosed((sys.executable, "-m", __name__, plan.to_json()))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        is_whole = False
        try:
            for line in process.stdout:
                ((kind, values),) = json.loads(line).items()
                if kind == "failed":
                    raise SchedulerFailed(f"{plan.scheduler}, {plan.nodes:,} nodes: {values}")
                is_whole = kind != "launch"
                yield row_of(values, ClusterFacts) if is_whole else row_of(values, Launch)
        finally:
            process.kill()
    if not is_whole:
        raise SchedulerFailed(f"{plan.scheduler}, {plan.nodes:,} nodes: the process that measured was ended")


def steps(plan: Plan, cluster: TakesJobs, tell: Callable[[Launch], None]) -> None:
    """Measure a cluster that has started."""
    for pending in sorted(plan.pending):
        cluster.queue(pending)
        for number in range(_FIRST_ROUND, plan.rounds + 1):
            for way, count in (*((SINGLE, 1),) * plan.singles, (BURST, plan.burst)):
                for job, times in enumerate(cluster.launch(count)):
                    if number != _FIRST_ROUND:
                        tell(Launch(plan.scheduler, plan.nodes, pending, number, way, job, *times))


def _cluster(plan: Plan) -> SimulatedCluster:
    waits = Waits(ready_s=plan.ready_s)
    if plan.choice.family == "slurm":
        return SimulatedSlurm(plan.nodes, plan.choice.parameters, waits)
    return SimulatedKubernetes(plan.nodes, plan.choice, waits)


def _tell(kind: str, values: object) -> None:
    sys.stdout.write(json.dumps({kind: values}) + "\n")
    sys.stdout.flush()


def _main(plan: Plan) -> None:
    load = os.getloadavg()[0]
    cluster = _cluster(plan)
    began = time.monotonic()
    lack = ""
    try:
        cluster.start()
    except SchedulerFailed as error:
        lack = " ".join(str(error).split())
    start_s = time.monotonic() - began
    ready = _ready(cluster, lack)
    node_mib = memory_mib(cluster.node_pids()) / max(ready, 1)
    if not lack:
        try:
            steps(plan, cluster, lambda launch: _tell("launch", asdict(launch)))
        except SchedulerFailed as error:
            lack = " ".join(str(error).split())
    facts = ClusterFacts(
        plan.scheduler,
        plan.nodes,
        ready,
        start_s,
        node_mib,
        memory_mib(cluster.scheduler_pids()),
        load,
        _said(cluster.versions) if ready else "",
        _said(cluster.settings),
        lack,
    )
    _tell("facts", asdict(facts))


def _ready(cluster: SimulatedCluster, lack: str) -> int:
    try:
        return cluster.ready()
    except SchedulerFailed:
        if lack:
            return 0  # it did not even come so far as to answer
        raise


def _said(values: Callable[[], Mapping[str, Any]]) -> str:
    return " ".join(f"{name}={value}" for name, value in values().items())


if __name__ == "__main__":
    try:
        _main(Plan.from_json(sys.argv[1]))
    except LabError as mistake:
        _tell("failed", str(mistake))

"""Records for tests: a cluster of two fleets, as a daemon saw it at `NOW`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cluster.specs import spec_mapping
from tests.simulation.slurm import FakeSlurm
from tidepool.cli.explain.record import Record
from tidepool.clients.slurm import Job, JobRequest, JobState, Node, NodeState, Slots
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Action, Cost, Decision, Launch, NodeView, Phase, Waiting
from tidepool.scaling.memory import Memory
from tidepool.scaling.ports import Intent, Lease, Look, Result

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
LEADER = Lease("ctl/77/boot/1/2", 3, NOW + timedelta(seconds=5))


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def spec(**changes: Any) -> ClusterSpec:
    """Of `spec_mapping`: the fleets `cpu` (16 slots) and `gpu` (300)."""
    return ClusterSpec.model_validate(spec_mapping(**changes))


def job(job_id: int, state: JobState = JobState.PENDING, **changes: Any) -> Job:
    """One that was submitted ten seconds ago by a researcher."""
    slurm = FakeSlurm(lambda: ago(10), partitions=("main",))
    slurm.create_slots(Slots("cpu-[1-2]", addresses="10.0.0.[1-2]", cpus=4, memory_mib=4096))
    slurm.submit(JobRequest("#!/bin/sh\n", name="sim"))
    (made,) = slurm.jobs()
    return made._replace(
        **{
            "job_id": job_id,
            "array_job_id": job_id,
            "state": state,
            "user": "ada",
            "reason": "Resources",
            **changes,
        }
    )


def nodes(**phases: Phase) -> dict[str, NodeView]:
    """``nodes(cpu_1=Phase.IDLE)``: each with a reason."""
    return {name.replace("_", "-"): NodeView(phase, f"it is {phase.value}") for name, phase in phases.items()}


def intent(
    number: int, action: Action, at: datetime, result: Result = "", took_s: float = 2, text: str = ""
) -> Intent:
    ended = at + timedelta(seconds=took_s) if result else None
    return Intent(number, number, 3, at, action, result, ended, text)


def record(
    *,
    at: datetime = NOW - timedelta(seconds=0.5),
    jobs: tuple[Job, ...] = (),
    slurm_nodes: tuple[Node, ...] = (),
    waiting: tuple[Waiting, ...] = (),
    views: Mapping[str, NodeView] | None = None,
    wish: Mapping[str, str] | None = None,
    memory: Memory | None = None,
    cost: Cost | None = None,
    of: ClusterSpec | None = None,
    is_large: bool = False,
    **changes: Any,
) -> Record:
    """What a daemon that runs saw half a second ago; ``changes`` are of the `Record`."""
    made_of = of or spec()
    state = ClusterState(at, made_of, slurm_nodes, jobs)
    decision = Decision(
        at=at,
        actions=(),
        waiting={each.job_id: each for each in waiting},
        desired={fleet: HostSet(names) for fleet, names in (wish or {}).items()},
        nodes=views or {},
        memory=memory or Memory(),
        cost=cost or Cost(),
    )
    look = Look(3, made_of, decision, None if is_large else state)
    return replace(Record("dev", NOW, leader=LEADER, look=look), **changes)


def launch(*names: str, jobs: tuple[int, ...] = (), reason: str = "2 jobs wait for 4 CPUs") -> Launch:
    return Launch(names[0].rpartition("-")[0], names, reason, jobs)


def node(name: str, state: str, **changes: Any) -> Node:
    return Node(name, NodeState.parse(state), **changes)

"""On which fleets a job would fit: told the same as it is decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.explain.records import NOW, job, nodes, record, spec
from tidepool.cli.explain.why_job import Fit, fits
from tidepool.clients.slurm import Job, Node, NodeState
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decision import Phase
from tidepool.scaling.memory import Backoff, Memory

SPEC = spec()
SLOTS = tuple(
    Node(slot.node_name, NodeState.parse("FUTURE"), str(slot.address), cpus=8, memory_mib=8000)
    for fleet in SPEC.fleets
    for slot in fleet.slots()[:4]
)


def asks(
    cpus: int = 1, memory_mib: int = 100, gpus: int = 0, features: str = "", partition: str = "main"
) -> Job:
    """A job of one node."""
    return job(
        41,
        cpus=cpus,
        cpus_per_task=cpus,
        tasks=1,
        nodes=1,
        min_cpus_per_node=1,
        min_memory_mib=memory_mib,
        tres={"cpu": str(cpus), "mem": f"{memory_mib}M", "node": "1"},
        tres_per_node={"gres/gpu": str(gpus)} if gpus else {},
        features=features,
        partitions=(partition,),
    )


def told(asked: Job, **changes: object) -> list[Fit]:
    return list(fits(record(jobs=(asked,), **changes), asked))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "cpu", "gpu"),
    [
        (asks(), "", ""),
        (asks(cpus=6), "a node has 4 CPUs, and 6 are asked for", ""),
        (asks(memory_mib=6000), "a node has 4,096 MiB, and 6,000 are asked for", ""),
        (asks(gpus=1), "a node has no gres, and other gres is asked for", ""),
        (
            asks(gpus=3),
            "a node has no gres, and other gres is asked for",
            "a node has 2 gpu:a100, 3 lic, and other",
        ),
        (asks(features="std"), "", "its features gpu are not what std asks for"),
        (asks(features="std*"), "the job asks for the features 'std*', which cannot be read", "the job asks"),
        (asks(partition="gpu"), "it is not in the partition gpu", ""),
    ],
)
def test_each_fleet_tells_what_it_lacks(asked: Job, cpu: str, gpu: str) -> None:
    of_cpu, of_gpu = told(asked)
    assert (of_cpu.fleet, of_cpu.fits, of_cpu.why) == ("cpu", not cpu, cpu)
    assert (of_gpu.fleet, of_gpu.fits) == ("gpu", not gpu)
    assert of_gpu.why.startswith(gpu)


def test_what_keeps_a_fleet_that_fits_from_being_used() -> None:
    until = NOW + timedelta(seconds=30)
    of_cpu, _ = told(asks(), memory=Memory(fleet_backoffs={"cpu": Backoff("capacity", 1, until, "sold out")}))
    assert of_cpu.fits
    assert "left alone until 20:00:30" in of_cpu.why
    full = {f"cpu_{n}": Phase.BUSY if n % 2 else Phase.HELD for n in range(1, 17)}
    of_cpu, _ = told(asks(), views=nodes(**full))
    assert of_cpu.why == "all of its 16 nodes are there, 8 of them with jobs"
    ill = {f"cpu-{n}": Backoff("boot", 1, until, "dead") for n in range(1, 17)}
    of_cpu, _ = told(asks(), memory=Memory(node_backoffs=ill))
    assert of_cpu.why == "all nodes that it could still have are in quarantine"


def test_without_a_spec_nothing_is_claimed() -> None:
    assert list(fits(replace(record(), look=None), asks())) == []


@given(
    st.integers(1, 10),
    st.sampled_from([100, 4096, 5000, 8000, 9000]),
    st.integers(0, 3),
    st.sampled_from(["", "cpu", "gpu", "std", "std&gpu", "std|gpu", "large"]),
    st.sampled_from(["main", "gpu"]),
)
def test_a_job_can_never_run_exactly_where_no_fleet_fits(
    cpus: int, memory_mib: int, gpus: int, features: str, partition: str
) -> None:
    asked = asks(cpus, memory_mib, gpus, features, partition)
    decision = decide(ClusterState(NOW, SPEC, SLOTS, (asked,), recorded={}, machines=()), Memory())
    assert (decision.waiting[41].standing == "never") is not any(fit.fits for fit in told(asked))

"""A workload that can never run on a cluster is told so before anything is made, by the scaler's own reasons."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cluster.specs import POOL, spec_mapping
from tests.runs.workloads import job, workload
from tidepool.cluster.spec_reading import read_spec
from tidepool.runs.feasibility import obstacles, user_of

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def told(*jobs: dict[str, Any], spec: dict[str, Any] | None = None, **more: Any) -> list[str]:
    found = obstacles(workload(*jobs, **more), read_spec(spec or spec_mapping()), AT)
    return [str(each) for each in found]


def test_what_fits_has_no_obstacle() -> None:
    assert not told(
        job("a"),
        job("spread", tasks=64),
        job("nodes", nodes=16, features="cpu"),
        job("gpus", gpus="a100:2", time="12:00:00", partition="gpu"),
        job("array", array="0-1000"),
        job("after", after=["a"], memory="4GiB", exclusive=True),
        job("per-cpu", cpus_per_task=2, memory_per_cpu="1GiB"),
    )


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"nodes": 17, "features": "std"}, "asks for 17 nodes; partition main can have 16 of the kind (cpu: max_nodes)"),
        ({"cpus_per_task": 9}, "asks for 9 CPUs on a node; the largest of partition main is gpu, with 8"),
        ({"memory": "99GiB"}, "asks for 101376 MiB of memory on a node; the largest"),
        ({"gpus": "v100:1"}, "asks for gpu:v100; no fleet of partition main that it can use has any"),
        ({"features": "avx"}, "asks for the features avx; no fleet of partition main has them"),
        ({"partition": "gpu", "time": "3-0"}, "asks for 3-00:00:00; partition gpu allows at most 1-00:00:00"),
    ],
)  # fmt: skip
def test_the_scaler_s_reason_is_told(asked: dict[str, Any], reason: str) -> None:
    (said,) = told(job(**asked))
    assert said.startswith(f"jobs[0] = 'first': can never run on this cluster: {reason}")


def test_limits_of_the_cluster_are_reasons() -> None:
    (said,) = told(job(nodes=3), spec=spec_mapping(limits={"max_nodes": 2}))
    assert "max_nodes" in said
    spec = spec_mapping(limits={"price_usd_per_hour": 1})
    spec["fleets"] = [{**spec["fleets"][0], "infrastructures": [{"name": "local", "price_usd_per_hour": 2}]}]
    spec["partitions"] = [{"name": "main"}]
    (said,) = told(job(), spec=spec)
    assert "limits.price_usd_per_hour" in said


def test_jobs_on_machines_of_a_pool_fit() -> None:
    spec = spec_mapping(pools=[POOL], kubernetes={})
    assert not told(job(features="shared", nodes=4), spec=spec)
    (said,) = told(job(features="shared", nodes=5), spec=spec)
    assert "asks for 5 nodes" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"user": "bob"}, "user = 'bob': the cluster has no such user; known here: researcher"),
        ({"partition": "mian"}, "jobs[0].partition = 'mian': the cluster has none of that name; did you mean main?"),
        ({"qos": "high"}, "jobs[0].qos = 'high': the cluster has none of that name"),
        ({"array": "0-2000"}, "jobs[0].array = '0-2000': task 2000 is beyond Slurm's 1000 (MaxArraySize)"),
    ],
)  # fmt: skip
def test_what_the_cluster_has_not_is_told(changes: dict[str, Any], said: str) -> None:
    of_run = {key: value for key, value in changes.items() if key == "user"}
    (found,) = told(job(**{key: value for key, value in changes.items() if key != "user"}), **of_run)
    assert found.startswith(said)


def test_jobs_are_the_first_user_s_where_none_is_named() -> None:
    spec = spec_mapping(users=[{"name": "ada", "uid": 3000}, {"name": "bob", "uid": 3001}])
    assert user_of(workload(), read_spec(spec)) == "ada"
    assert user_of(workload(user="bob"), read_spec(spec)) == "bob"
    assert user_of(workload(), read_spec(spec_mapping())) == "researcher"

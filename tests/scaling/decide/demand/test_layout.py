"""How jobs' nodes can look, and which limit those break that never fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scaling.decide.cluster_states import AT, fleet, spec
from tests.scaling.decide.demand.test_ask import PLAIN
from tidepool.clients.slurm import Partition, PartitionState
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decide.demand.fit import Ask
from tidepool.scaling.decide.demand.layout import Layout, Layouts, Queues, Refusal

GPUS = [{"name": "gpu", "type": "a100", "count": 2, "files": "/dev/nvidia[0-1]"}]
CLUSTER = spec(
    fleet("small", 1, shape={"cpus": 4, "memory": 4000}, features=["avx"]),
    fleet("large", 2, shape={"cpus": 32, "memory": 64_000}, max_nodes=2),
    fleet("gpu", 3, shape={"cpus": 8, "memory": 8000, "gres": GPUS}),
    partitions=[{"name": "main"}, {"name": "gpus", "fleets": ["gpu"]}],
)


def partition(name: str = "main", **changes: Any) -> Partition:
    told = Partition(name, PartitionState.UP, False, "", 0, 0, None, None, None, 1, "NO", (), {})
    return replace(told, **changes)


def found(*partitions: Partition, **asked: Any) -> tuple[Layout, ...] | Refusal:
    ask = Ask(**PLAIN | {"partitions": ("main",), "memory_per_node_mib": 100} | asked)
    return Layouts(Queues.of(ClusterState(AT, CLUSTER, (), (), partitions))).of(ask)


def shown(layouts: tuple[Layout, ...] | Refusal) -> list[list[tuple[int, dict[str, int]]]]:
    """Of each layout the parts: how many nodes, and by fleet the CPUs on each."""
    assert not isinstance(layouts, Refusal), layouts
    return [
        [(part.nodes, {fleet: need.cpus for fleet, need in part.needs}) for part in layout.parts]
        for layout in layouts
    ]


@pytest.mark.parametrize(
    ("asked", "layouts"),
    [
        ({}, [[(1, {"small": 1, "large": 1, "gpu": 1})]]),
        ({"tasks": 6}, [[(1, {"large": 6, "gpu": 6})]]),
        # Slurm leaves the number of nodes open: as few as do, of each fleet, in the order of preference.
        (
            {"tasks": 14, "spreads": True},
            [
                [(3, {"small": 4}), (1, {"small": 2})],
                [(1, {"large": 14})],
                [(1, {"gpu": 8}), (1, {"gpu": 6})],
            ],
        ),
        # The first nodes have a task more.
        (
            {"nodes": 2, "tasks": 5},
            [[(1, {"small": 3, "large": 3, "gpu": 3}), (1, {"small": 2, "large": 2, "gpu": 2})]],
        ),
        ({"features": "[small|large]"}, [[(1, {"small": 1})], [(1, {"large": 1})]]),
        ({"features": "[small*2&gpu*1]"}, [[(2, {"small": 1}), (1, {"gpu": 1})]]),
        ({"features": "avx&small"}, [[(1, {"small": 1})]]),
        ({"partitions": ("gpus", "main"), "features": "gpu"}, [[(1, {"gpu": 1})], [(1, {"gpu": 1})]]),
        ({"gres_per_node": (("gpu", "", 1),)}, [[(1, {"gpu": 1})]]),
        ({"gres_per_job": (("gpu", "", 3),), "spreads": True}, [[(2, {"gpu": 1})]]),
        ({"sole": "job"}, [[(1, {"small": 4, "large": 32, "gpu": 8})]]),
    ],
)
def test_layouts(asked: dict[str, Any], layouts: list[list[tuple[int, dict[str, int]]]]) -> None:
    assert shown(found(**asked)) == layouts


def test_a_partition_whose_jobs_are_alone() -> None:
    (layout,) = found(partition(oversubscribe="EXCLUSIVE"))  # type: ignore[misc]
    assert layout.sole == "job"
    assert layout.parts[0].needs[0][1].cpus == 4


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            {"cpus_per_task": 64},
            "asks for 64 CPUs on a node; the largest of partition main is large, with 32",
        ),
        (
            {"memory_per_node_mib": 65_000},
            "asks for 65000 MiB of memory on a node; the largest of partition main is large, with 64000 MiB",
        ),
        (
            {"gres_per_node": (("gpu", "", 3),)},
            "asks for 3 gpu on a node; the largest of partition main is gpu, with 2",
        ),
        (
            {"gres_per_node": (("gpu", "v100", 1),)},
            "asks for gpu:v100; no fleet of partition main that it can use has any",
        ),
        (
            {"cpus_per_task": 16, "gres_per_node": (("gpu", "", 1),)},
            "asks for more on a node than any fleet of partition main has together: 16 CPUs, 100 MiB, 1 gpu",
        ),
        (
            {"nodes": 9, "tasks": 9, "features": "avx"},
            "asks for 9 nodes; partition main can have 8 of the kind (small: max_nodes)",
        ),
        (
            {"features": "nix"},
            "asks for the features nix; no fleet of partition main has them, there are avx, gpu, large, small",
        ),
        ({"tmp_disk_mib": 10}, "asks for 10 MiB of temporary disk; no fleet declares any"),
        ({"partitions": ("other",)}, "its partition other is not in the cluster's spec"),
    ],
)
def test_what_never_fits_names_the_limit(asked: dict[str, Any], reason: str) -> None:
    assert found(**asked) == Refusal("never", reason)


def test_what_a_partition_does_not_take() -> None:
    assert found(partition(max_time_s=3600), time_limit_s=86_400) == Refusal(
        "never", "asks for 1-00:00:00; partition main allows at most 01:00:00"
    )
    assert found(partition(max_nodes=1), nodes=2, tasks=2) == Refusal(
        "never", "asks for 2 nodes; partition main allows at most 1 (MaxNodes)"
    )
    down = partition(state=PartitionState.DOWN)
    assert found(down) == Refusal("held", "its partition main is DOWN; an administrator can set it UP")
    # Another of its partitions does.
    assert shown(found(down, partitions=("main", "gpus"))) == [[(1, {"gpu": 1})]]
    # One would, were it up: that is what it waits for.
    assert found(down, partitions=("main", "other")) == found(down)


@pytest.mark.parametrize("asked", [{"features": "!avx"}, {"required_nodes": "small-["}])
def test_what_cannot_be_told_is_said_so(asked: dict[str, Any]) -> None:
    refusal = found(**asked)
    assert isinstance(refusal, Refusal)
    assert refusal.standing == "held"
    assert refusal.reason.startswith("cannot tell what it needs: ")


def test_a_job_in_a_reservation_starts_no_node() -> None:
    assert found(reservation="upkeep") == Refusal(
        "held", "it runs on the nodes of its reservation upkeep, and on no others"
    )

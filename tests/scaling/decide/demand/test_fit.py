"""What a node gives, as Slurm 22.05.8 was seen to count it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.decide.cluster_states import fleet, spec
from tests.scaling.decide.demand.test_ask import PLAIN
from tidepool.scaling.decide.demand.fit import (
    Ask,
    FreeResources,
    Need,
    Offer,
    empty,
    most_tasks,
    need,
    offers,
    preferred,
    taken,
)


def offer(shape: dict[str, Any], **options: Any) -> Offer:
    return offers(spec(fleet(shape=shape), **options))["cpu"]


def ask(**changes: Any) -> Ask:
    return Ask(**PLAIN | changes)


THREADS = {"cpus": 4, "memory": 1000, "threads_per_core": 2}
GPUS = {
    "cpus": 8,
    "memory": 2000,
    "sockets": 2,
    "gres": [
        {"name": "gpu", "type": "a100", "count": 2, "files": "/dev/nvidia[0-1]"},
        {"name": "gpu", "type": "v100", "count": 1, "files": "/dev/nvidia[2-2]"},
        "lic:3",
    ],
}


@pytest.mark.parametrize(
    ("asked", "tasks", "cpus", "memory_mib"),
    [
        # A core is given whole, and memory for each CPU with it.
        ({"memory_per_cpu_mib": 100}, 1, 2, 200),
        ({"memory_per_cpu_mib": 100}, 2, 2, 200),
        ({"memory_per_cpu_mib": 100}, 3, 4, 400),
        ({"memory_per_cpu_mib": 100, "cpus_per_task": 3, "min_cpus_per_node": 3}, 1, 4, 400),
        ({"memory_per_node_mib": 10}, 1, 2, 10),
        ({"threads_per_core": 1, "memory_per_node_mib": 10}, 2, 4, 10),
        # None asked for is all of it.
        ({}, 1, 2, 1000),
        ({"memory_per_node_mib": 10, "min_cpus_per_node": 4}, 1, 4, 10),
        ({"memory_per_node_mib": 10, "sole": "job"}, 1, 4, 1000),
    ],
)
def test_what_slurm_takes_of_a_node_with_threads(
    asked: dict[str, Any], tasks: int, cpus: int, memory_mib: int
) -> None:
    assert need(ask(tasks=4, **asked), offer(THREADS), tasks, 1) == Need(cpus, memory_mib)


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"memory_per_node_mib": 10}, 4),
        ({"memory_per_node_mib": 10, "threads_per_core": 1}, 2),
        ({"memory_per_cpu_mib": 300}, 2),
        ({"memory_per_cpu_mib": 500}, 2),
        ({"memory_per_cpu_mib": 600}, 0),
        ({"memory_per_node_mib": 1001}, 0),
        ({"memory_per_node_mib": 10, "tasks_per_node": 3}, 3),
        ({"memory_per_node_mib": 10, "cpus_per_task": 3, "min_cpus_per_node": 3}, 1),
        ({"memory_per_node_mib": 10, "cpus_per_task": 5}, 0),
        ({"memory_per_node_mib": 1001, "sole": "job"}, 0),
        ({"gres_per_task": (("gpu", "", 1),)}, 0),
    ],
)
def test_how_many_tasks_a_node_takes(asked: dict[str, Any], most: int) -> None:
    assert most_tasks(ask(tasks=5, **asked), offer(THREADS), 1) == most


def test_as_the_person_has_slurm_count() -> None:
    by_thread = offer(THREADS, slurm_conf={"SelectTypeParameters": "CR_CPU"})
    assert need(ask(), by_thread, 1, 1) == Need(1, 0)
    cores_alone = offer(THREADS, slurm_conf={"selecttypeparameters": "CR_Core"})
    assert need(ask(memory_per_node_mib=5000), cores_alone, 1, 1) == Need(2, 0)


@pytest.mark.parametrize(
    ("asked", "tasks", "nodes", "gres"),
    [
        ({"gres_per_node": (("gpu", "", 2),)}, 1, 1, (((0, 1), 2),)),
        ({"gres_per_node": (("gpu", "v100", 1), ("lic", "", 2))}, 1, 1, (((1,), 1), ((2,), 2))),
        ({"gres_per_task": (("gpu", "a100", 1),)}, 2, 1, (((0,), 2),)),
        ({"gres_per_socket": (("gpu", "", 1),)}, 1, 1, (((0, 1), 2),)),
        ({"gres_per_job": (("gpu", "a100", 3),)}, 1, 2, (((0,), 2),)),
        ({"gres_per_node": (("gpu", "", 0),)}, 1, 1, ()),
    ],
)
def test_gres_of_any_type_or_of_one(asked: dict[str, Any], tasks: int, nodes: int, gres: object) -> None:
    found = need(ask(tasks=tasks, **asked), offer(GPUS), tasks, nodes)
    assert found is not None
    assert found.gres == gres
    assert need(ask(gres_per_node=(("gpu", "h100", 1),)), offer(GPUS), 1, 1) is None


def test_those_of_a_type_are_kept_for_who_asks_for_it() -> None:
    assert taken((2, 1), [((0, 1), 2), ((0,), 1)]) == (0, 0)
    assert taken((2, 1), [((0, 1), 2), ((0,), 2)]) is None


_ROOMS = st.builds(
    FreeResources, st.integers(0, 9), st.integers(0, 9), st.tuples(st.integers(0, 4), st.integers(0, 4))
)
_PLACES = st.sampled_from([(0,), (1,), (0, 1)])
_NEEDS = st.builds(
    Need,
    st.integers(1, 4),
    st.integers(0, 4),
    st.dictionaries(_PLACES, st.integers(1, 3), max_size=3).map(lambda gres: tuple(gres.items())),
)


@given(_ROOMS, _NEEDS)
def test_as_often_as_it_fits_one_after_another(room: FreeResources, asked: Need) -> None:
    times, left = 0, room
    while asked.fits(left):
        left = asked.from_(left)
        assert min(left.cpus, left.memory_mib, *left.gres) >= 0
        times += 1
    # What was taken one by one may have been taken of the wrong kinds, all at once never.
    assert times <= asked.times_in(room)
    together = asked.from_(room, asked.times_in(room))
    assert min(together.cpus, together.memory_mib, *together.gres) >= 0


def test_where_nobody_ordered_fleets_they_come_by_what_they_waste_and_cost() -> None:
    def priced(name: str, number: int, price: float, **changes: Any) -> dict[str, Any]:
        return fleet(
            name, number, infrastructures=[{"name": "local", "price_usd_per_hour": price}], **changes
        )

    cluster = spec(
        priced("gpu", 1, 0.1, shape={"cpus": 4, "memory": 4000, "gres": ["lic:1"]}),
        priced("dear", 2, 2),
        priced("cheap", 3, 1),
        partitions=[{"name": "main"}, {"name": "own", "fleets": ["dear", "gpu"]}],
    )
    assert preferred(cluster, cluster.partitions[0]) == ("cheap", "dear", "gpu")
    assert preferred(cluster, cluster.partitions[1]) == ("dear", "gpu")
    assert empty(offers(cluster)["gpu"]) == FreeResources(4, 4000, (1,))

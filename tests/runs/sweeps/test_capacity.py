"""Capacity for runs side by side: what a run may use of this machine, and which may begin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.specs import spec_mapping, with_pool
from tests.runs.workloads import job, workload
from tidepool.cluster.spec_reading import read_spec
from tidepool.runs.sweeps.capacity import NONE, Capacity, may_begin, needed_capacity

CAPACITIES = st.builds(Capacity, st.integers(0, 8), st.integers(0, 8))


def test_a_run_uses_its_own_machines_and_the_nodes_that_its_jobs_can_have() -> None:
    spec = read_spec(spec_mapping(fleets=[spec_mapping()["fleets"][0]], partitions=[{"name": "main"}]))
    own = spec.controller.shape.memory_mib * (1 + spec.controller.login_machines)
    one = needed_capacity(workload(job()), spec)
    assert one == Capacity(4, own + 4096)
    assert needed_capacity(workload(job("a", array="0-2"), job("b", nodes=2)), spec) == Capacity(
        20, own + 5 * 4096
    )
    assert needed_capacity(workload(job("a", array="0-99")), spec) == Capacity(16 * 4, own + 16 * 4096)


def test_machines_elsewhere_take_no_room_here_and_pools_all_of_theirs() -> None:
    there = spec_mapping()
    for fleet in there["fleets"]:
        fleet["infrastructures"] = ["aws"]
    there["controller"] = {"infrastructure": "aws"}
    assert needed_capacity(workload(job()), read_spec(there)) == NONE
    without, with_it = (
        needed_capacity(workload(job()), read_spec(each)) for each in (spec_mapping(), with_pool())
    )
    assert with_it == without + Capacity(4 * 2, 4 * 1024)


@given(st.lists(CAPACITIES, max_size=8), st.lists(CAPACITIES, max_size=3), CAPACITIES)
def test_as_many_begin_as_have_room_in_their_order_and_one_always_may(
    waiting: list[Capacity], running: list[Capacity], machine: Capacity
) -> None:
    count = may_begin(waiting, running, machine)
    begun = [*running, *waiting[:count]]
    if count and len(begun) > 1:
        assert machine.holds(sum(begun, NONE)) or len(begun) == 1
    if count < len(waiting):
        assert begun, "one alone always may"
        assert not machine.holds(sum(begun, waiting[count])), "the next one would have had room"


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))
def test_a_person_says_how_many(waiting: int, running: int, at_once: int) -> None:
    huge = Capacity(99, 99)
    count = may_begin([huge] * waiting, [huge] * running, NONE, at_once)
    assert 0 <= count <= waiting
    assert count == 0 or running + count <= at_once
    assert running >= at_once or count == min(waiting, at_once - running)

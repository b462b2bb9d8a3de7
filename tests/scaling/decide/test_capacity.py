"""Which of a fleet's infrastructures nodes go to: in order, as far as each is open; and what is known where one is silent."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.decide.cluster_states import AT, cluster_state, job, machine, seconds, spec
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.scaling.decide.capacity import (
    PROBES,
    capacities_of,
    closing_backoff,
    is_quarantined,
    next_capacities,
)
from tidepool.scaling.decide.decide import decide
from tidepool.scaling.decide.remember import BOOTS_FORGIVEN, remember
from tidepool.scaling.decision import Launch
from tidepool.scaling.memory import Backoff, Cause, Memory
from tidepool.scaling.memory import Launch as Launched
from tidepool.scaling.ports import Failure, UpOutcome

SOLD_OUT = Backoff("capacity", 1, AT + seconds(60), "sold out")
OVER = replace(SOLD_OUT, until=AT - seconds(10))


def spanning(*infrastructures: Any, of: ClusterSpec | None = None) -> ClusterSpec:
    """The spec of the other tests, its first fleet on several infrastructures."""
    found = of or spec()
    fleet = found.fleets[0].model_dump(mode="json") | {"infrastructures": list(infrastructures)}
    return found.model_copy(update={"fleets": (Fleet.model_validate(fleet), *found.fleets[1:])})


def locations(of: ClusterSpec, taken: dict[str, int], memory: Memory, nodes: int) -> dict[str, int]:
    fleet = of.fleets[0]
    by_place = {(fleet.name, key): count for key, count in taken.items()}
    return {
        capacity.key: n
        for capacity, n in next_capacities(capacities_of(fleet, by_place, memory, AT), 0, nodes)
    }


LOCAL, AWS, SPOT = {"name": "local", "max_nodes": 2}, "aws", {"name": "aws", "offering": "spot"}


@pytest.mark.parametrize(
    ("taken", "closed", "nodes", "where"),
    [
        ({}, {}, 1, {"local": 1}),
        ({}, {}, 3, {"local": 2, "aws/spot": 1}),
        ({"local": 2}, {}, 1, {"aws/spot": 1}),
        ({"local": 1}, {"cpu@aws/spot": SOLD_OUT}, 2, {"local": 1, "aws": 1}),
        ({}, {"cpu@local": SOLD_OUT, "cpu@aws": SOLD_OUT}, 2, {"aws/spot": 2}),
        ({"local": 5}, {}, 1, {"aws/spot": 1}),
        ({}, {"cpu": SOLD_OUT}, 1, {"local": 1}),
        # Of one whose set-back is over, one; the others do not wait for what comes of it.
        ({}, {"cpu@local": OVER}, 1, {"local": 1}),
        ({}, {"cpu@local": OVER}, 4, {"local": 1, "aws/spot": 3}),
        ({}, {"cpu@local": OVER, "cpu@aws/spot": OVER}, 5, {"local": 1, "aws/spot": 1, "aws": 3}),
        ({"aws/spot": 8}, {"cpu@local": OVER, "cpu@aws": SOLD_OUT}, 2, {"local": 2}),
    ],
)
def test_in_the_fleets_order_and_what_is_closed_or_full_is_passed_over(
    taken: dict[str, int], closed: dict[str, Backoff], nodes: int, where: dict[str, int]
) -> None:
    memory = Memory(fleet_backoffs=closed)
    assert locations(spanning(LOCAL, SPOT, AWS), taken, memory, nodes) == where


_SETBACKS = st.dictionaries(
    st.sampled_from(("cpu@local", "cpu@aws/spot", "cpu@aws")),
    st.builds(
        Backoff,
        st.sampled_from(("capacity", "transient", "permanent", "boot")),
        st.integers(1, 4),
        st.integers(-100, 100).map(lambda count: AT + seconds(count)),
        st.just("sold out"),
    ),
)


@given(st.integers(0, 6), st.integers(0, 9), st.integers(0, 9), _SETBACKS)
def test_giving_out_in_two_steps_is_as_in_one(
    taken: int, first: int, then: int, backoffs: dict[str, Backoff]
) -> None:
    fleet = spanning(LOCAL, SPOT, AWS).fleets[0]
    capacities = capacities_of(fleet, {("cpu", "local"): taken}, Memory(fleet_backoffs=backoffs), AT)

    def flat(skip: int, nodes: int) -> list[str]:
        return [
            capacity.key for capacity, count in next_capacities(capacities, skip, nodes) for _ in range(count)
        ]

    assert flat(0, first) + flat(first, then) == flat(0, first + then)


@given(st.integers(0, 30), _SETBACKS, st.booleans())
def test_probing_costs_no_room_and_asks_for_one_where_another_has_room(
    nodes: int, backoffs: dict[str, Backoff], coming: bool
) -> None:
    fleet = spanning(LOCAL, SPOT, AWS).fleets[0]
    launches = {"cpu-1": Launched(AT, AT + seconds(60))} if coming else {}
    memory = Memory(fleet_backoffs=backoffs, launches=launches, locations={"cpu-1": "local"})
    capacities = capacities_of(fleet, {}, memory, AT)
    given_out = Counter[str]()
    for capacity, count in next_capacities(capacities, 0, nodes):
        given_out[capacity.key] += count
    assert given_out.total() == min(nodes, sum(capacity.left for capacity in capacities)), (
        "jobs get all the nodes that there are"
    )
    for capacity in capacities:
        assert given_out[capacity.key] <= capacity.left
        probed = capacity.failed is not None and given_out[capacity.key] > PROBES - (
            coming and capacity.key == "local"
        )
        others = [each for each in capacities if each.failed is None]
        assert not probed or all(given_out[each.key] == each.left for each in others), "the others are full"


def test_one_probe_at_a_time_whose_failure_closes_it_for_longer_and_whose_success_opens_it() -> None:
    of = spanning("local", AWS)
    jobs = tuple(job(number, cpus=4) for number in range(1, 4))
    seen = cluster_state(of=of, jobs=jobs)
    look = decide(seen, Memory(fleet_backoffs={"cpu@local": OVER}))
    launches = [action for action in look.actions if isinstance(action, Launch)]
    assert [(each.location, len(each.nodes)) for each in launches] == [("local", 1), ("aws", 2)]
    assert launches[1].reason.endswith("on aws, for local is tried with 1 node first: sold out")
    # More jobs, while it is on its way: they do not wait for what comes of it.
    more = replace(seen, at=AT + seconds(5), jobs=(*jobs, job(4, cpus=4)), desired=look.desired)
    then = decide(more, look.memory)
    assert [each.location for each in then.actions if isinstance(each, Launch)] == ["aws"]
    (probe,) = launches[0].nodes
    failed = remember(
        then.memory, UpOutcome(failed={probe: Failure("capacity", "sold out")}), AT + seconds(6)
    )
    assert failed.fleet_backoffs["cpu@local"].failures == 2
    assert failed.fleet_backoffs["cpu@local"].until == AT + seconds(6 + 120)
    made = remember(then.memory, UpOutcome(made=frozenset({probe})), AT + seconds(6))
    assert locations(of, {}, made, 3) == {"local": 3}


def test_a_job_of_several_nodes_is_not_kept_waiting_by_a_probe() -> None:
    of = spanning("local", {"name": "aws", "max_nodes": 1})
    decision = decide(
        cluster_state(of=of, jobs=(job(1, nodes=4, cpus=16),)), Memory(fleet_backoffs={"cpu@local": OVER})
    )
    assert Counter(decision.memory.locations.values()) == {"local": 3, "aws": 1}


def test_a_node_that_did_not_boot_is_forgiven_and_its_infrastructure_is_not_probed() -> None:
    once = Backoff("boot", BOOTS_FORGIVEN, AT, "no luck")
    closed = replace(once, failures=BOOTS_FORGIVEN + 1)
    of = spanning("local", AWS)
    assert locations(of, {}, Memory(fleet_backoffs={"cpu@local": once}), 3) == {"local": 3}
    assert locations(of, {}, Memory(fleet_backoffs={"cpu@local": closed}), 3) == {"local": 1, "aws": 2}


def test_a_fleet_is_closed_when_all_of_it_is_and_until_the_first_opens() -> None:
    fleet = spanning("local", AWS).fleets[0]
    later = replace(SOLD_OUT, until=AT + seconds(90), text="no capacity")
    one = Memory(fleet_backoffs={"cpu@local": SOLD_OUT})
    both = Memory(fleet_backoffs={"cpu@local": SOLD_OUT, "cpu@aws": later})
    assert closing_backoff(fleet, one, AT) is None
    assert closing_backoff(fleet, both, AT) == SOLD_OUT


@pytest.mark.parametrize(
    ("cause", "closed", "left_alone"),
    [
        ("capacity", True, False),
        ("permanent", True, False),
        ("capacity", False, True),
        # Its answer may have been lost: under this name there may be a machine.
        ("transient", True, True),
        ("boot", True, True),
    ],
)
def test_a_name_is_free_elsewhere_only_where_nothing_can_have_been_made(
    cause: Cause, closed: bool, left_alone: bool
) -> None:
    fleet = spanning("local", AWS).fleets[0]
    backoff = Backoff(cause, 1, AT + seconds(60), "no", "local")
    memory = Memory(node_backoffs={"cpu-1": backoff}, fleet_backoffs={"cpu@local": backoff} if closed else {})
    assert is_quarantined(fleet, "cpu-1", memory, AT) is left_alone


def test_a_slot_of_a_silent_host_is_free_where_a_fleet_has_another_place() -> None:
    seen = machine("cpu-1", "unknown")
    there = replace(seen, key=replace(seen.key, machine_id="", infrastructure="aws"))
    decision = decide(cluster_state(jobs=(job(1),), of=spanning(LOCAL, AWS), machines=(there,)), Memory())
    (launch,) = decision.actions
    assert isinstance(launch, Launch)
    assert launch.nodes == ("cpu-1",)


def test_a_launch_says_where_and_why_not_before() -> None:
    of = spanning("local", AWS)
    decision = decide(cluster_state(of=of, jobs=(job(1),)), Memory(fleet_backoffs={"cpu@local": SOLD_OUT}))
    (launch,) = [action for action in decision.actions if isinstance(action, Launch)]
    assert launch.location == "aws"
    assert "; on aws, for local is left alone until " in launch.reason
    assert launch.reason.endswith("UTC: sold out")
    assert decision.memory.locations == {launch.nodes[0]: "aws"}
    assert " on aws " in decision.nodes[launch.nodes[0]].reason


def test_with_all_of_them_closed_the_job_waits_and_is_told_why() -> None:
    of = spanning("local", AWS)
    closed = {"cpu@local": SOLD_OUT, "cpu@aws": replace(SOLD_OUT, text="no spot capacity")}
    decision = decide(cluster_state(of=of, jobs=(job(1),)), Memory(fleet_backoffs=closed))
    assert [action for action in decision.actions if getattr(action, "fleet", "") == "cpu"] == []

"""Calls and the states of nodes together say what Slurm's power saving waits for."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidepool.clients.slurm import Node, NodeState
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec_reading import read_spec
from tidepool.scaling.cluster_state import ClusterState, Recorded
from tidepool.scaling.power.spool import PowerDemand, Request, power_demand

UP, DOWN = frozenset({"cpu-1"}), frozenset({"cpu-1"})
NOBODY: frozenset[str] = frozenset()


SPEC = read_spec(
    {
        "name": "dev",
        "network": "10.99.0.0/16",
        "fleets": [
            {"name": "cpu", "subnet": "10.99.1.0/24", "max_nodes": 4, "shape": {"cpus": 2, "memory": "4GiB"}}
        ],
        "partitions": [{"name": "main", "default": True}],
    }
)


def seen(*nodes: Node, recorded: Collection[str] = ()) -> ClusterState:
    return ClusterState(
        datetime(2026, 1, 5, tzinfo=UTC),
        SPEC,
        nodes,
        (),
        recorded=dict.fromkeys(recorded, Recorded(machine=True)),
    )


def look(state: str, *recorded: str) -> ClusterState:
    return seen(Node("cpu-1", NodeState.parse(state)), recorded=recorded)


def call(what: str, nodes: str = "cpu-1") -> Request:
    return Request("1", "up" if what == "up" else "down", HostSet(nodes))


#: Of a node of which something is there: its state, and what that alone says.
STATES = {
    "IDLE+CLOUD+POWERED_DOWN": PowerDemand(NOBODY, DOWN),
    "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP": PowerDemand(UP, NOBODY),
    "IDLE+CLOUD+POWER_UP": PowerDemand(UP, NOBODY),
    "IDLE+CLOUD": PowerDemand(),
    "IDLE+CLOUD+DRAIN": PowerDemand(),
    "MIXED+CLOUD+POWER_DOWN": PowerDemand(NOBODY, DOWN),
    "IDLE+CLOUD+POWERING_DOWN": PowerDemand(NOBODY, DOWN),
    "DOWN+CLOUD+NOT_RESPONDING+POWERING_UP": PowerDemand(),
    "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING": PowerDemand(NOBODY, DOWN),
    "FUTURE": PowerDemand(),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("before", [PowerDemand(), PowerDemand(UP, NOBODY), PowerDemand(NOBODY, DOWN)])
def test_what_slurm_says_of_a_node_holds_whatever_was_before(state: str, before: PowerDemand) -> None:
    assert power_demand(before, look(state, "cpu-1"), {}) == STATES[state]


def test_of_what_is_gone_nothing_is_to_be_taken_away() -> None:
    off = look("IDLE+CLOUD+POWERED_DOWN")
    assert power_demand(PowerDemand(NOBODY, DOWN), off, {}) == PowerDemand()
    assert power_demand(PowerDemand(), off, {"cpu": HostSet("cpu-1")}) == PowerDemand(NOBODY, DOWN)


def test_a_call_counts_at_once_and_the_last_one_of_several() -> None:
    off, on = look("IDLE+CLOUD+POWERED_DOWN"), look("IDLE+CLOUD")
    assert power_demand(PowerDemand(), off, {}, [call("up")]) == PowerDemand(UP, NOBODY)
    assert power_demand(PowerDemand(UP, NOBODY), on, {}, [call("down")]) == PowerDemand(NOBODY, DOWN)
    assert power_demand(PowerDemand(), on, {}, [call("down"), call("up")]) == PowerDemand(UP, NOBODY)
    assert power_demand(PowerDemand(), on, {}, [call("up"), call("down")]) == PowerDemand(NOBODY, DOWN)


def test_a_call_of_yesterday_is_over_with_the_next_look() -> None:
    up = look("IDLE+CLOUD", "cpu-1")
    requests = power_demand(PowerDemand(), up, {}, [call("up"), call("down", "cpu-2")])
    assert requests == PowerDemand(UP, NOBODY)
    assert power_demand(requests, up, {}) == PowerDemand()


@settings(max_examples=100, deadline=None, database=None)
@given(
    st.lists(st.sampled_from(sorted(STATES)), max_size=4),
    st.lists(st.tuples(st.sampled_from(["up", "down"]), st.sampled_from(["cpu-1", "cpu-[2-9]", "gpu-1"]))),
    st.frozensets(st.sampled_from(["cpu-1", "cpu-2", "x"])),
    st.frozensets(st.sampled_from(["cpu-2", "cpu-3", "x"])),
)
def test_no_node_is_asked_for_and_given_back_and_none_is_unheard_of(
    states: list[str], calls: list[tuple[str, str]], up: frozenset[str], down: frozenset[str]
) -> None:
    nodes = tuple(Node(f"cpu-{n}", NodeState.parse(state)) for n, state in enumerate(states, 1))
    before = PowerDemand(up, down)
    requests = power_demand(before, seen(*nodes), {}, [call(*each) for each in calls])
    assert not requests.up & requests.down
    assert requests.up | requests.down <= {node.name for node in nodes}
    # Said twice, as after a kill between the journal and the folder of requests.
    assert power_demand(requests, seen(*nodes), {}, [call(*each) for each in calls]) == requests

"""The wish after a person's hand on the stack."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.act.act import adopted, applied, still_suspended

_NAMES = [f"cpu-{number}" for number in range(1, 7)]
_SOME = st.frozensets(st.sampled_from(_NAMES))


def hosts(names: frozenset[str]) -> dict[str, HostSet]:
    return {"cpu": HostSet.from_names(names)}


def test_a_person_who_raises_min_nodes_has_them_wished() -> None:
    assert adopted({}, {"cpu": HostSet("cpu-[1-2]")}, ["cpu-1", "cpu-2"], [], []) == {
        "cpu": HostSet("cpu-[1-2]")
    }


def test_what_a_down_took_away_is_not_wished_any_more() -> None:
    desired = {"cpu": HostSet("cpu-[1-3]"), "gpu": HostSet("gpu-1")}
    assert adopted(desired, {"cpu": HostSet("cpu-1")}, ["cpu-1"], [], []) == {
        "cpu": HostSet("cpu-1"),
        "gpu": HostSet(),
    }


@given(desired=_SOME, told=_SOME, recorded=_SOME, launching=_SOME, removing=_SOME)
def test_what_is_known_of_a_node_decides_whether_it_is_wished(
    desired: frozenset[str],
    told: frozenset[str],
    recorded: frozenset[str],
    launching: frozenset[str],
    removing: frozenset[str],
) -> None:
    after = set(adopted(hosts(desired), hosts(told), recorded, launching, removing)["cpu"])
    for name in _NAMES:
        if name in desired:
            assert (name in after) == (name in told | recorded | launching), name
        else:
            assert (name in after) == (name in told and name not in removing), name
    again = adopted(hosts(frozenset(after)), hosts(told), recorded, launching, removing)
    assert set(again["cpu"]) == after


@given(told=_SOME, desired=_SOME, nodes=_SOME)
def test_an_up_changes_the_nodes_that_it_is_about_and_no_others(
    told: frozenset[str], desired: frozenset[str], nodes: frozenset[str]
) -> None:
    after = set(applied(hosts(told), hosts(desired), dict.fromkeys(nodes, "cpu"))["cpu"])
    assert after == (told - nodes) | (desired & nodes)


def test_machines_stay_suspended_but_for_those_of_the_operation() -> None:
    kept = {"cpu": HostSet("cpu-[1-3]")}
    nodes = {"cpu-1": "cpu", "cpu-2": "cpu", "cpu-9": "cpu", "gpu-1": "gpu"}
    assert still_suspended(kept, nodes, {"cpu-2", "cpu-9"}) == {"cpu": HostSet("cpu-[2-3,9]")}
    assert still_suspended({}, nodes, set()) == {}

"""The order of hosts by their names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster.names import by_name


def test_numbers_are_by_value() -> None:
    names = [
        "a",
        "node",
        "node-1",
        "node01",
        "node1",
        "node2",
        "node10",
        "rack1-node3",
        "rack1-node20",
        "rack2",
    ]
    assert list(by_name(dict.fromkeys(reversed(names)))) == names


@given(st.sets(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?", fullmatch=True)))
def test_the_order_is_one_whatever_the_map_had(names: set[str]) -> None:
    found = list(by_name(dict.fromkeys(names)))
    assert found == list(by_name(dict.fromkeys(sorted(names))))
    assert set(found) == names


@given(st.sets(st.from_regex(r"([a-z.-][0-9]?){1,5}", fullmatch=True)))
def test_names_with_single_digits_stay_in_the_order_of_the_engines(names: set[str]) -> None:
    assert list(by_name(dict.fromkeys(names))) == sorted(names)

"""Amounts as Kubernetes writes them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.clients.kubernetes.objects import Resources
from tidepool.clients.kubernetes.reading import added, milli, most, quantity, resources, whole
from tidepool.cluster.frozen import FrozenDict

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60), "e3": Fraction(1000), "E-2": Fraction(1, 100), "e+1": Fraction(10),
}  # fmt: skip
NUMBERS = st.decimals(0, 10**12, places=4).map(lambda number: format(number.normalize(), "f"))
AMOUNTS = st.builds(
    Resources,
    st.integers(0, 10**6),
    st.integers(0, 2**50),
    st.dictionaries(st.sampled_from(["gpu", "nic", "disk"]), st.integers(0, 9)).map(FrozenDict),
)


@pytest.mark.parametrize(
    ("written", "is_milli", "is_whole"),
    [
        ("100m", 100, 1),
        ("1", 1000, 1),
        ("0.5", 500, 1),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("1e3", 1_000_000, 1000),
        ("1E", 10**21, 10**18),
        ("1Gi", 2**30 * 1000, 2**30),
        ("1.5Gi", 3 * 2**29 * 1000, 3 * 2**29),
        ("128974848", 128974848000, 128974848),
        ("1u", 1, 1),
        ("0", 0, 0),
        (2, 2000, 2),
        ("+1k", 1_000_000, 1000),
    ],
)
def test_amounts_are_read(written: str | int, is_milli: int, is_whole: int) -> None:
    assert (milli(written), whole(written)) == (is_milli, is_whole)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "1 Gi",
        "Gi",
        "1gi",
        "1ki",
        "1K",
        "0x10",
        "1e",
        "1e1000",
        "--1",
        "1,5",
        "\u0661",
        "NaN",
        True,
        "1\n",
    ],
)
def test_what_is_no_amount_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantity(written)


@runs()
@given(NUMBERS, st.sampled_from(sorted(SUFFIXES)))
def test_an_amount_is_its_number_times_its_suffix(number: str, suffix: str) -> None:
    assert quantity(number + suffix) == Fraction(Decimal(number)) * SUFFIXES[suffix]


@runs()
@given(NUMBERS, st.sampled_from(sorted(SUFFIXES)))
def test_rounding_is_up_and_by_less_than_one(number: str, suffix: str) -> None:
    exact = quantity(number + suffix)
    assert 0 <= whole(number + suffix) - exact < 1
    assert 0 <= milli(number + suffix) - exact * 1000 < 1


@runs()
@given(AMOUNTS, AMOUNTS)
def test_the_larger_of_two_is_at_most_both_together(one: Resources, other: Resources) -> None:
    larger, both = most(one, other), added(one, other)
    assert most(one, one) == one
    assert added(one, other) == added(other, one)
    assert larger.cpu_milli <= both.cpu_milli
    assert larger.memory_bytes <= both.memory_bytes
    assert all(larger.extended[name] <= both.extended[name] for name in both.extended)


def test_a_list_of_resources_names_what_is_wrong_in_it() -> None:
    assert resources({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"}) == Resources(
        1500, 2**30, FrozenDict({"nvidia.com/gpu": 2})
    )
    with pytest.raises(ValueError, match="memory: 'lots' is no quantity"):
        resources({"memory": "lots"})
    with pytest.raises(ValueError, match="cpu: '-1' is less than nothing"):
        resources({"cpu": "-1"})

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine.providers.discovery import Version, admits

_identifiers = st.from_regex(r"\A(0|[1-9][0-9]{0,3}|[a-z][a-z0-9-]{0,3})\Z")
_versions = st.builds(
    Version,
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(_identifiers, max_size=3).map(tuple),
    st.sampled_from(["", "build.1"]),
)


@given(_versions)
def test_what_is_written_is_read_again(version: Version) -> None:
    assert Version.parse(str(version)) == version
    assert Version.parse(f"v{version}") == version


@given(_versions, _versions)
def test_two_versions_are_in_one_order(a: Version, b: Version) -> None:
    assert (a < b) + (b < a) + a.same_release(b) == 1


def test_the_order_is_that_of_semver_org() -> None:
    ordered = (
        "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.1 1.10.0"
    )
    versions = [Version.parse(v) for v in ordered.split()]
    assert all(a < b and not b < a for a, b in pairwise(versions))


@pytest.mark.parametrize("text", ["", "x", "1.2.3.4", "1..2", "1.2.3-", "latest"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        Version.parse(text)


@pytest.mark.parametrize(
    ("version_range", "inside", "outside"),
    [
        (">=3.0.0", ["3.0.0", "4.1.0"], ["2.9.9", "3.0.0-rc.1"]),
        (">=3.5.0 !3.7.7", ["3.5.0", "3.7.8"], ["3.7.7", "3.4.0"]),
        ("<3.4.0 || >3.8.0", ["3.3.9", "3.8.1"], ["3.4.0", "3.8.0"]),
        ("3.260.0", ["3.260.0"], ["3.260.1"]),
        ("=3.x", ["3.0.0", "3.99.1"], ["4.0.0", "2.9.0"]),
        (">3.2.x", ["3.3.0"], ["3.2.9"]),
        ("<=3.2.x", ["3.2.9"], ["3.3.0"]),
        ("> 1.0.0 < 2.0.0", ["1.5.0"], ["2.0.0"]),
    ],
)
def test_ranges(version_range: str, inside: list[str], outside: list[str]) -> None:
    assert all(admits(version_range, v) for v in inside)
    assert not any(admits(version_range, v) for v in outside)


@pytest.mark.parametrize("version_range", ["", "||", ">=", "about 3", "!3.x"])
def test_what_is_no_range_is_refused(version_range: str) -> None:
    with pytest.raises(ValueError, match="version"):
        admits(version_range, "3.0.0")

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.images.conftest import a_lock
from tidepool.images import Lock, LockedPackage, LockError, parse_lock, parse_recipe, render_lock

WORD = st.from_regex(r"[a-z0-9][a-z0-9+.:~-]{0,20}", fullmatch=True)
PACKAGES = st.builds(
    LockedPackage,
    WORD,
    WORD,
    st.sampled_from(["all", "amd64"]),
    st.integers(0, 10**9),
    st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)


@given(st.lists(PACKAGES, max_size=5), st.lists(WORD, min_size=1, max_size=4), st.integers(0, 2**40))
def test_what_is_written_is_what_is_read(packages: list[LockedPackage], asked: list[str], epoch: int) -> None:
    lock = Lock("bookworm", "amd64", epoch, tuple(sorted(asked)), tuple(sorted(packages)))
    assert parse_lock(render_lock(lock), origin="x") == lock


@given(st.text(max_size=300))
@example(" \n")
def test_no_text_is_more_than_a_lock_error(text: str) -> None:
    with pytest.raises(LockError, match="Make the lock anew"):
        parse_lock(text, origin="x")


def test_a_line_that_is_none_is_told_with_its_number() -> None:
    lines = render_lock(a_lock()).splitlines()
    lines[5] = lines[5].replace("1000", "many")
    with pytest.raises(LockError, match=r"packages\.lock, line 6: 'name version"):
        parse_lock("\n".join(lines), origin="packages.lock")


def test_a_lock_of_another_recipe_says_all_that_differs() -> None:
    recipe = parse_recipe("release: trixie\npackages: [slurmd]", origin="x")
    with pytest.raises(LockError) as raised:
        a_lock().check(recipe, "arm64", "packages.lock")
    for words in (
        "for bookworm, the recipe for trixie",
        "for amd64, this machine builds arm64",
        "asks as well for slurmd",
        "no longer asks for munge",
        "Make the lock anew",
    ):
        assert words in str(raised.value)


def test_a_lock_names_no_place_to_download_from() -> None:
    assert "/" not in render_lock(a_lock())

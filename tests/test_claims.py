"""The pages of infrastructures claim what the tests run, and no more."""

from __future__ import annotations

import pytest

from tests.claims import HEADING, PAGES, ROOT, Claim, claims, page_with
from tidepool.cluster.spec import CONFINING
from tidepool.infrastructures.registry import BUILT_IN

FOUND = claims()


@pytest.mark.parametrize("infrastructure", BUILT_IN)
def test_each_page_ends_in_the_table_of_its_tests(infrastructure: str) -> None:
    page = (PAGES / f"{infrastructure}.md").read_text()
    assert any(each.infrastructure == infrastructure for each in FOUND)
    assert page_with(page, infrastructure, FOUND) == page, "python -m tests.claims writes the tables"


def test_jobs_are_confined_by_default_where_one_was_seen_to_be_killed_alone() -> None:
    """The set stands in the vocabulary, which imports no infrastructure."""
    files = {(each.infrastructure, each.test.partition("::")[0]) for each in FOUND}
    assert {
        infrastructure
        for infrastructure, file in files
        if "JobState.OUT_OF_MEMORY" in (ROOT / file).read_text()
    } == CONFINING


def test_a_table_is_written_anew_and_what_stands_before_it_stays() -> None:
    claim = Claim("local", "it runs", "tests/test_it.py::test_it_runs", ("Slurm 22.05",))
    page = page_with("# A page\nof words\n", "local", [claim])
    assert page.endswith("| it runs | `tests/test_it.py::test_it_runs` | Slurm 22.05 |\n")
    assert page_with(page, "local", [claim]) == page
    assert page.partition(HEADING)[0] == "# A page\nof words\n\n"
    assert "it runs" not in page_with(page, "aws", [claim])

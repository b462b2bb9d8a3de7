"""Workloads by their kinds: the same seed gives the same jobs, and wrong parameters are told all at once."""

from __future__ import annotations

import pytest

from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import KINDS, make_workload


def test_all_mistakes_are_told_with_the_workload_and_what_is_allowed() -> None:
    with pytest.raises(LabError) as raised:
        make_workload("night", "bag", {"number": 0, "second": 3, "program": "burn"}, seed=1)
    text = str(raised.value)
    assert "3 mistakes in the workload night (bag)" in text
    assert "night.number = 0: it should be greater than or equal to 1. How many jobs" in text
    assert "night.second = 3: no such key; is it seconds?" in text.replace("did you mean", "is it")
    assert "'sleep' or 'compute'" in text


def test_a_kind_that_there_is_not_is_told_with_the_nearest() -> None:
    with pytest.raises(LabError, match=r"workload night: there is no kind 'bug'.*bag"):
        make_workload("night", "bug", {}, seed=1)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"swf"}))
def test_parameters_of_a_workload_make_it_again(kind: str) -> None:
    made = make_workload("some", kind, {}, seed=11)
    assert make_workload("some", kind, made.parameters, seed=11) == made
    assert made.kind == kind
    assert made.jobs
    assert len({job.name for job in made.jobs}) == len(made.jobs)

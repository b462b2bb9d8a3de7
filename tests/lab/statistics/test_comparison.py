"""Two schedulers, or two campaigns, that were made up: a tenth slower is found, and the same again is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.outcomes import outcome
from tidepool.lab.campaign import Campaign
from tidepool.lab.errors import LabError
from tidepool.lab.generators.registry import make_workload
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.comparison import (
    ALL_WORKLOADS,
    changed_workloads,
    compare,
    compare_all_schedulers,
    compare_schedulers,
)

KINDS: dict[str, dict[str, object]] = {
    "bag": {"number": 30},
    "gang": {"number": 8, "variation": 0.3},
    "burst": {"bursts": 2, "size": 15},
}


def measured(
    folder: Path,
    waits_s: dict[str, float],
    repeats: int = 6,
    seed: int = 1,
    noise: float = 0.1,
    kinds: dict[str, dict[str, object]] = KINDS,
    until: int | None = None,
) -> Results:
    """Return results in which jobs of each scheduler wait about so long, each with noise of its own."""
    campaign = Campaign(folder.name, tuple(waits_s), tuple(kinds), repeats, seed)
    results = Results.create(folder, campaign, {}, cpus=8)
    for trial in list(campaign.trials())[:until]:
        workload = make_workload(
            trial.workload,
            trial.workload,
            kinds[trial.workload],
            campaign.seed_of(trial.workload, trial.repeat),
        )
        results.write(outcome(trial, workload, waits_s[trial.scheduler], noise), workload)
    return results


def test_a_scheduler_that_is_a_tenth_slower_is_found(tmp_path: Path) -> None:
    results = measured(tmp_path / "r", {"one": 0.5, "two": 0.55})
    found = {(each.workload, each.measure): each for each in compare_schedulers(results, "one", "two")}
    bag = found["bag", "submit_to_start_seconds"]
    assert bag.verdict == "higher"
    assert bag.is_better is False
    assert bag.is_ratio
    assert bag.low is not None
    assert bag.high is not None
    assert bag.low < 0.1 < bag.high
    assert bag.p_value <= 0.05
    assert found[ALL_WORKLOADS, "submit_to_start_seconds"].verdict == "higher"
    # And nothing else is said of what does not depend on it.
    assert found["bag", "unexpected_jobs"].verdict == "no difference shown"
    assert found["bag", "unexpected_jobs"].p_value == 1.0
    assert found["bag", "scheduler_memory_bytes"].verdict == "no difference shown"


def test_five_repeats_are_enough_for_what_was_asked_for_before(tmp_path: Path) -> None:
    results = measured(tmp_path / "r", {"one": 0.5, "two": 0.55}, repeats=5)
    found = compare_schedulers(results, "two", "one", measures=["submit_to_start_seconds"])
    assert {each.measure for each in found} == {"submit_to_start_seconds"}
    together = next(each for each in found if each.workload == ALL_WORKLOADS)
    assert together.verdict == "lower"
    assert together.is_better is True
    assert together.change == pytest.approx(-0.09, abs=0.02)


@pytest.mark.slow
def test_the_same_scheduler_twice_differs_in_no_more_campaigns_than_is_said(tmp_path: Path) -> None:
    campaigns = 20
    wrong = sum(
        any(
            each.verdict != "no difference shown"
            for each in compare_schedulers(
                measured(tmp_path / f"{seed}", {"one": 0.5, "again": 0.5}, seed=seed, repeats=5),
                "one",
                "again",
            )
        )
        for seed in range(campaigns)
    )
    # More than 4 of 20 have a probability of 0.3 %, where each has one of 5 %.
    assert wrong <= 4


@pytest.mark.slow
def test_a_tenth_is_found_in_nearly_all_campaigns_of_ten_repeats(tmp_path: Path) -> None:
    campaigns = 8
    found = 0
    for seed in range(campaigns):
        # Single waits vary by a fifth of themselves: medians of 30 by 5 %, of 8 by 9 %.
        results = measured(tmp_path / f"{seed}", {"one": 0.5, "two": 0.55}, seed=seed, repeats=10, noise=0.2)
        shown = compare_schedulers(
            results, "one", "two", measures=["submit_to_start_seconds", "bounded_slowdown"]
        )
        found += any(each.verdict == "higher" and each.workload == ALL_WORKLOADS for each in shown)
    assert found >= 7


def test_every_two_schedulers_are_compared_with_one_correction(tmp_path: Path) -> None:
    results = measured(tmp_path / "r", {"one": 0.5, "two": 0.55, "three": 0.5}, noise=0.05)
    found = compare_all_schedulers(results)
    pairs = dict.fromkeys((each.left, each.right) for each in found)
    assert list(pairs) == [("one", "two"), ("one", "three"), ("two", "three")]
    waits = {
        (each.left, each.right): each
        for each in found
        if (each.workload, each.measure) == ("bag", "submit_to_start_seconds")
    }
    assert waits["one", "two"].verdict == "higher"
    assert waits["one", "three"].verdict == "no difference shown"
    assert waits["two", "three"].verdict == "lower"
    alone = next(
        each
        for each in compare_schedulers(results, "one", "two")
        if (each.workload, each.measure) == ("bag", "submit_to_start_seconds")
    )
    assert alone.p_value <= waits["one", "two"].p_value


def test_campaigns_are_compared_scheduler_by_scheduler(tmp_path: Path) -> None:
    before = measured(tmp_path / "before", {"one": 0.5, "two": 0.5}, noise=0.05)
    after = measured(tmp_path / "after", {"two": 0.6, "new": 0.5}, noise=0.05)
    found = compare(before, after)
    assert {(each.left, each.right) for each in found} == {("before: two", "after: two")}
    waits = next(
        each for each in found if each.measure == "submit_to_start_seconds" and each.workload == "bag"
    )
    assert waits.verdict == "higher"


def test_workloads_that_changed_are_not_compared(tmp_path: Path) -> None:
    before = measured(tmp_path / "before", {"one": 0.5})
    after = measured(tmp_path / "after", {"one": 0.5}, kinds=KINDS | {"bag": {"number": 31}})
    assert changed_workloads(before, after) == ("bag",)
    assert {each.workload for each in compare(before, after)} == {"gang", "burst", ALL_WORKLOADS}
    other = measured(tmp_path / "other", {"two": 0.5})
    with pytest.raises(LabError, match="no scheduler with a workload of the same parameters in common"):
        compare(before, other)


def test_campaigns_that_are_not_whole_are_not_compared(tmp_path: Path) -> None:
    results = measured(tmp_path / "r", {"one": 0.5, "two": 0.55}, repeats=2, until=10)
    with pytest.raises(
        LabError, match="is not whole: 4 trials are missing; go on with it by `tidepool lab run`"
    ):
        compare_schedulers(results, "one", "two")
    with pytest.raises(LabError, match="has no scheduler three; it has one, two"):
        compare_schedulers(results, "one", "three")

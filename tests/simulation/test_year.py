"""A year of simulated time, in several stories, with every kind of accident.

TIDEPOOL_SEED=7 tells one story alone, TIDEPOOL_YEARS=10 as many years.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.accidents import Accidents
from tests.simulation.laws import Broken
from tests.simulation.story import Story

pytestmark = pytest.mark.slow

YEARS = float(os.environ.get("TIDEPOOL_YEARS", "1"))
DAYS = 41.0
SEEDS = [int(seed)] if (seed := os.environ.get("TIDEPOOL_SEED")) else range(1, 1 + round(9 * YEARS))


@pytest.mark.parametrize("seed", SEEDS)
def test_some_weeks_in_which_everything_goes_wrong(seed: int) -> None:
    story = Story(seed, DAYS)
    try:
        story.tell()
    except Broken as broken:
        again = f"TIDEPOOL_SEED={seed} .venv/bin/python -m pytest tests/scaling/simulation/test_year.py"
        raise AssertionError(f"story {seed}: {broken}\ntell it again: {again}") from None
    # What was told is no story of nothing.
    assert len(story.laws.ended) > 100
    assert story.laws.removed > 20
    assert sum(story.accidents.happened.values()) > 50


def test_the_same_seed_tells_the_same_story() -> None:
    ends = []
    for _ in range(2):
        story = Story(3, 2, accidents_a_day=20)
        story.tell()
        ends.append(
            (story.cluster.clock.true, story.cluster.turns, story.laws.ended, story.accidents.happened)
        )
    assert ends[0] == ends[1]


def test_every_kind_of_accident_happens_in_the_year() -> None:
    """What the stories of a year are made of; each kind is drawn alike."""
    kinds = [name for name in dir(Accidents) if name.endswith("_accident")]
    assert len(kinds) >= 25
    drawn = Counter[str]()
    for seed in range(1, 10):
        story = Story(seed, 1, accidents_a_day=82)
        story.cluster.run(86400)
        drawn += Counter(story.accidents.happened)
    assert {kind.removesuffix("_accident").strip("_") for kind in kinds} == set(drawn)

"""`median_interval`: a median with a bootstrap confidence interval. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

LEVEL: Final = 0.95
"""Confidence of all intervals."""
_RESAMPLES: Final = 4999
_SEED: Final = 19


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and where it lies with a confidence of `LEVEL`.

    Attributes:
        low: None where there is one value alone, which has no interval; ``high`` likewise.
        number: of values.
    """

    median: float
    low: float | None
    high: float | None
    number: int


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of values, at least one, with its percentile bootstrap interval (Efron and Tibshirani 1993, 13.3).

    The same values give the same interval. With five values it reaches about from the least to the greatest.
    """
    median = float(np.median(values))
    if len(values) < 2:
        return Interval(median, None, None, len(values))
    found = stats.bootstrap(
        (np.asarray(values, dtype=float),),
        np.median,
        n_resamples=_RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    # Between two values alike numpy may come to one beside them, by the last bit.
    low = min(max(float(found.confidence_interval.low), min(values)), median)
    high = max(min(float(found.confidence_interval.high), max(values)), median)
    return Interval(median, low, high, len(values))

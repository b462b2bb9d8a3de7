"""`figures_of`: the figures of all trials of a campaign that count."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidepool.lab.campaign import Trial
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.measures import measures_of

Figures = Mapping[Trial, Mapping[str, float]]
"""Figures by their names, of each trial."""


def figures_of(results: Results) -> Figures:
    """Return the figures of each trial that has an outcome, in the campaign's order, without warm-ups."""
    return MappingProxyType(
        {
            Trial(each.scheduler, each.workload, each.repeat): measures_of(
                each, results.workload(each.workload, each.repeat), results.cpus
            )
            for each in results.outcomes()
        }
    )

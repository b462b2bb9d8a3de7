"""Failures of Nomad are told from each other by their words; these are those of its API and of its plugin."""

from __future__ import annotations

import pytest

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.nomad.api import kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('Task Group "slurmd" (failed to place 1 allocation): No nodes were eligible', InsufficientCapacity),
        ('Dimension "network: reserved port collision slurmctld=6817" exhausted', InsufficientCapacity),
        ("error applying jobspec: Unexpected response code: 403 (Permission denied)", Permanent),
        ('job "dev-munge" is in nonexistent namespace "physics"', Permanent),
        ("Unexpected response code: 500 (No cluster leader)", Transient),
        ("dial tcp 10.0.0.1:4646: connect: connection refused", Transient),
        ("deployment 'd' terminated with status 'failed': 'Failed due to unhealthy allocations'", Transient),
        ("words that nobody has seen", Transient),
    ],
)
def test_the_plugins_words_are_of_a_kind(text: str, kind: type[Exception]) -> None:
    assert kind_of(text) is kind

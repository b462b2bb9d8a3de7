"""Slurm's reasons, and the page that tells people of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidepool.scaling.decide.demand.pending import RULINGS, ruling

PAGE = Path(__file__).parents[4] / "docs" / "scaling.md"


@pytest.mark.parametrize(
    ("reason", "helps", "blames_nodes"),
    [
        ("", True, False),
        ("None", True, False),
        ("Priority", True, False),
        ("Resources", True, True),
        ("ReqNodeNotAvail, May be reserved for other job", True, True),
        ("ReqNodeNotAvail, UnavailableNodes:cpu-1", True, True),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            True,
            True,
        ),
        ("ReqNodeNotAvail, Reserved for maintenance", False, False),
        ("PartitionConfig", True, True),
        ("JobHeldAdmin", False, False),
        ("Dependency", False, False),
        ("DependencyNeverSatisfied", False, False),
        ("QOSMaxJobsPerUserLimit", False, False),
        ("AssocGrpCpuLimit", False, False),
        ("MaxGRESPerAccount", False, False),
        ("ReservationDeleted", False, False),
        ("SomethingOfANewerSlurm", False, False),
    ],
)
def test_whether_nodes_would_help(reason: str, helps: bool, blames_nodes: bool) -> None:
    found = ruling(reason)
    assert (found.helps, found.blames_nodes) == (helps, blames_nodes)
    assert found.helps or found.words.endswith(f"({reason})")


def test_the_longest_that_fits_rules() -> None:
    assert "never starts" in ruling("DependencyNeverSatisfied").words
    assert "does not know" in ruling("SomethingOfANewerSlurm").words


def test_the_page_has_every_reason_and_what_is_done() -> None:
    _, _, section = PAGE.read_text().partition("## What a job asks for")
    section, _, _ = section.partition("\n## ")
    told = dict(re.findall(r"^\| `([^`]+)`(?: \.\.\.)? \| (.+) \|$", section, re.MULTILINE))
    assert told.keys() == {reason for reason in RULINGS if reason}
    for reason, what in told.items():
        rules = RULINGS[reason]
        assert what.startswith("Nodes are made" if rules.helps else "None: ")
        assert rules.words in what

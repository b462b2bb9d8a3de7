"""The page tells the truth: its examples are read, and its tables have every option."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidepool.cluster.part import Part
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures.ssh.options import Offering, SiteOptions
from tidepool.infrastructures.ssh.reading import Options, read_options

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/infrastructures/ssh.md").read_text()


def options_of(stack: str, inventory: str = "") -> Options:
    """What is read in the text of a stack's file."""
    described: dict[str, Any] = yaml.safe_load(stack)["config"]["cluster:spec"]
    return read_options(read_spec(described), lambda _: inventory)


def test_the_whole_example_is_a_cluster_with_its_inventory() -> None:
    stack, inventory = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:2]
    options = options_of(stack, inventory)
    assert options.own == ("head1", "head2", "head3", "head4")
    assert options.fleets == {"cpu": ("node01", "node02", "node03")}


@pytest.mark.parametrize(
    ("part", "heading"), [(SiteOptions, "| of the place |"), (Offering, "| of a fleet |")]
)
def test_every_option_is_in_its_table_and_no_other(part: type[Part], heading: str) -> None:
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    named = {
        name for line in table.splitlines()[2:] for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])
    }
    assert named == set(part.model_fields)

"""The page tells the truth: its examples are read, and its tables have every option."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidepool.cluster.part import Part
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures.kubernetes.options import Offering, SiteOptions
from tidepool.infrastructures.kubernetes.reading import read_options

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/infrastructures/kubernetes.md").read_text()


def examples() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def whole() -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load(examples()[0])["config"]["cluster:spec"]
    return spec


def test_the_whole_example_is_a_cluster() -> None:
    options = read_options(read_spec(whole()))
    assert options.fleets_of_pods == ("cpu", "gpu")


def test_the_example_of_a_controller_elsewhere_is_one() -> None:
    spec = {**whole(), "controller": {}, **yaml.safe_load(examples()[1])}
    assert read_options(read_spec(spec)).path == "infrastructures.kubernetes"


def test_the_example_of_a_fleet_of_machines_is_one() -> None:
    api, fleet = examples()[2].split("      - name: metal", 1)
    spec = whole()
    spec["controller"]["infrastructure"]["options"] |= yaml.safe_load(api)
    spec["fleets"] += yaml.safe_load(f"      - name: metal{fleet}")
    assert read_options(read_spec(spec)).has_machines


@pytest.mark.parametrize(
    ("part", "heading"), [(SiteOptions, "| of the place |"), (Offering, "| of an offering |")]
)
def test_every_option_is_in_its_table_and_no_other(part: type[Part], heading: str) -> None:
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    named = {
        name for line in table.splitlines()[2:] for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])
    }
    assert named == {str(field.validation_alias or name) for name, field in part.model_fields.items()}

"""The page tells the truth: its example is read, and its tables have every option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.infrastructures.nomad.fake import FakeNomad, hosts, served
from tidepool.cluster.part import Part
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.nomad.options import Container, Offering, RollOut, SiteOptions
from tidepool.infrastructures.nomad.preflight import LEAST, rights_missing
from tidepool.infrastructures.nomad.reading import read_options

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/infrastructures/nomad.md").read_text()


def table(heading: str) -> set[str]:
    """The names in the first column of a table."""
    lines = PAGE.partition(heading)[2].partition("\n\n")[0].splitlines()[2:]
    return {name for line in lines for name in re.findall(r"`([a-z_.]+)`", line.split("|")[1])}


def options(part: type[Part]) -> set[str]:
    return {str(field.validation_alias or name) for name, field in part.model_fields.items()}


def test_the_whole_example_is_a_cluster() -> None:
    example = PAGE.partition("```yaml\n")[2].partition("```")[0]
    found = read_options(read_spec(yaml.safe_load(example)["config"]["cluster:spec"]))
    assert sorted(found.place.hosts) == ["ctl", "ctlbackup", "login-1"]
    assert [container.name for container in found.place.containers] == ["slurm-exporter", "node-agent"]


def test_every_option_is_in_its_table_and_no_other() -> None:
    assert table("| of the place |") == options(SiteOptions)
    rolled = {f"roll_out.{name}" for name in options(RollOut)}
    assert table("| of an offering |") == options(Offering) - {"roll_out"} | rolled


def test_what_a_container_has_is_said_where_containers_are() -> None:
    (row,) = (line for line in PAGE.splitlines() if line.startswith("| `containers` |"))
    assert options(Container) <= set(re.findall(r"`([a-z_]+)`", row))


def test_the_least_version_is_the_one_that_is_asked_for() -> None:
    assert f"Nomad {'.'.join(map(str, LEAST))} or later" in PAGE


@pytest.mark.parametrize("denied", ["jobs", "variables", "node:write"])
def test_the_policy_of_the_page_lets_all_that_a_preview_asks_for(denied: str) -> None:
    nomad = FakeNomad(*hosts(1), namespaces=("physics",))
    nomad.denied.add(denied)
    with served(nomad) as address:
        (rule,) = rights_missing(Api(address, answer_s=5), "physics")
    policy = PAGE.partition("```hcl")[2].partition("```")[0]
    asked = re.findall(r'"([^"]+)"', rule)
    assert asked
    assert [each for each in asked if f'"{each}"' not in policy] == []

"""`tidepool replay`: a table, JSON and a chart of what would have been, and mistakes that are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.standins import Person
from tests.simulation.replay.test_swf import HEAD, line
from tests.simulation.scene import SPEC


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace with a broken line, a spec, and another policy."""
    lines = [line(number=place, submit=place * 5, run=60, limit=120, asked=2) for place in range(8)]
    (tmp_path / "trace.swf").write_text("\n".join([*HEAD, *lines, "1 2 3"]))
    (tmp_path / "queue.yaml").write_text(yaml.safe_dump(dict(SPEC)))
    backlog = {"scaling": {"policies": [{"name": "backlog", "minutes": 60}]}}
    (tmp_path / "backlog.yaml").write_text(yaml.safe_dump(backlog))
    return tmp_path


def test_two_policies_side_by_side_with_a_chart(somebody: Person, folder: Path) -> None:
    words = ["--spec", f"{folder}/queue.yaml", "--compare", f"{folder}/backlog.yaml"]
    said = somebody.runs("replay", f"{folder}/trace.swf", *words, "--chart", f"{folder}/two.svg")
    assert said.exit_code == 0, said.output
    assert "queue   backlog" in said.stdout
    assert "jobs that ran" in said.stdout
    assert "1 broken lines are left out:\n  line 12: it has 3 fields in place of 18" in said.stderr
    assert (folder / "two.svg").read_text().count('id="axes_') == 4


def test_json_has_every_figure(somebody: Person, folder: Path) -> None:
    said = somebody.runs("replay", f"{folder}/trace.swf", "--spec", f"{folder}/queue.yaml", "--json")
    document = json.loads(said.stdout)
    assert (document["jobs"], document["notRun"], len(document["broken"])) == (8, 0, 1)
    outcome = document["outcomes"]["queue"]
    assert outcome["jobs"] == 8
    assert {
        "waitMeanS",
        "waitP95S",
        "boundedSlowdown",
        "costUsd",
        "utilisation",
        "machinesStarted",
    } <= outcome.keys()


def test_the_spec_is_the_stacks_where_none_is_named(somebody: Person, folder: Path) -> None:
    said = somebody.runs("replay", f"{folder}/trace.swf", "--compare", f"{folder}/backlog.yaml", "--json")
    assert said.exit_code == 0, said.output
    assert set(json.loads(said.stdout)["outcomes"]) == {"dev", "backlog"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.swf", "--spec", "queue.yaml"], "No such file"),
        (["trace.swf", "--spec", "nowhere.yaml"], "nowhere.yaml: No such file"),
        (["trace.swf", "--spec", "trace.swf"], "is no YAML"),
        (["trace.swf", "--spec", "wrong.yaml"], "max_nodez"),
        (["queue.yaml", "--spec", "queue.yaml"], "no job in it"),
        (["trace.swf", "--spec", "queue.yaml", "--compare", "unknown.yaml"], "no-such-policy"),
        (["trace.swf", "--spec", "queue.yaml", "--chart", "a.pdf"], "suffix"),
    ],
)
def test_mistakes_are_told(somebody: Person, folder: Path, words: list[str], told: str) -> None:
    wrong = {**SPEC, "fleets": [{**SPEC["fleets"][0], "max_nodez": 3}]}
    (folder / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    (folder / "unknown.yaml").write_text("scaling: {policies: [{name: no-such-policy}]}")
    said = somebody.runs("replay", *(str(folder / word) if "." in word else word for word in words))
    assert said.exit_code == 2
    assert told in said.stderr
    assert "Traceback" not in said.output

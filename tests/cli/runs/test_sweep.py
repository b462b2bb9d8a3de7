"""`tidepool sweep`: bad input makes nothing, and what came of one is shown again without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.standins import Person
from tests.runs.sweeps.records import ended, sweep
from tests.runs.workloads import job, mapping
from tidepool.cli import errors
from tidepool.runs.record import to_json
from tidepool.runs.results.folder import FolderStore
from tidepool.runs.results.sweeps import StoredSweeps


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--vary", "fleets.cpu.max_nodes"], "is no PATH=VALUE,VALUE"),
        (["--vary", "fleets.cpu.max_nodes="], "is no PATH=VALUE,VALUE"),
        (["--vary", "fleets.cpu.max_nodes=[3"], "are no YAML"),
        (["--vary", "network=10.1.0.0/16,10.2.0.0/16"], "each run has a network of its own"),
        (["--vary", "fleets.cpu.max_nodes=3,3"], "has a value twice"),
        (["--vary", "fleets.cpu.max_nodes=3", "--vary", "fleets.cpu.max_nodes=4"], "is said twice"),
        (["--vary", "fleets.cpu.max_nodes=3", "--set", "network=10.1.0.0/16"], "each run has a network of its own"),
        (["--vary", "fleets.cpu.max_nodes=0,3", "--vary", "fleets.gpu.shape=1"], "there is no gpu"),
        ([], "name a stack, a workload's file, and --vary"),
    ],
)  # fmt: skip
def test_bad_input_is_told_and_nothing_is_made(
    somebody: Person, results: Path, words: list[str], told: str
) -> None:
    (somebody.folder / "w.yaml").write_text(yaml.safe_dump(mapping(job())))
    said = somebody.runs("sweep", "dev", "w.yaml", "--results", results.as_uri(), *words)
    assert said.exit_code == errors.USAGE, said.output
    assert told in said.output
    assert not [each for each in results.iterdir() if each.name != ".parts"]
    assert [each.name for each in somebody.folder.glob("Pulumi.*.yaml")] == ["Pulumi.dev.yaml"]


def test_what_came_of_one_is_shown_again_without_a_cluster(
    somebody: Person, results: Path, tmp_path: Path
) -> None:
    store, swept = FolderStore(results), sweep(repeat=1)
    StoredSweeps(store).write(swept)
    for run in (ended(swept, "r0-0", 100), ended(swept, "r0-1", 9, "failed")):
        store.write(f"{run.id}/run.json", to_json(run).encode())
    words = ["sweep", "--show", "s1", "--results", results.as_uri()]
    said = somebody.runs(*words, "--chart", str(tmp_path / "chart.png"))
    assert said.exit_code == errors.FAILED, said.output
    assert "1 of 1" in said.output
    assert "r0-1 (cpus=4) failed: of 1 jobs 1 failed: first" in said.output
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(somebody.runs(*words, "--json").stdout)
    assert [(each["values"], each["succeeded"]) for each in told["points"]] == [
        ({"fleets.cpu.shape.cpus": 2}, 1),
        ({"fleets.cpu.shape.cpus": 4}, 0),
    ]
    assert "is not there; there are s1" in somebody.runs("sweep", "--show", "s2", *words[3:]).output

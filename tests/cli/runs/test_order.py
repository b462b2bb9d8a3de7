"""Runs are ordered when all is well, each with a network of its own; all mistakes are told at once, and nothing is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.cli.standins import Person
from tests.runs.workloads import job, mapping
from tidepool.cli.errors import Failure
from tidepool.cli.options import Choice
from tidepool.cli.runs.order import check, order
from tidepool.cluster.spec_changes import Change
from tidepool.cluster.spec_reading import read_spec
from tidepool.runs.journal import Journal


@pytest.fixture
def results(tmp_path: Path) -> str:
    (tmp_path / "results").mkdir()
    return (tmp_path / "results").as_uri()


def written(somebody: Person, **more: object) -> Path:
    (somebody.folder / "w.yaml").write_text(yaml.safe_dump(mapping(job(), **more)))
    return Path("w.yaml")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path / "journal.sqlite", power_safe=False)) as it:
        yield it


def test_each_run_has_a_stack_and_a_network_of_its_own(
    somebody: Person, results: str, journal: Journal
) -> None:
    file, choice = written(somebody), Choice(somebody.context)
    changes = [[], [Change("fleets.cpu.max_nodes", 3)]]
    request, copies = check(choice, journal, "dev", changes, file, results, "1:00:00")
    assert request.keep_on_failure_s == 3600
    made = [order(journal, request, copy, "ada") for copy in copies]
    networks = set()
    for most, (stack, run) in zip((4, 3), made, strict=True):
        spec = read_spec(yaml.safe_load(stack.file.read_text())["config"]["cluster:spec"])
        assert spec == read_spec(run.order.spec)
        assert (spec.name, spec.fleets[0].max_nodes) == (run.id, most)
        networks.add(spec.network)
        # It is not free for the next one, though nothing of it is up and its file may be elsewhere.
        stack.file.unlink()
    assert len(networks) == 2
    assert {run.id for run in journal.runs()} == {run.id for _, run in made}


def test_all_mistakes_are_told_at_once_and_nothing_is_made(somebody: Person, journal: Journal) -> None:
    file = written(somebody, user="nobody")
    with pytest.raises(Failure) as told:
        check(
            Choice(somebody.context),
            journal,
            "dev",
            [
                [Change("fleets.cpu.max_nodes", 3)],
                [Change("fleets.gpu.max_nodes", 3)],
                [Change("network", "x")],
            ],
            file,
            "file:///nowhere/at/all",
            "soon",
        )
    for part in (
        "with fleets.cpu.max_nodes=3: one mistake in the workload:\n  user = 'nobody'",
        "fleets.gpu.max_nodes = 3: there is no gpu",
        "network = 'x'",
        "--results: ",
        "--keep-on-failure = 'soon'",
    ):
        assert part in told.value.what
    assert [each.name for each in somebody.folder.glob("Pulumi.*.yaml")] == ["Pulumi.dev.yaml"]

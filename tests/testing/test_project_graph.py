"""`tidepool.testing`, as tests of other projects have it."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest

from tidepool.testing import DIGEST, connection, project_graph, register

ROOT = Path(__file__).parents[2]
MACHINE = "tidepool:local:Machine"


def test_the_graph_of_a_project_is_what_its_stack_is_brought_up_to() -> None:
    graph = project_graph(ROOT, "dev", last_outputs={"fleets": {"cpu": "cpu-[1-2]"}})
    assert sorted(graph.of_type(MACHINE)) == ["cpu-1", "cpu-2", "ctl", "dbd", "login-1"]
    assert graph[f"{MACHINE} cpu-2"].inputs["image"] == DIGEST
    assert graph.exports["fleets"] == {"cpu": "cpu-[1-2]", "large": ""}
    assert graph.exports["controller"] == connection("ctl")
    assert graph.exports["spec"]["name"] == "dev"
    assert not [each for each in graph.resources if each.startswith("tidepool:kubernetes")]


def test_a_first_preview_knows_what_needs_no_provider() -> None:
    graph = project_graph(ROOT, "dev", preview=True)
    assert graph.exports["fleets"] == {"cpu": "", "large": ""}


def test_mistakes_of_the_configuration_are_the_programs(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: cluster\nruntime: python\n")
    (tmp_path / "Pulumi.one.yaml").write_text("config: {cluster:spec: {name: one}}\n")
    (tmp_path / "__main__.py").write_text((ROOT / "__main__.py").read_text())
    with pytest.raises(pulumi.RunError, match=r"Pulumi\.one\.yaml: .* mistakes"):
        project_graph(tmp_path, "one")
    with pytest.raises(FileNotFoundError):
        project_graph(tmp_path, "two")


def test_a_resource_that_is_not_there_is_told_with_those_that_are() -> None:
    graph = register(lambda: pulumi.ComponentResource("a:b:C", "one"))
    with pytest.raises(KeyError, match=r"no a:b:C two was registered; of its type there are: a:b:C one"):
        graph["a:b:C two"]

"""Project files: what is read, and what is refused with all mistakes at once."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.engine.project import (
    ConfigDeclaration,
    ConfigType,
    PluginPath,
    ProjectError,
    ProjectNotFoundError,
    find_project,
    load_project,
    parse_project,
    require_python,
)

FULL = """\
name: shop
runtime:
  name: python
  options: {virtualenv: venv}
main: src
description: A shop
backend: {url: "file:///state"}
options: {refresh: always}
stackConfigDir: stacks
plugins:
  providers:
    - {name: thing, path: ../provider, version: 1.2.3}
config:
  size: small
  on: true
  names: {type: array, items: {type: string}, default: [a]}
  hidden: {type: string, secret: true}
  aws:region: eu
  pulumi:tags: {value: {team: a}}
unknown: is kept out
"""


def test_everything(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "p"
    folder.mkdir()
    path = folder / "Pulumi.yaml"
    path.write_text(FULL)
    project = find_project(folder)
    assert (project.name, project.runtime, dict(project.runtime_options)) == (
        "shop",
        "python",
        {"virtualenv": "venv"},
    )
    assert project.program == folder / "src"
    assert project.backend_url == "file:///state"
    assert project.refresh_always
    assert project.stack_file("dev") == folder / "stacks" / "Pulumi.dev.yaml"
    assert project.providers == (PluginPath("thing", tmp_path.resolve() / "provider", "1.2.3"),)
    assert project.tags == {"team": "a"}
    assert project.config == {
        "size": ConfigDeclaration(default="small"),
        "on": ConfigDeclaration(default=True),
        "names": ConfigDeclaration(ConfigType("array", ConfigType("string")), default=["a"]),
        "hidden": ConfigDeclaration(ConfigType("string"), secret=True),
        "aws:region": ConfigDeclaration(value="eu"),
    }


def test_what_the_automation_api_writes(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"main: {tmp_path}\nname: inline\nruntime: python\n")
    project = find_project(tmp_path)
    require_python(project)
    assert project.program == tmp_path


def test_nearest_file_above_is_taken(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "Pulumi.json").write_text('{"name": "outer", "runtime": "python"}')
    assert find_project(below).name == "outer"
    (tmp_path / "a" / "Pulumi.yml").write_text("name: inner\nruntime: python\n")
    assert find_project(below).name == "inner"


def test_none(tmp_path: Path) -> None:
    with pytest.raises(ProjectNotFoundError, match=r"no Pulumi\.yaml project file found"):
        find_project(tmp_path)


def test_other_languages_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.yaml"
    path.write_text("name: shop\nruntime: nodejs\n")
    with pytest.raises(ProjectError, match="the runtime 'nodejs' is not supported by the embedded engine"):
        require_python(load_project(path))


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.yaml"
    path.write_text(
        "name: shop\nruntime: [x]\nmain: 3\nbackend: {ulr: x}\nplugins: {providers: [{name: a}]}\n"
        "config: {a: {type: strng}, b: 1.5}\n"
    )
    with pytest.raises(ProjectError) as caught:
        load_project(path)
    text = str(caught.value)
    for part in (
        str(path),
        "#/runtime: expected string or object, but got array",
        "#/main: expected string, but got number",
        "#/backend: additionalProperties 'ulr' not allowed; did you mean 'url'?",
        "#/plugins/providers/0: missing property 'path'",
        "#/config/a/type: value must be one of",
        "#/config/b: expected",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("name", "value", "admitted"),
    [
        ("integer", "12", True),
        ("integer", "-12", True),
        ("integer", "1.5", False),
        ("integer", "", False),
        ("integer", 3.0, True),
        ("integer", True, False),
        ("boolean", "true", True),
        ("boolean", "yes", False),
        ("string", 3, False),
        ("object", {"a": 1}, True),
        ("object", "{}", False),
        ("array", ["a"], True),
        ("array", [1], False),
    ],
)
def test_types(name: Any, value: Any, admitted: bool) -> None:
    declared = ConfigType(name, ConfigType("string") if name == "array" else None)
    assert declared.admits(value) is admitted


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "type", "items", "x"]), inner)
    ),
    max_leaves=6,
)
keys = ["name", "runtime", "main", "config", "backend", "options", "plugins", "stackConfigDir", "description"]


@given(st.dictionaries(st.sampled_from(keys), json_values))
def test_any_document_is_a_project_or_an_error(raw: dict[str, Any]) -> None:
    path = Path("/p/Pulumi.yaml")
    with contextlib.suppress(ProjectError):
        project = parse_project(raw, path)
        assert project.name == raw["name"]
        assert project.file == path

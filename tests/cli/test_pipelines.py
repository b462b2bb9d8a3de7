"""`tidepool new --pipeline`: files that the published schemas take, whose commands are the command's own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
import tree_sitter_groovy
import yaml
from tree_sitter import Language, Node, Parser

from tests.cli.standins import Person
from tidepool.cli import errors
from tidepool.cli.main import cli
from tidepool.cli.options import Choice
from tidepool.cli.pipelines import KINDS, WORKLOAD_FILE, Kind, pipeline_file
from tidepool.cli.runs.order import check
from tidepool.runs.journal import Journal

#: Those of check-jsonschema, which has them from who publishes them.
SCHEMAS = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci"}
#: By section, what Jenkins' declarative syntax has there (its handbook, Pipeline Syntax), as far as ours goes.
SECTIONS = {
    "pipeline": {
        "agent", "environment", "libraries", "options", "parameters", "post", "stages", "tools", "triggers",
    },
    "stages": {"stage"},
    "stage": {"agent", "environment", "options", "post", "steps", "tools", "when"},
    "post": {"always", "changed", "cleanup", "failure", "success", "unstable"},
    "agent": {"label"},
    "options": {"timeout"},
    "parameters": {"string"},
    "steps": {"sh"},
    "always": {"sh", "archiveArtifacts"},
}  # fmt: skip


def written(kind: Kind) -> tuple[str, str]:
    ((name, text),) = pipeline_file(kind, "physics").items()
    return name, text


def scripts(kind: Kind) -> list[str]:
    """The commands of a pipeline, in their order."""
    text = written(kind)[1]
    if kind == "jenkins":
        return re.findall(r"sh '([^']*)'", text)
    document = yaml.safe_load(text)
    if kind == "gitlab":
        job = document["cluster run"]
        return [*job["script"], *job["after_script"]]
    return [step["run"] for step in document["jobs"]["run"]["steps"] if "run" in step]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_published_schema_takes_it(kind: Kind, tmp_path: Path) -> None:
    name, text = written(kind)
    for content, code in (
        (text, 0),
        (text.replace("    steps:", "    stepz:").replace("script:", "scripts:"), 1),
    ):
        file = tmp_path / Path(name).name
        file.write_text(content)
        words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[kind], str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout


def _blocks(node: Node, inside: str) -> Iterator[tuple[str, str]]:
    """Yield each directive and step of a declarative pipeline, with the section that it is in."""
    for child in node.named_children:
        if child.type in ("method_invocation", "juxt_function_call"):
            name = child.child_by_field_name("name")
            assert name is not None
            assert name.text is not None
            called = name.text.decode()
            yield inside, called
            body = child.child_by_field_name("body")
            if body is not None:
                yield from _blocks(body, called)
        elif child.type != "assignment_expression":
            yield from _blocks(child, inside)


def test_the_jenkinsfile_is_groovy_with_sections_where_they_belong() -> None:
    parser = Parser(Language(tree_sitter_groovy.language()))
    name, text = written("jenkins")
    assert name == "Jenkinsfile"
    root = parser.parse(text.encode()).root_node
    assert not root.has_error
    assert parser.parse(text.replace("stages {", "stages").encode()).root_node.has_error
    found = [*_blocks(root, "")]
    assert [called for inside, called in found if not inside] == ["pipeline"]
    for inside, called in found:
        assert not inside or called in SECTIONS[inside], (inside, called)
    there = {called for _, called in found}
    assert {"agent", "stages", "stage", "steps", "sh", "post", "always", "archiveArtifacts"} <= there
    for section in ("pipeline", "stages", "stage"):
        assert any(inside == section for inside, _ in found), section


@pytest.mark.parametrize("kind", KINDS)
def test_commands_are_of_the_shell_and_of_tidepool_and_none_has_a_secret(kind: Kind) -> None:
    install, run, reap = scripts(kind)
    for script in (install, run, reap):
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert "pip install --requirement requirements.txt" in install
    for script, verb in ((run, "run"), (reap, "reap")):
        words = shlex.split(script)
        at = words.index(".venv/bin/tidepool")
        assert words[0] == "sudo"
        assert words[at + 1] == verb
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        parsed = command.make_context(verb, words[at + 2 :]).params
        assert parsed["results"] == "$TIDEPOOL_RESULTS"
    assert shlex.split(run)[-1] == "record"
    text = written(kind)[1]
    assert "record" in text.rpartition("reap")[2], "it is kept as an artefact"


def test_a_project_comes_with_a_pipeline_and_a_workload_that_its_stack_runs(
    somebody: Person, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    said = somebody.runs("-C", str(folder), "new", "physics-lab", "--pipeline", "github")
    assert said.exit_code == 0, said.output
    assert (folder / ".github/workflows/cluster-run.yml").is_file()
    (tmp_path / "results").mkdir()
    choice = Choice(somebody.context, None, str(folder))
    with closing(Journal(tmp_path / "journal.sqlite", power_safe=False)) as journal:
        url = (tmp_path / "results").as_uri()
        request, _ = check(choice, journal, "physics-lab", [[]], folder / WORKLOAD_FILE, url, "0")
    assert request.workload.name == "physics-lab"


def test_a_project_that_is_here_gets_a_pipeline_for_its_stack(somebody: Person) -> None:
    (somebody.folder / WORKLOAD_FILE).write_text("mine\n")
    before = {each.name for each in somebody.folder.iterdir()}
    said = somebody.runs("new", "--pipeline", "gitlab")
    assert said.exit_code == 0, said.output
    assert "tidepool run dev workload.yaml" in (somebody.folder / ".gitlab-ci.yml").read_text()
    assert {each.name for each in somebody.folder.iterdir()} - before == {".gitlab-ci.yml"}
    assert (somebody.folder / WORKLOAD_FILE).read_text() == "mine\n"
    again = somebody.runs("new", "--pipeline", "gitlab")
    assert again.exit_code == errors.USAGE
    assert "has .gitlab-ci.yml already, and nothing was written" in again.output
    assert "name a project, or a --pipeline" in somebody.runs("new").output

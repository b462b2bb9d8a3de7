"""`new`: the files of a project of one's own, with a small cluster on this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from tidepool.cli import show
from tidepool.cli.errors import USAGE, Failure
from tidepool.cli.options import chosen, folder_option
from tidepool.cli.pipelines import KINDS, WORKLOAD_FILE, Kind, pipeline_file, workload_file
from tidepool.runs.project import PROGRAM

_TEST: Final = '''\
"""What `tidepool up` would make, without an engine and without machines: python -m pytest"""

from pathlib import Path

from tidepool.testing import project_graph


def test_the_cluster_has_a_controller_and_its_least_nodes() -> None:
    graph = project_graph(Path(__file__).parent, "{name}")
    assert sorted(graph.of_type("tidepool:local:Machine")) == ["cpu-1", "ctl", "login-1"]
    assert graph["tidepool:local:Machine cpu-1"].inputs["cpus"] == 2
    assert graph.exports["fleets"] == {{"cpu": "cpu-1"}}
'''
_PROJECT: Final = """\
name: {name}
description: One stack is one whole Slurm cluster
runtime:
  name: python
{options}"""
_STACK: Final = """\
# The cluster {name}: small, and on this machine. All keys are in docs/cluster-spec.md of Tidepool.
config:
  cluster:spec:
    name: {cluster}
    network: 10.80.0.0/16
    controller:
      shape: {{cpus: 1, memory: 512MiB}}
    fleets:
      - name: cpu
        subnet: 10.80.1.0/24
        min_nodes: 1
        max_nodes: 8
        idle_timeout_s: 60
        shape: {{cpus: 2, memory: 512MiB}}
    partitions: [{{name: main}}]
"""


@click.command("new")
@click.argument("name", required=False)
@click.option(
    "--pipeline",
    type=click.Choice(KINDS),
    help="A pipeline too, which runs a workload on a cluster of its own. Without NAME, it and no more: for the project's stack.",
)
@folder_option("Where; this folder.")
@click.pass_context
def new_verb(context: click.Context, name: str | None, pipeline: Kind | None, folder: str | None) -> int:
    """Write a project with a small cluster on this machine: its program, its stack NAME and a test of it.

    Files that are there are never written over.
    """
    where = chosen(context).where(folder)
    files: dict[str, str] = {}
    if name is not None:
        _check_name(name)
        files |= project_files(name, where, Path(sys.prefix))
    if pipeline is not None:
        stack = name or chosen(context).find(None, folder).name
        files |= pipeline_file(pipeline, stack)
        if not (where / WORKLOAD_FILE).exists():
            files |= workload_file(stack)
    if not files:
        raise Failure("name a project, or a --pipeline for the one that is here", code=USAGE)
    _write(where, files)
    if name is not None:
        show.say(
            f"next: edit Pulumi.{name}.yaml, then `sudo tidepool up`, and `python -m pytest` for its test"
        )
    if pipeline is not None:
        show.say(f"next: edit {WORKLOAD_FILE}, and set what the first lines of the pipeline name")
    return 0


def _check_name(name: str) -> None:
    from tidepool.cluster.names import project_name

    try:
        project_name(name)
    except ValueError as error:
        raise Failure(f"a project cannot be called {name}: {error}", code=USAGE) from None


def _write(where: Path, files: Mapping[str, str]) -> None:
    """Write the files, or none of them.

    Raises:
        Failure: one is there already, or cannot be written.
    """
    if there := [file for file in files if (where / file).exists()]:
        raise Failure(
            f"{where} has {', '.join(there)} already, and nothing was written",
            remedy="take an empty folder (tidepool -C DIR new NAME makes it), or move what is there",
            code=USAGE,
        )
    try:
        for file, text in files.items():
            (where / file).parent.mkdir(parents=True, exist_ok=True)
            (where / file).write_text(text)
    except OSError as error:
        raise Failure(f"{where} cannot be written: {error.strerror} ({error.filename})") from error
    show.say(f"wrote {', '.join(files)} to {where}")


def project_files(name: str, folder: Path, environment: Path) -> Mapping[str, str]:
    """Return the texts of a new project's files by their names.

    ``environment`` is the virtual environment that Tidepool runs in: where it is within ``folder``, the project names it.
    """
    options = ""
    if environment.is_relative_to(folder.absolute()):
        options = f"  options:\n    virtualenv: {environment.relative_to(folder.absolute())}\n"
    return {
        "Pulumi.yaml": _PROJECT.format(name=name, options=options),
        f"Pulumi.{name}.yaml": _STACK.format(name=name, cluster=name),
        "__main__.py": PROGRAM,
        "requirements.txt": f"tidepool=={version('tidepool')}\n",
        f"test_{name.replace('-', '_')}.py": _TEST.format(name=name),
        ".gitignore": "/.venv\n__pycache__/\n.pytest_cache/\n",
    }

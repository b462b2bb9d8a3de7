"""`new`: the files of a project of one's own, with a small cluster on this machine."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidepool.cli import show
from tidepool.cli.options import chosen, folder_option

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROGRAM: Final = '''\
"""One stack is one cluster: the spec in Pulumi.<stack>.yaml becomes components, and those the stack's outputs."""

import os

import pulumi

from tidepool.components import Cluster, desired_state

desired = desired_state(pulumi.Config("cluster"), os.environ)
cluster = Cluster(desired.spec.name, desired)
for name, value in cluster.outputs.items():
    pulumi.export(name, value)
'''
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
@click.argument("name")
@folder_option("Where; this folder.")
@click.pass_context
def new_verb(context: click.Context, name: str, folder: str | None) -> int:
    """Write a project with a small cluster on this machine: its program, its stack NAME and a test of it.

    Files that are there are never written over.
    """
    from tidepool.cli.errors import USAGE, Failure
    from tidepool.cluster.names import cluster_name

    where = chosen(context).where(folder)
    try:
        cluster_name(name)
    except ValueError as error:
        raise Failure(f"a project cannot be called {name}: {error}", code=USAGE) from None
    files = project_files(name, where, Path(sys.prefix))
    if there := [file for file in files if (where / file).exists()]:
        raise Failure(
            f"{where} has {', '.join(there)} already, and nothing was written",
            remedy="take an empty folder: tidepool -C DIR new NAME makes it",
            code=USAGE,
        )
    try:
        where.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (where / file).write_text(text)
    except OSError as error:
        raise Failure(f"{where} cannot be written: {error.strerror} ({error.filename})") from error
    show.say(f"wrote {', '.join(files)} to {where}")
    show.say(f"next: edit Pulumi.{name}.yaml, then `sudo tidepool up`, and `python -m pytest` for its test")
    return 0


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
        "__main__.py": _PROGRAM,
        "requirements.txt": f"tidepool=={version('tidepool')}\n",
        f"test_{name.replace('-', '_')}.py": _TEST.format(name=name),
        ".gitignore": "/.venv\n__pycache__/\n.pytest_cache/\n",
    }

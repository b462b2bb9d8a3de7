"""A project for runs whose cluster is described in a program, and not in a stack's file of a project that is there."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Final

from tidepool.cluster.spec import ClusterSpec

#: The program of a project whose stacks are clusters.
PROGRAM: Final = '''\
"""One stack is one cluster: the spec in Pulumi.<stack>.yaml becomes components, and those the stack's outputs."""

import os

import pulumi

from tidepool.components import Cluster, desired_state

desired = desired_state(pulumi.Config("cluster"), os.environ)
cluster = Cluster(desired.spec.name, desired)
for name, value in cluster.outputs.items():
    pulumi.export(name, value)
'''
_PROJECT: Final = """\
name: runs
description: Clusters of runs that programs asked for
runtime:
  name: python
"""


def write_project(data: Path, spec: ClusterSpec) -> tuple[Path, str]:
    """Write the project of this machine's runs below the data folder, where it is not there; returns it, and the stack of ``spec``.

    A spec that is the same has the same stack. Several processes may write it at once.
    """
    folder = data / "runs" / "project"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = spec.model_dump(mode="json", exclude_defaults=True)
    stack = f"{spec.name.replace('_', '-')}-{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:8]}"
    files = {
        "Pulumi.yaml": _PROJECT,
        "__main__.py": PROGRAM,
        f"Pulumi.{stack}.yaml": json.dumps({"config": {"cluster:spec": said}}, indent=1) + "\n",
    }
    for name, text in files.items():
        if not (folder / name).exists():
            _write(folder / name, text)
    return folder, stack


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    descriptor, made = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(made).replace(path)

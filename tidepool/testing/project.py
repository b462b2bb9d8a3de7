"""The graph of a project's own program, for a stack of its."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import yaml
from pulumi.runtime import set_all_config

from tidepool.cluster.frozen import FrozenDict
from tidepool.testing.graph import Graph, Outputs, register
from tidepool.testing.outputs import provider_outputs


def project_graph(
    folder: Path,
    stack: str,
    *,
    outputs: Outputs = provider_outputs,
    preview: bool = False,
    last_outputs: Mapping[str, Any] = FrozenDict(),
) -> Graph:
    """Run a project's ``__main__.py`` against mocks, with the configuration in ``Pulumi.<stack>.yaml``.

    Args:
        folder: the project's, with Pulumi.yaml.
        stack: the stack's name.
        outputs: of each resource beside its inputs.
        preview: outputs that no input of the same name gives are unknown, as in a first preview.
        last_outputs: those of the stack's last `up`; none before the first.

    Raises:
        FileNotFoundError: the folder has no project, or no file for that stack.
        pulumi.RunError: of the program.
    """
    project = str(yaml.safe_load((folder / "Pulumi.yaml").read_text())["name"])
    written = yaml.safe_load((folder / f"Pulumi.{stack}.yaml").read_text()) or {}
    # The engine gives a program texts, and JSON for all that is none.
    config = {
        key if ":" in key else f"{project}:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in (written.get("config") or {}).items()
    }

    def program() -> None:
        set_all_config(config)
        with chdir(folder):
            runpy.run_path(str(folder / "__main__.py"), run_name="__main__")

    return register(
        program,
        outputs,
        preview=preview,
        project=project,
        stack=stack,
        last_outputs=last_outputs,
    )

"""What a program is run with, whoever runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tidepool.engine.deployment.deployment import Deployment
from tidepool.engine.events import Severity

#: What a program prints is a stream of text, whose pieces belong together: standard output, standard error.
STREAMS: Final[Mapping[Severity, int]] = {"info": 1, "info#err": 2}


@dataclass(frozen=True, slots=True)
class Task:
    """A program of a project. ``path`` is its file or folder, ``folder`` where it is run."""

    path: Path
    folder: Path
    root: Path
    env: Mapping[str, str]


class Program(Protocol):
    """Something that runs a program against the monitor of an operation."""

    async def run(self, deployment: Deployment) -> None:
        """Run it to its end; cancelling the coroutine ends it.

        Raises:
            ProgramFailed: where it ends with an error.
        """
        ...


def settings(deployment: Deployment, task: Task) -> dict[str, Any]:
    """The SDK's settings but for monitor and engine."""
    return {
        "project": deployment.request.project,
        "stack": deployment.request.stack,
        "parallel": deployment.request.options.parallel,
        "dry_run": deployment.request.options.preview,
        "organization": deployment.request.organization,
        "root_directory": str(task.root),
    }


def environment(deployment: Deployment) -> dict[str, str]:
    """Variables that a program may read its settings from, as the CLI sets them."""
    return {
        "PULUMI_CONFIG": json.dumps(dict(deployment.request.program_config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(deployment.request.secret_config_keys)),
        "PULUMI_DRY_RUN": "true" if deployment.request.options.preview else "false",
        "PULUMI_ORGANIZATION": deployment.request.organization,
        "PULUMI_PARALLEL": str(deployment.request.options.parallel),
        "PULUMI_PROJECT": deployment.request.project,
        "PULUMI_STACK": deployment.request.stack,
    }


def failure(code: int) -> str:
    """What is said of a program that ended with that exit code."""
    return f"an unhandled error occurred: program exited with non-zero exit code: {code}"

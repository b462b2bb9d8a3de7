"""Stacks as the operations' tests have them, and the Automation API's view of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi import automation

from tests.engine.operations.conftest import make_stack, stack, template
from tests.engine.operations.stacks import Stack
from tidepool.engine.warm import WarmPulumiCommand, warm_command

__all__ = ["make_stack", "stack", "template"]  # fixtures, which pytest finds here


@pytest.fixture(scope="module")
def command(template: Path) -> Iterator[WarmPulumiCommand]:
    """One warm process for the tests of a module; its plugins are not kept."""
    with warm_command(warm_environment(Stack(template)), folder=template / "project") as command:
        yield command


def warm_environment(stack: Stack) -> dict[str, str]:
    return {**stack.env, "TIDEPOOL_ENGINE": "embedded"}


def opened(stack: Stack, command: WarmPulumiCommand, **env: str) -> automation.Stack:
    """The stack, for operations with ``env`` in their environment."""
    workspace: Any = {"pulumi_command": command, "env_vars": {**stack.env, **env}}
    return automation.select_stack(
        "dev", work_dir=str(stack.project), opts=automation.LocalWorkspaceOptions(**workspace)
    )

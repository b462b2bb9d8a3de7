"""Lacks of a stack, or of this machine, for a scheduler on Kubernetes: each is a sentence with its remedy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from tidepool.lab.errors import LabError
from tidepool.lab.testbed import Testbed
from tidepool.toolchain import Module, ToolchainError, find


def no_kubernetes(testbed: Testbed) -> tuple[str, ...]:
    """Return what is missing for the stack to have a Kubernetes."""
    if testbed.kubeconfig is not None:
        return ()
    return (
        f"stack {testbed.stack} has no Kubernetes of its own: write `kubernetes: {{}}` into its spec, then `tidepool up`",
    )


def not_built(module: Module) -> tuple[str, ...]:
    """Return that a toolchain is not built, where it is not; ends with the target of make that builds it."""
    try:
        find(os.environ, module)
    except ToolchainError as error:
        return (str(error),)
    return ()


def refuse_options(scheduler: str, options: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise LabError where there are options besides the known ones."""
    if unknown := sorted(set(options) - set(known)):
        there = ", ".join(known) or "none"
        raise LabError(f"scheduler {scheduler} has no option {', '.join(unknown)}; it has {there}")

"""What is looked at before an operation is begun, and before it is called done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidepool.engine.deployment.options import Targets
from tidepool.engine.deployment.stopping import Stopped
from tidepool.engine.errors import EngineError
from tidepool.engine.resource import PendingOperation

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


def refuse_impossible(deployment: Deployment) -> None:
    """Refuse targets that the stack does not have and nothing can make, and hooks without their program.

    Raises:
        EngineError: with the reason; nothing was begun.
    """
    if deployment.options.kind == "update":
        return
    if deployment.options.kind == "destroy" and not deployment.options.run_program:
        _refuse_delete_hooks(deployment)
    for targets in (deployment.options.targets, deployment.options.excludes):
        for urn in targets.literals():
            if not deployment.live.has_old(urn):
                raise EngineError(f"no resource named '{urn}' found")


def require_known(deployment: Deployment, targets: Targets) -> None:
    """Report targets that the stack does not have.

    Raises:
        Stopped: where there are any.
    """
    missing = [u for u in sorted(targets.literals()) if not deployment.live.has_old(u)]
    if missing:
        report_unknown(deployment, missing)
        raise Stopped


def unknown(deployment: Deployment, targets: Targets) -> list[str]:
    """Targets that neither the stack nor the program has."""
    return [
        u
        for u in sorted(targets.literals())
        if not deployment.live.has_old(u) and u not in deployment.generator.books.seen
    ]


def report_unknown(deployment: Deployment, targets: list[str]) -> None:
    """Tell the person of them."""
    for urn in targets:
        hint = "" if "$" in urn else " Did you forget to escape $ in your shell?"
        deployment.error(f"Target '{urn}' could not be found in the stack.{hint}")


def warn_of_pending(deployment: Deployment, pending: Sequence[PendingOperation]) -> None:
    """Tell the person of steps of an earlier operation of which nobody knows what became of them."""
    listed = "".join(f"  * {op.resource.urn}, interrupted while {op.type}\n" for op in pending)
    deployment.warn(
        f"{len(pending)} pending operations are left from an operation that was cut off. What became of "
        f"them is not known:\n{listed}"
        "Look these resources up with their provider. `refresh` reads those that are in the state and takes "
        "them off this list; a create stays on it, since the state cannot tell whether anything was made: once "
        "you know, `refresh --clear-pending-creates` takes it off."
    )


def _refuse_delete_hooks(deployment: Deployment) -> None:
    """Hooks are functions of the program: without it they cannot be run, and must not be left out."""
    hooked = False
    for entry in deployment.live.entries:
        hooks = entry.state.resource_hooks
        names = [*hooks.get("BeforeDelete", ()), *hooks.get("AfterDelete", ())]
        if names:
            hooked = True
            listed = ", ".join(names)
            deployment.error(
                f"Resource has delete hooks registered, but the program is not running. Hooks: {listed}",
                entry.urn,
            )
    if hooked:
        raise EngineError("You must run with the `--run-program` flag to use delete hooks during destroy.")

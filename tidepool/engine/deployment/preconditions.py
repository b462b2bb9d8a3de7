"""Checks before an operation is begun, and before it is called done."""

from __future__ import annotations

from collections.abc import Sequence

from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.options import Targets
from tidepool.engine.deployment.status import Stopped
from tidepool.engine.errors import EngineError
from tidepool.engine.resource import PendingOperation


def refuse_impossible(context: Context) -> None:
    """Refuse targets that the stack does not have and nothing can make, and hooks without their program.

    Raises:
        EngineError: with the reason; nothing was begun.
    """
    if context.options.kind == "update":
        return
    if context.options.kind == "destroy" and not context.options.run_program:
        _refuse_delete_hooks(context)
    for targets in (context.options.targets, context.options.excludes):
        for urn in targets.literals():
            if not context.live.has_old(urn):
                raise EngineError(f"no resource named '{urn}' found")


def require_known(context: Context, targets: Targets) -> None:
    """Report targets that the stack does not have.

    Raises:
        Stopped: where there are any.
    """
    missing = [u for u in sorted(targets.literals()) if not context.live.has_old(u)]
    if missing:
        report_unknown(context, missing)
        raise Stopped


def unknown(context: Context, targets: Targets) -> list[str]:
    """Targets that neither the stack nor the program has."""
    return [
        u for u in sorted(targets.literals()) if not context.live.has_old(u) and u not in context.books.seen
    ]


def report_unknown(context: Context, targets: list[str]) -> None:
    """Tell the person of them."""
    for urn in targets:
        hint = "" if "$" in urn else " Did you forget to escape $ in your shell?"
        context.status.error(f"Target '{urn}' could not be found in the stack.{hint}")


def warn_of_pending(context: Context, pending: Sequence[PendingOperation]) -> None:
    """Tell the person of steps of an earlier operation of which nobody knows what became of them."""
    listed = "".join(f"  * {op.resource.urn}, interrupted while {op.type}\n" for op in pending)
    context.status.warn(
        f"{len(pending)} pending operations are left from an operation that was cut off. What became of "
        f"them is not known:\n{listed}"
        "Look these resources up with their provider. `refresh` reads those that are in the state and takes "
        "them off this list; a create stays on it, since the state cannot tell whether anything was made: once "
        "you know, `refresh --clear-pending-creates` takes it off."
    )


def _refuse_delete_hooks(context: Context) -> None:
    """Hooks are functions of the program: without it they cannot be run, and must not be left out."""
    hooked = False
    for entry in context.live.entries:
        hooks = entry.state.resource_hooks
        names = [*hooks.get("BeforeDelete", ()), *hooks.get("AfterDelete", ())]
        if names:
            hooked = True
            listed = ", ".join(names)
            context.status.error(
                f"Resource has delete hooks registered, but the program is not running. Hooks: {listed}",
                entry.urn,
            )
    if hooked:
        raise EngineError("You must run with the `--run-program` flag to use delete hooks during destroy.")

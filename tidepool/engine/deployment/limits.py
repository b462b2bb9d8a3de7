"""Limits of an operation: what it cannot begin with, which resources it may change, and what it does with the others."""

from __future__ import annotations

from collections.abc import Sequence

from tidepool.engine.deployment.live import Entry, provider_urn
from tidepool.engine.deployment.options import Targets
from tidepool.engine.deployment.status import GoalError, Stopped
from tidepool.engine.deployment.step import Answer, Context, Step
from tidepool.engine.deployment.steps import SameStep
from tidepool.engine.errors import EngineError
from tidepool.engine.resource import PendingOperation, ResourceState


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
        for urn in targets.literals:
            if not context.live.old_all(urn):
                raise EngineError(f"no resource named '{urn}' found")


def unknown(context: Context, targets: Targets) -> list[str]:
    """Targets that neither the stack nor the program has."""
    return [
        u for u in sorted(targets.literals) if not context.live.old_all(u) and u not in context.books.seen
    ]


def refuse_unknown(context: Context, targets: list[str]) -> None:
    """Report such targets.

    Raises:
        Stopped: where there are any.
    """
    for urn in targets:
        hint = "" if "$" in urn else " Did you forget to escape $ in your shell?"
        context.status.error(f"Target '{urn}' could not be found in the stack.{hint}")
    if targets:
        raise Stopped


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


class Limits:
    """Tells resources that an operation may change from others, and makes the steps that leave those as they are."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._status, self._live, self._registry = context.status, context.live, context.registry
        self._books = context.books

    def is_included(self, state: ResourceState) -> bool:
        """Tell whether the operation may change this resource."""
        options = self._context.options
        if options.targets:
            return state.urn in options.targets or (
                options.target_dependents
                and not self._books.reached_targets.isdisjoint(state.all_dependencies())
            )
        if options.excludes:
            return not self.is_excluded(state)
        return True

    def is_excluded(self, state: ResourceState) -> bool:
        """Tell whether a person asked for the resource to be left alone."""
        options = self._context.options
        return state.urn in options.excludes or (
            options.exclude_dependents
            and not self._books.reached_excludes.isdisjoint(state.all_dependencies())
        )

    def untargeted(self, urn: str, old: Entry, answer: Answer) -> list[Step]:
        """The steps that let a registered resource stand as it is, with what it needs before it."""
        if old.state.provider and not self._registry.has(old.state.provider):
            known = self._live.old(provider_urn(old.state.provider))
            if known is None or not old.state.provider.endswith(f"::{known.state.id}"):
                raise GoalError(f"could not find provider {old.state.provider} in old state", urn)
            raise GoalError(
                f"provider {old.state.provider} for resource {urn} has not been registered yet, this is "
                "due to a change of providers mixed with --target. "
                "Change your program back to the original providers",
                urn,
            )
        self._books.sames.add(urn)
        steps = self._same_with_dependencies(old, answer)
        if old.urn != urn:
            self._books.sames.add(old.urn)
        return steps

    def _same_with_dependencies(self, old: Entry, answer: Answer) -> list[Step]:
        """Same steps for ``old`` and, before it, for what it depends on and nobody registered.

        The program may have dropped a dependency that is not targeted: it stays, and it must stand
        before what depends on it.
        """
        steps: list[Step] = []
        if old.state.delete:
            return steps
        self._books.seen.add(old.urn)
        self._books.sames.add(old.urn)
        for urn in sorted(old.state.all_dependencies()):
            if self._books.has_step(urn):
                continue
            dependency = self._live.old(urn)
            if dependency is None:
                self._status.error(
                    f"dependency {urn} of untargeted resource {old.urn} has no old state", old.urn
                )
                raise Stopped
            steps += self._same_with_dependencies(dependency, None)
        new = self._live.new_entry(old.state, old)
        steps.append(SameStep(old, new, answer, untargeted=True))
        return steps

    def dependencies(self, state: ResourceState) -> list[Step]:
        """Steps for what a targeted resource needs, and the program does not register any more."""
        if not self._context.options.targets:
            return []
        steps: list[Step] = []
        for urn in sorted(state.all_dependencies()):
            old = self._live.old(urn)
            if old is not None and not self._books.has_step(urn):
                steps += self._same_with_dependencies(old, None)
        return steps

    def validated(self, steps: list[Step]) -> list[Step]:
        """``steps``, unless one needs a resource that is not to be made in this operation."""
        options = self._context.options
        if not options.targets and not options.replace:
            return steps
        for step in steps:
            if step.new is None or step.skipped_create:
                continue
            for urn in sorted(step.new.state.all_dependencies() & self._books.skipped_creates):
                self._status.error(
                    f"Resource '{step.urn}' depends on '{urn}' which was was not specified in --target list.",
                    step.urn,
                )
                self._status.failed = True
                if not options.preview:
                    raise Stopped
                self._books.skipped_creates.discard(urn)
        return steps

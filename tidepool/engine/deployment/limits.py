"""The limits of an operation to some resources, and what it does with the others."""

from __future__ import annotations

from tidepool.engine.deployment.context import Context
from tidepool.engine.deployment.graph import Entry, provider_urn
from tidepool.engine.deployment.status import GoalError, Stopped
from tidepool.engine.deployment.steps.step import Answer, Step
from tidepool.engine.deployment.steps.update import SameStep
from tidepool.engine.resource import ResourceState


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
        for urn in self._needs(old.state):
            if self._books.has_step(urn):
                continue
            dependency = self._live.old(urn)
            if dependency is None:
                self._status.error(
                    f"dependency {urn} of untargeted resource {old.urn} has no old state", old.urn
                )
                raise Stopped
            steps += self._same_with_dependencies(dependency, None)
        new = self._live.successor(old, old.state)
        steps.append(SameStep(old, new, answer, untargeted=True))
        return steps

    def dependencies(self, state: ResourceState) -> list[Step]:
        """Steps for what a targeted resource needs, and the program does not register any more."""
        if not self._context.options.targets:
            return []
        steps: list[Step] = []
        for urn in self._needs(state):
            old = self._live.old(urn)
            if old is not None and not self._books.has_step(urn):
                steps += self._same_with_dependencies(old, None)
        return steps

    @staticmethod
    def _needs(state: ResourceState) -> list[str]:
        return sorted(state.all_dependencies())

    def validated(self, steps: list[Step]) -> list[Step]:
        """``steps``, unless one needs a resource that is not to be made in this operation."""
        options = self._context.options
        if not options.targets and not options.replace:
            return steps
        for step in steps:
            if step.new is None or (isinstance(step, SameStep) and step.skipped_create):
                continue
            for urn in sorted(step.new.state.all_dependencies() & self._books.skipped_creates):
                self._status.error(
                    f"Resource '{step.urn}' depends on '{urn}' which was was not specified in --target list.",
                    step.urn,
                )
                self._status.mark_failed()
                if not options.preview:
                    raise Stopped
                self._books.skipped_creates.discard(urn)
        return steps

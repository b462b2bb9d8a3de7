"""From what a program registers to the steps that bring it about.

One call of :meth:`Generator.register` a registration; calls run beside each other on the engine's loop.
Between two ``await`` the books of the generator are consistent: whatever is decided is written down
before anything else can run. Source of the rules: Pulumi's ``pkg/resource/deploy/step_generator.go``.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tidepool.engine import urn as urns
from tidepool.engine.deployment import aliases
from tidepool.engine.deployment.books import Books
from tidepool.engine.deployment.change import Change
from tidepool.engine.deployment.diffing import (
    with_ignored,
)
from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.goal import Goal, ReadGoal
from tidepool.engine.deployment.limits import Limits
from tidepool.engine.deployment.replacement import Replacement
from tidepool.engine.deployment.steps.create import CreateStep
from tidepool.engine.deployment.steps.import_ import ImportStep
from tidepool.engine.deployment.steps.read import ReadStep
from tidepool.engine.deployment.steps.refresh import RefreshStep
from tidepool.engine.deployment.steps.replace import ReplaceStep
from tidepool.engine.deployment.steps.same import SameStep
from tidepool.engine.deployment.steps.step import Answer, Registered, Step
from tidepool.engine.deployment.stopping import GoalError, Stopped
from tidepool.engine.errors import EngineError
from tidepool.engine.providers.contract import Provider, ProviderError
from tidepool.engine.resource import ResourceState

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


class Generator:
    """Turns registrations into steps. ``books`` tell what was decided."""

    def __init__(self, deployment: Deployment) -> None:
        self._d = deployment
        self.books = Books()
        self.limits = Limits(deployment, self.books)
        self.replacement = Replacement(deployment, self.books)
        self._change = Change(deployment, self.books, self.replacement)

    async def register(self, goal: Goal, answer: Answer) -> list[Step]:
        """The steps for one registration.

        Raises:
            GoalError: where the registration cannot be served.
            Stopped: where the operation must end; the reason was reported.
        """
        urn = self._new_urn(goal.parent, goal.type, goal.name)
        old, invalid = self._find_old(urn, goal)
        new = self._new_state(urn, goal, old)
        if self._d.refreshes_in_program and old is not None and self.limits.is_included(old.state):
            old = await self._refresh(urn, old)
        entry = self._d.live.successor(old, new) if old is not None else self._d.live.new_entry(new)
        if new.is_provider:
            for name in (urn, *new.aliases):
                self.books.providers[name] = entry
        if self._d.options.kind == "refresh":
            steps = self._steps_in_refresh(urn, goal, old, entry, answer)
        elif self._d.options.kind == "destroy":
            steps = self._steps_in_destroy(urn, goal, old, entry, answer)
        else:
            steps = None
        if steps is None:
            try:
                steps = await self._steps(urn, goal, old, entry, answer, invalid)
            except (ProviderError, EngineError) as error:
                raise GoalError(str(error), urn) from error
        return self.limits.validated(steps)

    async def read(self, goal: ReadGoal, answer: Answer) -> list[Step]:
        """The steps for one look-up of a resource that the program does not own."""
        urn = self._new_urn(goal.parent, goal.type, goal.name)
        if not goal.id:
            raise GoalError(f"Expected an ID for {urn}", urn)
        old = self._d.live.old(urn)
        state = ResourceState(
            urn=urn,
            type=goal.type,
            custom=True,
            id=goal.id,
            inputs=goal.properties,
            parent=goal.parent,
            external=True,
            dependencies=goal.dependencies,
            provider=goal.provider,
            additional_secret_outputs=goal.additional_secret_outputs,
            source_position=goal.source_position,
            stack_trace=goal.stack_trace,
        )
        if old is not None and not old.state.external and old.state.id != goal.id:
            self.books.replaces.add(urn)
            new = self._d.live.new_entry(state)
            return [ReadStep(old, new, answer, replacing=True), ReplaceStep(old, new)]
        new = self._d.live.successor(old, state) if old is not None else self._d.live.new_entry(state)
        if self._d.options.kind == "destroy":
            self.books.to_delete.append(new)
        self.books.reads.add(urn)
        return [ReadStep(old, new, answer)]

    def _new_urn(self, parent: str, type: str, name: str) -> str:
        if parent:
            urn = urns.child(parent, type, name)
        else:
            urn = urns.make(self._d.stack, self._d.project, "", type, name)
        if parent and parent not in self.books.seen:
            raise GoalError(f"could not find parent resource {parent}", urn)
        if urn in self.books.seen:
            self._d.error(f"Duplicate resource URN '{urn}'; try giving it a unique name", urn)
            raise Stopped
        self.books.seen.add(urn)
        return urn

    def _find_old(self, urn: str, goal: Goal) -> tuple[Entry | None, bool]:
        invalid = False
        if urn in self.books.aliased:
            invalid = True
            self._d.error(
                f"Duplicate resource URN '{urn}' conflicting with alias on resource with "
                f"URN '{self.books.aliased[urn]}'",
                urn,
            )
        old = self._d.live.old(urn)
        if old is not None:
            return old, invalid
        for alias in aliases.candidates(goal, self._d.stack, self._d.project, self.books.adopted):
            old = self._d.live.old(alias)
            if old is None:
                continue
            for claimed in filter(None, (alias in self.books.seen and urn, self.books.aliased.get(alias))):
                invalid = True
                self._d.error(
                    f"Duplicate resource alias '{alias}' applied to resource with URN '{urn}' "
                    f"conflicting with resource with URN '{claimed}'",
                    urn,
                )
            self.books.aliased[alias] = urn
            self.books.adopted[urn] = alias
            self._d.registry.alias(urn, alias)
            return old, invalid
        return None, invalid

    def _new_state(self, urn: str, goal: Goal, old: Entry | None) -> ResourceState:
        alias = self.books.adopted.get(urn)
        return ResourceState(
            urn=urn,
            type=goal.type,
            custom=goal.custom,
            inputs=goal.properties,
            parent=goal.parent,
            protect=bool(goal.protect),
            dependencies=goal.dependencies,
            provider=goal.provider,
            property_dependencies=dict(goal.property_dependencies),
            additional_secret_outputs=goal.additional_secret_outputs,
            aliases=(alias,) if alias else (),
            custom_timeouts=goal.custom_timeouts,
            import_id=goal.import_id,
            retain_on_delete=bool(goal.retain_on_delete),
            deleted_with=goal.deleted_with,
            replace_with=goal.replace_with,
            created=old.state.created if old else "",
            modified=old.state.modified if old else "",
            source_position=goal.source_position,
            stack_trace=goal.stack_trace,
            ignore_changes=goal.ignore_changes,
            hide_diff=goal.hide_diff,
            replace_on_changes=goal.replace_on_changes,
            replacement_trigger=goal.replacement_trigger,
            refresh_before_update=bool(old and old.state.refresh_before_update),
            resource_hooks=dict(goal.resource_hooks),
        )

    async def _refresh(self, urn: str, old: Entry) -> Entry | None:
        step = RefreshStep(old, in_program=True)
        self.books.refreshes.add(urn)
        if not await self._d.executor.run([step]):
            raise Stopped
        return None if step.gone else old

    def _steps_in_refresh(
        self, urn: str, goal: Goal, old: Entry | None, new: Entry, answer: Answer
    ) -> list[Step] | None:
        """A refresh that runs the program changes nothing but providers and components."""
        skips = self._depends_on_skipped(new.state)
        if not skips and (not goal.custom or new.state.is_provider):
            return None
        if old is None:
            return [self._skipped(urn, new, answer)]
        if answer is not None and not answer.done():
            answer.set_result(Registered(old.state))
        return []

    def _steps_in_destroy(
        self, urn: str, goal: Goal, old: Entry | None, new: Entry, answer: Answer
    ) -> list[Step] | None:
        """A destroy that runs the program makes nothing but providers, and deletes all when it is done."""
        if self._depends_on_skipped(new.state):
            if old is not None:
                new.change(outputs=old.state.outputs)
            return [self._skipped(urn, new, answer)]
        if goal.custom and not new.state.is_provider:
            if old is None:
                return [self._skipped(urn, new, answer)]
            self.books.sames.add(urn)
            self.books.to_delete.append(new)
            self._let_stand(old, new)
            return [SameStep(old, new, answer)]
        self.books.to_delete.append(new)
        return None

    def _let_stand(self, old: Entry, new: Entry) -> None:
        """The inputs stay what they were, so what they come from is still needed, whatever the program says.

        What the program adds is needed, too, unless it is the other way round as things are. All are named
        as they were, which holds for those that keep their old names, too: renamed, but no targets.
        """
        before, was = old.state, self.books.adopted
        added = {was.get(u, u) for u in new.state.dependencies} - set(before.dependencies)
        if added:
            added -= {e.urn for e in self._d.graph.dependents(old, children=True)}
        new.change(
            inputs=before.inputs,
            parent=was.get(new.state.parent, new.state.parent),
            dependencies=(*before.dependencies, *sorted(added)),
            property_dependencies=before.property_dependencies,
            pending_replacement=before.pending_replacement,
        )

    def _skipped(self, urn: str, new: Entry, answer: Answer) -> Step:
        self.books.skipped_creates.add(urn)
        if self._d.options.kind != "destroy":  # which deletes it all the same
            self.books.sames.add(urn)
        stand_in = Entry(new.number, new.state)
        return SameStep(stand_in, new, answer, skipped_create=True)

    def _depends_on_skipped(self, state: ResourceState) -> bool:
        return not self.books.skipped_creates.isdisjoint(state.all_dependencies())

    async def _steps(
        self, urn: str, goal: Goal, old: Entry | None, new: Entry, answer: Answer, invalid: bool
    ) -> list[Step]:
        provider = await self._provider(new.state)
        was_external = old is not None and old.state.external
        targeted = (
            new.state.is_provider
            or urns.qualified_type_of(urn) == urns.ROOT_STACK_TYPE
            or self.limits.is_included(new.state)
        )
        imported = None
        if targeted and _is_import(goal, old):
            imported = await self._import(urn, old, new, answer)
            if imported is None:
                return []  # it was answered that it failed
            old, new, was_external = imported, self._d.live.successor(imported, new.state), False
            new.change(created=imported.state.created, modified=imported.state.modified)
        inputs = goal.properties
        if old is not None:
            inputs, impossible = with_ignored(inputs, old.state.inputs, goal.ignore_changes)
            if impossible:
                listed = ", ".join(impossible)
                self._d.info(
                    f'cannot ignore changes in added or removed elements of the path: "{listed}"', urn
                )
            new.change(inputs=inputs)
        seed = secrets.token_bytes(32)
        if provider is not None:
            # What went for another comes back as the program has it: what it was may name what went.
            if not targeted and not (old is not None and urn in self.books.deletes):
                new.change(inputs=old.state.inputs if old is not None else {})
            else:
                afresh = (
                    old is None
                    or urn in self.books.deletes
                    or was_external
                    or self._change.is_targeted_replace(urn, old)
                )
                olds = {} if old is None or afresh else old.state.inputs
                news = goal.properties if afresh else inputs
                checked = await provider.check(urn, olds, news, seed, self._d.options.preview)
                invalid = self._change.report(new.state, checked.failures) or invalid
                new.change(inputs=checked.inputs)
        if invalid:
            raise Stopped
        if urn in self.books.deletes and old is not None:
            recreated = await self._change.recreate(urn, old, new, answer)
            if recreated is not None:
                return recreated
        if was_external and old is not None:
            self.books.creates.add(urn)
            replacement = self._change.another(new)
            return [
                CreateStep(old, replacement, answer, pending_delete=True),
                ReplaceStep(old, replacement),
            ]
        if self._d.options.excludes and not targeted and self.limits.is_excluded(new.state):
            self.books.reached_excludes.add(urn)
        elif targeted and self._d.options.targets and self.limits.is_included(new.state):
            self.books.reached_targets.add(urn)
        if old is None:
            if not targeted:
                return [self._skipped(urn, new, answer)]
            before = self.limits.dependencies(new.state)
            self.books.creates.add(urn)
            return [*before, CreateStep(None, new, answer)]
        if not targeted:
            return self.limits.untargeted(urn, old, answer)
        before = self.limits.dependencies(new.state)
        steps = await self._change.steps(urn, goal, old, new, answer, provider, seed)
        if imported is not None and isinstance(steps[-1], SameStep):
            # Nothing is left to do: the import is all that a person is told of.
            assert answer is not None
            answer.set_result(Registered(imported.state))
            return before
        return [*before, *steps]

    async def _import(self, urn: str, old: Entry | None, new: Entry, answer: Answer) -> Entry | None:
        """Take what exists into the stack; None where that failed and the operation goes on."""
        if old is not None and urn in self.books.deletes:
            old = None  # it goes for the sake of another
        imported = self._change.another(new)
        step = ImportStep(old, imported, answer)
        (self.books.creates if old is None else self.books.replaces).add(urn)
        steps: list[Step] = [step] if old is None else [step, ReplaceStep(old, imported)]
        if await self._d.executor.run(steps):
            return imported
        if answer is not None and answer.done():
            return None
        raise Stopped

    async def _provider(self, state: ResourceState) -> Provider | None:
        if not state.custom:
            return None
        if state.is_provider:
            return self._d.registry
        return await self._d.provider_for(state)


def _is_import(goal: Goal, old: Entry | None) -> bool:
    """Tell whether the program asks for a resource by an id that the stack does not have under that name."""
    if not goal.custom or not goal.import_id:
        return False
    return old is None or old.state.external or (old.state.import_id or old.state.id) != goal.import_id

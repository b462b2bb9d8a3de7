"""From what a program registers to the steps that bring it about, and to the state that came of them.

One call of :meth:`Generator.register` a registration; calls run beside each other on the engine's loop.
Between two ``await`` the books of the generator are consistent: whatever is decided is written down
before anything else can run. Source of the rules: Pulumi's ``pkg/resource/deploy/step_generator.go``.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets

from tidepool.engine import urn as urns
from tidepool.engine.deployment.change import Change, Replacement
from tidepool.engine.deployment.diffing import with_ignored
from tidepool.engine.deployment.executor import Executor
from tidepool.engine.deployment.goal import Goal, alias_candidates
from tidepool.engine.deployment.limits import Limits
from tidepool.engine.deployment.live import Entry
from tidepool.engine.deployment.reads import ImportStep, ReadStep, RefreshStep
from tidepool.engine.deployment.status import GoalError, Stopped
from tidepool.engine.deployment.step import Answer, Context, Registered, Step
from tidepool.engine.deployment.steps import CreateStep, ReplaceStep, SameStep, UpdateStep
from tidepool.engine.errors import EngineError
from tidepool.engine.events import ResourceOutputs
from tidepool.engine.providers.contract import ProviderError
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Properties, equal


class Generator:
    """Turns registrations into steps, and notes in the books what it decides."""

    def __init__(self, context: Context, executor: Executor, replacement: Replacement) -> None:
        self._context = context
        self._status, self._live, self._registry = context.status, context.live, context.registry
        self._books = context.books
        self._executor = executor
        #: Each resource gets random bytes of its own from it: one call of the system instead of one a resource.
        self._seed = secrets.token_bytes(32)
        self._limits = Limits(context)
        self._change = Change(context, replacement)

    async def register(self, goal: Goal, answer: Answer) -> list[Step]:
        """The steps for one registration.

        Raises:
            GoalError: where the registration cannot be served.
            Stopped: where the operation must end; the reason was reported.
        """
        urn = self._new_urn(goal.state.parent, goal.state.type, goal.name)
        old, invalid = self._find_old(urn, goal)
        new = self._new_state(urn, goal, old)
        if (
            self._context.options.refreshes_in_program
            and old is not None
            and self._limits.is_included(old.state)
        ):
            old = await self._refresh(urn, old)
        entry = self._live.new_entry(new, old)
        if new.is_provider:
            for name in (urn, *new.aliases):
                self._books.providers[name] = entry
        steps = None
        if self._context.options.kind == "refresh":
            steps = self._steps_in_refresh(goal, old, entry, answer)
        elif self._context.options.kind == "destroy":
            steps = self._steps_in_destroy(goal, old, entry, answer)
        if steps is None:
            try:
                steps = await self._steps(urn, goal, old, entry, answer, invalid)
            except (ProviderError, EngineError) as error:
                raise GoalError(str(error), urn) from error
        return self._limits.validated(steps)

    async def read(self, name: str, sought: ResourceState, answer: Answer) -> list[Step]:
        """The steps for one look-up of a resource that the program does not own; ``sought`` has no URN yet."""
        urn = self._new_urn(sought.parent, sought.type, name)
        if not sought.id:
            raise GoalError(f"Expected an ID for {urn}", urn)
        old = self._live.old(urn)
        state = sought.changed(urn=urn)
        if old is not None and not old.state.external and old.state.id != state.id:
            self._books.replaces.add(urn)
            new = self._live.new_entry(state)
            return [ReadStep(old, new, answer, replacing=True), ReplaceStep(old, new)]
        new = self._live.new_entry(state, old)
        if self._context.options.kind == "destroy":
            self._books.to_delete.append(new)
        self._books.reads.add(urn)
        return [ReadStep(old, new, answer)]

    def _new_urn(self, parent: str, type: str, name: str) -> str:
        if parent:
            urn = urns.child(parent, type, name)
        else:
            urn = urns.make(self._context.request.stack, self._context.request.project, "", type, name)
        if parent and parent not in self._books.seen:
            raise GoalError(f"could not find parent resource {parent}", urn)
        if urn in self._books.seen:
            self._status.error(f"Duplicate resource URN '{urn}'; try giving it a unique name", urn)
            raise Stopped
        self._books.seen.add(urn)
        return urn

    def _find_old(self, urn: str, goal: Goal) -> tuple[Entry | None, bool]:
        invalid = False
        if urn in self._books.aliased:
            invalid = True
            self._status.error(
                f"Duplicate resource URN '{urn}' conflicting with alias on resource with "
                f"URN '{self._books.aliased[urn]}'",
                urn,
            )
        old = self._live.old(urn)
        if old is not None:
            return old, invalid
        for alias in alias_candidates(
            goal, self._context.request.stack, self._context.request.project, self._books.adopted
        ):
            old = self._live.old(alias)
            if old is None:
                continue
            for claimed in filter(None, (alias in self._books.seen and urn, self._books.aliased.get(alias))):
                invalid = True
                self._status.error(
                    f"Duplicate resource alias '{alias}' applied to resource with URN '{urn}' "
                    f"conflicting with resource with URN '{claimed}'",
                    urn,
                )
            self._books.aliased[alias] = urn
            self._books.adopted[urn] = alias
            self._registry.alias(urn, alias)
            return old, invalid
        return None, invalid

    def _new_state(self, urn: str, goal: Goal, old: Entry | None) -> ResourceState:
        alias = self._books.adopted.get(urn)
        before = old.state if old else goal.state
        return goal.state.changed(
            urn=urn,
            aliases=(alias,) if alias else (),
            created=before.created,
            modified=before.modified,
            refresh_before_update=before.refresh_before_update,
        )

    async def _refresh(self, urn: str, old: Entry) -> Entry | None:
        step = RefreshStep(old, in_program=True)
        self._books.refreshes.add(urn)
        if not await self._executor.run([step]):
            raise Stopped
        return None if step.gone else old

    def _steps_in_refresh(
        self, goal: Goal, old: Entry | None, new: Entry, answer: Answer
    ) -> list[Step] | None:
        """A refresh that runs the program changes nothing but providers and components."""
        skips = self._depends_on_skipped(new.state)
        if not skips and (not goal.state.custom or new.state.is_provider):
            return None
        if old is None:
            return [self._skipped(new, answer)]
        if answer is not None and not answer.done():
            answer.set_result(Registered(old.state))
        return []

    def _steps_in_destroy(
        self, goal: Goal, old: Entry | None, new: Entry, answer: Answer
    ) -> list[Step] | None:
        """A destroy that runs the program makes nothing but providers, and deletes all when it is done."""
        if self._depends_on_skipped(new.state):
            if old is not None:
                new.change(outputs=old.state.outputs)
            return [self._skipped(new, answer)]
        if goal.state.custom and not new.state.is_provider:
            if old is None:
                return [self._skipped(new, answer)]
            self._books.sames.add(new.urn)
            self._books.to_delete.append(new)
            self._retain_old(old, new)
            return [SameStep(old, new, answer)]
        self._books.to_delete.append(new)
        return None

    def _retain_old(self, old: Entry, new: Entry) -> None:
        """The inputs stay what they were, so what they come from is still needed, whatever the program says.

        What the program adds is needed, too, unless it is the other way round as things are. All are named
        as they were, which holds for those that keep their old names, too: renamed, but no targets.
        """
        before, was = old.state, self._books.adopted
        added = {was.get(u, u) for u in new.state.dependencies} - set(before.dependencies)
        if added:
            added -= {e.urn for e in self._live.graph.dependents(old, children=True)}
        new.change(
            inputs=before.inputs,
            parent=was.get(new.state.parent, new.state.parent),
            dependencies=(*before.dependencies, *sorted(added)),
            property_dependencies=before.property_dependencies,
            pending_replacement=before.pending_replacement,
        )

    def _skipped(self, new: Entry, answer: Answer) -> Step:
        self._books.skipped_creates.add(new.urn)
        if self._context.options.kind != "destroy":  # which deletes it all the same
            self._books.sames.add(new.urn)
        return SameStep(Entry(new.number, new.state), new, answer, skipped_create=True)

    def _depends_on_skipped(self, state: ResourceState) -> bool:
        return not self._books.skipped_creates.isdisjoint(state.all_dependencies())

    async def _steps(
        self, urn: str, goal: Goal, old: Entry | None, new: Entry, answer: Answer, invalid: bool
    ) -> list[Step]:
        provider = await self._context.provider_for(new.state) if new.state.custom else None
        was_external = old is not None and old.state.external
        targeted = (
            new.state.is_provider
            or urns.qualified_type_of(urn) == urns.ROOT_STACK_TYPE
            or self._limits.is_included(new.state)
        )
        imported = None
        if targeted and _is_import(goal, old) and not self._executor.is_barred(new.state):
            imported = await self._import(urn, old, new, answer)
            if imported is None:
                return []  # it was answered that it failed
            old, new, was_external = imported, self._live.new_entry(new.state, imported), False
            new.change(created=imported.state.created, modified=imported.state.modified)
        inputs = goal.state.inputs
        if old is not None:
            inputs, impossible = with_ignored(inputs, old.state.inputs, goal.state.ignore_changes)
            if impossible:
                listed = ", ".join(impossible)
                self._status.info(
                    f'cannot ignore changes in added or removed elements of the path: "{listed}"', urn
                )
            new.change(inputs=inputs)
        seed = hashlib.sha256(self._seed + urn.encode()).digest()
        if provider is not None:
            # What went for another comes back as the program has it: what it was may name what went.
            if not targeted and not (old is not None and urn in self._books.deletes):
                new.change(inputs=old.state.inputs if old is not None else {})
            else:
                afresh = (
                    old is None
                    or urn in self._books.deletes
                    or was_external
                    or self._change.is_targeted_replace(urn, old)
                )
                olds = {} if old is None or afresh else old.state.inputs
                news = goal.state.inputs if afresh else inputs
                checked = await provider.check(urn, olds, news, seed, self._context.options.preview)
                invalid = self._change.report(new.state, checked.failures) or invalid
                new.change(inputs=checked.inputs)
        if invalid:
            raise Stopped
        if urn in self._books.deletes and old is not None:
            recreated = await self._change.recreate(old, new, answer)
            if recreated is not None:
                return recreated
        if was_external and old is not None:
            self._books.creates.add(urn)
            replacement = self._change.another(new)
            return [
                CreateStep(old, replacement, answer, pending_delete=True),
                ReplaceStep(old, replacement),
            ]
        if self._context.options.excludes and not targeted and self._limits.is_excluded(new.state):
            self._books.reached_excludes.add(urn)
        elif targeted and self._context.options.targets and self._limits.is_included(new.state):
            self._books.reached_targets.add(urn)
        if old is None:
            if not targeted:
                return [self._skipped(new, answer)]
            before = self._limits.dependencies(new.state)
            self._books.creates.add(urn)
            return [*before, CreateStep(None, new, answer)]
        if not targeted:
            return self._limits.untargeted(urn, old, answer)
        before = self._limits.dependencies(new.state)
        steps = await self._change.steps(goal, old, new, answer, provider, seed)
        if imported is not None and isinstance(steps[-1], SameStep):
            # Nothing is left to do: the import is all that a person is told of.
            assert answer is not None
            answer.set_result(Registered(imported.state))
            return before
        return [*before, *steps]

    async def _import(self, urn: str, old: Entry | None, new: Entry, answer: Answer) -> Entry | None:
        """Take what exists into the stack; None where that failed and the operation goes on."""
        if old is not None and urn in self._books.deletes:
            old = None  # it goes for the sake of another
        imported = self._change.another(new)
        step = ImportStep(old, imported, answer)
        (self._books.creates if old is None else self._books.replaces).add(urn)
        steps: list[Step] = [step] if old is None else [step, ReplaceStep(old, imported)]
        if await self._executor.run(steps):
            return imported
        if answer is not None and answer.done():
            return None
        raise Stopped


def _is_import(goal: Goal, old: Entry | None) -> bool:
    """Tell whether the program asks for a resource by an id that the stack does not have under that name."""
    if not goal.state.custom or not goal.state.import_id:
        return False
    return old is None or old.state.external or (old.state.import_id or old.state.id) != goal.state.import_id


class Registrar:
    """Has steps decided on and done for each registration."""

    def __init__(self, context: Context, generator: Generator, executor: Executor) -> None:
        self._context = context
        self._generator = generator
        self._executor = executor
        self._stack_outputs: tuple[str, Properties] | None = None

    async def register(self, goal: Goal) -> Registered:
        """Bring one resource about, and say what became of it."""
        answer: asyncio.Future[Registered] = asyncio.get_running_loop().create_future()
        return await self._executor.carry_out(await self._generator.register(goal, answer), answer)

    async def read(self, name: str, sought: ResourceState) -> Registered:
        """Look one resource up; ``sought`` has no URN yet."""
        answer: asyncio.Future[Registered] = asyncio.get_running_loop().create_future()
        return await self._executor.carry_out(await self._generator.read(name, sought, answer), answer)

    async def register_outputs(self, urn: str, outputs: Properties) -> None:
        """Take the outputs of a component; those of the stack are kept until the end."""
        if urns.qualified_type_of(urn) == urns.ROOT_STACK_TYPE:
            self._stack_outputs = urn, outputs
            return
        await self._record(urn, outputs)

    async def record_stack_outputs(self, *, failed: bool) -> None:
        """Record the outputs of the stack, where the program told any; of one that ``failed`` the old ones stay, too."""
        if self._stack_outputs is None:
            return
        urn, outputs = self._stack_outputs
        if urn not in self._executor.answered:
            return
        old = self._context.live.old(urn)
        if failed and old is not None:
            # What is missing was perhaps only not reached: it is kept.
            outputs = {**old.state.outputs, **outputs}
        await self._record(urn, outputs)

    async def _record(self, urn: str, outputs: Properties) -> None:
        context = self._context
        step = self._executor.answered.pop(urn, None)
        if step is None:
            raise GoalError(f"cannot complete a resource '{urn}' whose registration isn't pending", urn)
        if step.skipped_create:
            return
        assert step.new is not None
        before = step.new.state.outputs
        state = step.new.change(outputs=outputs)
        self._executor.states[urn] = state
        if not state.custom:
            if isinstance(step, CreateStep):
                await context.hooks.run_after("AfterCreate", None, state)
            elif isinstance(step, UpdateStep) and step.old is not None:
                await context.hooks.run_after("AfterUpdate", step.old.state, state)
        context.status.emit(ResourceOutputs(step.metadata(), context.options.preview))
        if not equal(before, outputs):
            await context.live.end(None, amends=[step.new])
        if context.hooks.failed and not context.options.continue_on_error:
            context.status.stop()

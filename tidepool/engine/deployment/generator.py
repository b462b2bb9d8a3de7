"""From what a program registers to the steps that bring it about.

One call of :meth:`Generator.register` a registration; calls run beside each other on the engine's loop.
Between two ``await`` the books of the generator are consistent: whatever is decided is written down
before anything else can run. Source of the rules: Pulumi's ``pkg/resource/deploy/step_generator.go``.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidepool.engine import urn as urns
from tidepool.engine.compare import equal
from tidepool.engine.deployment import aliases
from tidepool.engine.deployment.diffing import (
    trigger_fired,
    with_engine_diff,
    with_ignored,
    with_replace_on_changes,
)
from tidepool.engine.deployment.entry import Entry
from tidepool.engine.deployment.goal import Goal, ReadGoal
from tidepool.engine.deployment.graph import provider_urn
from tidepool.engine.deployment.steps.create import CreateStep
from tidepool.engine.deployment.steps.delete import DeleteStep
from tidepool.engine.deployment.steps.read import ReadStep
from tidepool.engine.deployment.steps.refresh import RefreshStep
from tidepool.engine.deployment.steps.replace import ReplaceStep
from tidepool.engine.deployment.steps.same import SameStep
from tidepool.engine.deployment.steps.step import Answer, Registered, Step
from tidepool.engine.deployment.steps.update import UpdateStep
from tidepool.engine.providers.contract import CheckFailure, DiffResult, DiffUnavailable, Provider
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, ResourceState
from tidepool.engine.values import UNKNOWN, contains_unknowns

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Deployment


class Stopped(Exception):
    """The operation cannot go on, and why was reported already."""


class GoalError(Exception):
    """A registration that cannot be served; the text is for the person."""

    def __init__(self, message: str, urn: str = "") -> None:
        super().__init__(message)
        self.urn = urn


@dataclass(frozen=True, slots=True)
class Condemned:
    """A resource that must be deleted before another is replaced, and the keys that make it so."""

    entry: Entry
    keys: tuple[str, ...]


class Generator:
    """The books of one operation: which URNs were seen, and what was decided for each."""

    def __init__(self, deployment: Deployment) -> None:
        self._d = deployment
        self.seen: set[str] = set()
        #: What was decided, by URN. ``deletes`` is also asked by deletes that go with another.
        self.sames: set[str] = set()
        self.creates: set[str] = set()
        self.updates: set[str] = set()
        self.replaces: set[str] = set()
        self.deletes: set[str] = set()
        self.reads: set[str] = set()
        self.refreshes: set[str] = set()
        #: Creates that were left out: not targeted, or a destroy that runs the program.
        self.skipped_creates: set[str] = set()
        #: Old URN -> new URN, and new URN -> old URN, of resources found under an alias.
        self.aliased: dict[str, str] = {}
        self.adopted: dict[str, str] = {}
        #: Resources that a destroy which runs the program will delete when the program is done.
        self.to_delete: list[Entry] = []
        #: Old resources (not URNs) whose delete was decided already.
        self.pending_deletes: set[Entry] = set()
        self.providers: dict[str, Entry] = {}
        self.failed = False
        self._dependent_keys: dict[str, tuple[str, ...]] = {}
        self._targets: set[str] = set()
        self._excludes: set[str] = set()

    # -- registrations ---------------------------------------------------------------------------------

    async def register(self, goal: Goal, answer: Answer) -> list[Step]:
        """The steps for one registration.

        Raises:
            GoalError: where the registration cannot be served.
            Stopped: where the operation must end; the reason was reported.
        """
        urn = self._new_urn(goal.parent, goal.type, goal.name)
        old, invalid = self._find_old(urn, goal)
        new = self._new_state(urn, goal, old)
        if self._d.refreshes_in_program and old is not None and self.is_included(old.state):
            old = await self._refresh(old)
        entry = self._d.live.successor(old, new) if old is not None else self._d.live.new_entry(new)
        if new.is_provider:
            for name in (urn, *new.aliases):
                self.providers[name] = entry
        if self._d.options.kind == "refresh":
            steps = self._steps_in_refresh(urn, goal, old, entry, answer)
        elif self._d.options.kind == "destroy":
            steps = self._steps_in_destroy(urn, goal, old, entry, answer)
        else:
            steps = None
        if steps is None:
            steps = await self._steps(urn, goal, old, entry, answer, invalid)
        return self._validated(steps)

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
            self.replaces.add(urn)
            new = self._d.live.new_entry(state)
            return [ReadStep(old, new, answer, replacing=True), ReplaceStep(old, new)]
        new = self._d.live.successor(old, state) if old is not None else self._d.live.new_entry(state)
        if self._d.options.kind == "destroy":
            self.to_delete.append(new)
        self.reads.add(urn)
        return [ReadStep(old, new, answer)]

    def is_operated_on(self, urn: str) -> bool:
        """Whether anything but a delete was decided for the resource."""
        urn = self.aliased.get(urn, urn)
        return any(
            urn in decided
            for decided in (self.sames, self.updates, self.replaces, self.reads, self.refreshes)
        )

    # -- targets ---------------------------------------------------------------------------------------

    def is_included(self, state: ResourceState) -> bool:
        """Whether the operation may change this resource."""
        options = self._d.options
        if options.targets:
            return state.urn in options.targets or (
                options.target_dependents and not self._targets.isdisjoint(state.all_dependencies())
            )
        if options.excludes:
            return not self._is_excluded(state)
        return True

    def is_targeted_replace(self, urn: str, old: Entry | None) -> bool:
        """Whether a person asked for the resource to be replaced."""
        return urn in self._d.options.replace or (old is not None and old.state.taint)

    def _is_excluded(self, state: ResourceState) -> bool:
        options = self._d.options
        return state.urn in options.excludes or (
            options.exclude_dependents and not self._excludes.isdisjoint(state.all_dependencies())
        )

    # -- the parts of a registration -------------------------------------------------------------------

    def _new_urn(self, parent: str, type: str, name: str) -> str:
        if parent and parent not in self.seen:
            raise GoalError(f"could not find parent resource {parent}")
        if parent:
            urn = urns.child(parent, type, name)
        else:
            urn = urns.make(self._d.stack, self._d.project, "", type, name)
        if urn in self.seen:
            self._d.error(f"Duplicate resource URN '{urn}'; try giving it a unique name", urn)
            raise Stopped
        self.seen.add(urn)
        return urn

    def _find_old(self, urn: str, goal: Goal) -> tuple[Entry | None, bool]:
        invalid = False
        if urn in self.aliased:
            invalid = True
            self._d.error(
                f"Duplicate resource URN '{urn}' conflicting with alias on resource with "
                f"URN '{self.aliased[urn]}'",
                urn,
            )
        old = self._d.live.old(urn)
        if old is not None:
            return old, invalid
        for alias in aliases.candidates(goal, self._d.stack, self._d.project, self.adopted):
            old = self._d.live.old(alias)
            if old is None:
                continue
            for claimed in filter(None, (alias in self.seen and urn, self.aliased.get(alias))):
                invalid = True
                self._d.error(
                    f"Duplicate resource alias '{alias}' applied to resource with URN '{urn}' "
                    f"conflicting with resource with URN '{claimed}'",
                    urn,
                )
            self.aliased[alias] = urn
            self.adopted[urn] = alias
            self._d.registry.alias(urn, alias)
            return old, invalid
        return None, invalid

    def _new_state(self, urn: str, goal: Goal, old: Entry | None) -> ResourceState:
        alias = self.adopted.get(urn)
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

    async def _refresh(self, old: Entry) -> Entry | None:
        step = RefreshStep(old, in_program=True)
        self.refreshes.add(old.urn)
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
            self.sames.add(urn)
            self.to_delete.append(new)
            new.change(inputs=old.state.inputs)
            return [SameStep(old, new, answer)]
        self.to_delete.append(new)
        return None

    def _skipped(self, urn: str, new: Entry, answer: Answer) -> Step:
        self.sames.add(urn)
        self.skipped_creates.add(urn)
        stand_in = Entry(new.number, new.state)
        return SameStep(stand_in, new, answer, skipped_create=True)

    def _depends_on_skipped(self, state: ResourceState) -> bool:
        return not self.skipped_creates.isdisjoint(state.all_dependencies())

    async def _steps(
        self, urn: str, goal: Goal, old: Entry | None, new: Entry, answer: Answer, invalid: bool
    ) -> list[Step]:
        provider = await self._provider(new.state)
        was_external = old is not None and old.state.external
        targeted = (
            new.state.is_provider
            or urns.qualified_type_of(urn) == urns.ROOT_STACK_TYPE
            or self.is_included(new.state)
        )
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
            if not targeted:
                new.change(inputs=old.state.inputs if old is not None else {})
            else:
                afresh = (
                    old is None
                    or urn in self.deletes
                    or was_external
                    or self.is_targeted_replace(urn, old)
                )
                olds = {} if old is None or afresh else old.state.inputs
                news = goal.properties if afresh else inputs
                checked = await provider.check(urn, olds, news, seed, self._d.options.preview)
                invalid = self._report(new.state, checked.failures) or invalid
                new.change(inputs=checked.inputs)
        if invalid:
            raise Stopped
        if urn in self.deletes and old is not None:
            return self._recreate(urn, old, new, answer)
        if was_external and old is not None:
            self.creates.add(urn)
            replacement = self._d.live.new_entry(new.state)
            return [
                CreateStep(old, replacement, answer, pending_delete=True),
                ReplaceStep(old, replacement),
            ]
        if self._d.options.excludes and not targeted and self._is_excluded(new.state):
            self._excludes.add(urn)
        elif targeted and self._d.options.targets and self.is_included(new.state):
            self._targets.add(urn)
        if old is None:
            if not targeted:
                return [self._skipped(urn, new, answer)]
            if goal.import_id and goal.custom:
                raise GoalError(
                    f"resource '{goal.name}' asks for an import (`import_`), which the embedded engine "
                    "does not do; run this `up` once with the Pulumi CLI, then go on with either",
                    urn,
                )
            before = self._untargeted_dependencies(new.state)
            self.creates.add(urn)
            return [*before, CreateStep(None, new, answer)]
        if not targeted:
            return self._untargeted(urn, old, answer)
        before = self._untargeted_dependencies(new.state)
        steps = await self._steps_for_change(urn, goal, old, new, answer, provider, seed)
        return [*before, *steps]

    async def _provider(self, state: ResourceState) -> Provider | None:
        if not state.custom:
            return None
        if state.is_provider:
            return self._d.registry
        return await self._d.provider_for(state)

    def _report(self, state: ResourceState, failures: Collection[CheckFailure]) -> bool:
        for failure in failures:
            name = urns.name_of(state.urn)
            if failure.property:
                value = state.inputs.get(failure.property)
                shown = "[secret]" if self._d.is_secret(value) else _shown(value)
                message = (
                    f"{state.type} resource '{name}': property {failure.property} value {{{shown}}} "
                    f"has a problem: {failure.reason}"
                )
            else:
                message = f"{state.type} resource '{name}' has a problem: {failure.reason}"
            self._d.error(message, state.urn)
        return bool(failures)

    def _recreate(self, urn: str, old: Entry, new: Entry, answer: Answer) -> list[Step]:
        """The resource was deleted for the sake of another; now it is clear that it is to come back."""
        self.deletes.discard(urn)
        self.deletes.discard(old.urn)
        self.replaces.add(urn)
        replacement = self._d.live.new_entry(new.state)
        keys = self._dependent_keys.get(old.urn, ())
        return [ReplaceStep(old, replacement), CreateStep(old, replacement, answer, keys=keys)]

    # -- change ----------------------------------------------------------------------------------------

    async def _steps_for_change(
        self,
        urn: str,
        goal: Goal,
        old: Entry,
        new: Entry,
        answer: Answer,
        provider: Provider | None,
        seed: bytes,
    ) -> list[Step]:
        if not self._d.options.preview and contains_unknowns(new.state.replacement_trigger):
            self._d.error(f"replacement trigger contains unknowns for {urn}", urn)
            self.failed = True
            raise Stopped
        triggered = trigger_fired(old.state.replacement_trigger, new.state.replacement_trigger)
        if triggered:
            diff = DiffResult("some")
        else:
            diff = await self._diff(urn, goal, old, new, provider)
        if urn in self.deletes or old.urn in self.deletes:
            # While we waited, another replacement found that this one has to go first.
            return self._recreate(urn, old, new, answer)
        has_init_errors = bool(old.state.init_errors)
        diff = with_replace_on_changes(diff, goal.replace_on_changes, has_init_errors)
        if diff.changes == "some" or old.state.pending_replacement:
            if diff.replaces or triggered or old.state.pending_replacement:
                return await self._replace(urn, goal, old, new, answer, provider, diff, seed)
            self.updates.add(urn)
            return [UpdateStep(old, new, answer, diff)]
        if has_init_errors:
            self.updates.add(urn)
            return [UpdateStep(old, new, answer, diff)]
        self.sames.add(urn)
        return [SameStep(old, new, answer)]

    async def _diff(
        self, urn: str, goal: Goal, old: Entry, new: Entry, provider: Provider | None
    ) -> DiffResult:
        if self.is_targeted_replace(urn, old):
            return DiffResult("some", replace_keys=("id",))
        if not self.replaces.isdisjoint(new.state.replace_with):
            return DiffResult("some", replace_keys=("replaceWith",))
        if new.state.deleted_with and new.state.deleted_with in self.replaces:
            return DiffResult("some", replace_keys=("deletedWith",))
        if await self._provider_changed(old.state, new.state):
            return DiffResult("some", replace_keys=("provider",))
        if provider is None:
            return DiffResult("none" if equal(old.state.inputs, new.state.inputs) else "some")
        before, after = old.state, new.state
        try:
            diff = await provider.diff(
                urn, before.id, before.inputs, before.outputs, after.inputs, goal.ignore_changes
            )
        except DiffUnavailable as error:
            self._d.warn(str(error), urn)
            return DiffResult("some")
        return with_engine_diff(diff, before.inputs, after.inputs)

    async def _provider_changed(self, old: ResourceState, new: ResourceState) -> bool:
        """Whether the resource came to a provider that cannot take it over."""
        if old.provider == new.provider:
            return False
        if not old.provider or not new.provider:
            return True
        old_urn, new_urn = provider_urn(old.provider), provider_urn(new.provider)
        if self.aliased.get(old_urn) == new_urn:
            return False
        before, after = self._d.live.old(old_urn), self.providers.get(new_urn)
        if before is None or after is None:
            return True
        provider = await self._d.registry.get(new.provider)
        diff = await provider.diff_config(
            new_urn,
            self._d.registry.configuration(before.state.inputs),
            before.state.outputs,
            self._d.registry.configuration(after.state.inputs),
            (),
        )
        return diff.replaces

    async def _replace(
        self,
        urn: str,
        goal: Goal,
        old: Entry,
        new: Entry,
        answer: Answer,
        provider: Provider | None,
        diff: DiffResult,
        seed: bytes,
    ) -> list[Step]:
        if new.state.protect and old.state.protect:
            self._d.error(
                f'unable to replace resource "{urn}"\n'
                "as it is currently marked for protection. To unprotect the resource, "
                "remove the `protect` flag from the resource in your Pulumi "
                "program and run `pulumi up`",
                urn,
            )
            self.failed = True
            if not self._d.options.preview:
                raise Stopped
        self.replaces.add(urn)
        if provider is not None and not self.is_targeted_replace(urn, old):
            # Defaults were carried over from the old resource, which is not to be the new one.
            checked = await provider.check(urn, {}, goal.properties, seed, self._d.options.preview)
            if self._report(new.state, checked.failures):
                raise Stopped
            new.change(inputs=checked.inputs)
        replacement = self._d.live.new_entry(new.state)
        if new.state.is_provider:
            self.providers[urn] = replacement
        before_create = diff.delete_before_replace
        if goal.delete_before_replace is not None:
            before_create = goal.delete_before_replace
        if not before_create:
            return [
                CreateStep(
                    old, replacement, answer, pending_delete=True, keys=diff.replace_keys, diff=diff
                ),
                ReplaceStep(old, replacement, keys=diff.replace_keys, diff=diff),
            ]
        steps = await self._delete_dependents_first(urn, old)
        await self._d.registry.ensure(old.state.provider)
        if not old.state.pending_replacement:
            self.deletes.add(old.urn)
            steps.append(DeleteStep(old, replacing=True, before_create=True))
        return [
            *steps,
            ReplaceStep(old, replacement, keys=diff.replace_keys, diff=diff),
            CreateStep(old, replacement, answer, keys=diff.replace_keys, diff=diff),
        ]

    async def _delete_dependents_first(self, urn: str, old: Entry) -> list[Step]:
        condemned = await self.dependent_replacements(old) if old in self._d.graph else []
        condemned += self._cascades(urn)
        steps: list[Step] = []
        # Decided anew after the waiting: some may have been decided otherwise in the meantime.
        decided = self._decided()
        for one in reversed(condemned):
            entry = one.entry
            if entry in self.pending_deletes or entry is old or entry.urn in decided:
                continue
            self._dependent_keys[entry.urn] = one.keys
            if entry.state.protect and not entry.state.delete:
                self._d.error(
                    f'unable to replace resource "{entry.urn}" as part of replacing "{urn}" '
                    "as it is currently marked for protection. To unprotect the resource, "
                    "remove the `protect` flag from the resource in your Pulumi "
                    "program and run `pulumi up`, or use the command:\n"
                    f"`pulumi state unprotect '{entry.urn}'`",
                    urn,
                )
                self.failed = True
                raise Stopped
            await self._d.registry.ensure(entry.state.provider)
            if entry.state.delete:
                steps.append(DeleteStep(entry))
            else:
                steps.append(DeleteStep(entry, replacing=True, before_create=True))
            self.deletes.add(entry.urn)
            self.pending_deletes.add(entry)
        return steps

    async def dependent_replacements(self, root: Entry) -> list[Condemned]:
        """The resources that a replacement of ``root`` would replace, each after those it depends on.

        Those whose inputs come from a resource of the set are asked, through the provider's diff with
        these inputs unknown, whether they would be replaced.
        """
        replaced = {root.urn}
        found: list[Condemned] = []
        for entry in self._d.graph.dependents(root, ignore=self._decided()):
            keys = await self._replacement_keys(entry.state, replaced)
            if keys is not None:
                found.append(Condemned(entry, keys))
                replaced.add(entry.urn)
        return found

    async def _replacement_keys(
        self, state: ResourceState, replaced: set[str]
    ) -> tuple[str, ...] | None:
        if not state.custom or state.external:
            return None
        if state.provider and provider_urn(state.provider) in replaced:
            await self._d.registry.ensure(state.provider)
            return ()
        if state.deleted_with in replaced:
            return ()
        inputs = {
            key: UNKNOWN
            if not replaced.isdisjoint(state.property_dependencies.get(key, ()))
            else value
            for key, value in state.inputs.items()
        }
        if not any(value is UNKNOWN for value in inputs.values()):
            return None
        if state.type.startswith(PROVIDER_TYPE_PREFIX):
            await self._d.registry.same(state, checked=False)
        else:
            await self._d.registry.ensure(state.provider)
        provider = await self._provider(state)
        assert provider is not None
        diff = await provider.diff(
            state.urn, state.id, state.inputs, state.outputs, inputs, state.ignore_changes
        )
        diff = with_engine_diff(diff, state.inputs, inputs)
        diff = with_replace_on_changes(diff, state.replace_on_changes, False)
        return diff.replace_keys if diff.replaces else None

    def _cascades(self, urn: str) -> list[Condemned]:
        """Resources that are replaced or deleted with ``urn`` by option."""
        return [
            Condemned(e, ())
            for e in self._d.live.entries
            if not e.state.delete and (urn in e.state.replace_with or e.state.deleted_with == urn)
        ]

    def cascades(self, urn: str) -> list[Entry]:
        """Resources that are replaced or deleted with ``urn`` by option."""
        return [c.entry for c in self._cascades(urn)]

    def _decided(self) -> set[str]:
        return self.reads | self.creates | self.sames | self.updates | self.deletes | self.replaces

    # -- resources that stay out of a targeted operation -----------------------------------------------

    def _untargeted(self, urn: str, old: Entry, answer: Answer) -> list[Step]:
        if old.state.provider and not self._d.registry.has(old.state.provider):
            known = self._d.live.old(provider_urn(old.state.provider))
            if known is None or not old.state.provider.endswith(f"::{known.state.id}"):
                raise GoalError(f"could not find provider {old.state.provider} in old state", urn)
            raise GoalError(
                f"provider {old.state.provider} for resource {urn} has not been registered yet, this is "
                "due to a change of providers mixed with --target. "
                "Change your program back to the original providers",
                urn,
            )
        self.sames.add(urn)
        steps = self._same_with_dependencies(old, answer)
        if old.urn != urn:
            self.sames.add(old.urn)
        return steps

    def _same_with_dependencies(self, old: Entry, answer: Answer) -> list[Step]:
        """Same steps for ``old`` and, before it, for what it depends on and nobody registered.

        The program may have dropped a dependency that is not targeted: it stays, and it must stand
        before what depends on it.
        """
        steps: list[Step] = []
        if old.state.delete:
            return steps
        self.seen.add(old.urn)
        self.sames.add(old.urn)
        for urn in self._needs(old.state):
            if self._has_step(urn):
                continue
            dependency = self._d.live.old(urn)
            if dependency is None:
                self._d.error(f"dependency {urn} of untargeted resource {old.urn} has no old state", old.urn)
                raise Stopped
            steps += self._same_with_dependencies(dependency, None)
        new = self._d.live.successor(old, old.state)
        steps.append(SameStep(old, new, answer, untargeted=True))
        return steps

    def _untargeted_dependencies(self, state: ResourceState) -> list[Step]:
        if not self._d.options.targets:
            return []
        steps: list[Step] = []
        for urn in self._needs(state):
            old = self._d.live.old(urn)
            if old is not None and not self._has_step(urn):
                steps += self._same_with_dependencies(old, None)
        return steps

    @staticmethod
    def _needs(state: ResourceState) -> list[str]:
        return sorted(state.all_dependencies())

    def _has_step(self, urn: str) -> bool:
        return urn in self.seen or urn in self.aliased or self.is_operated_on(urn)

    def _validated(self, steps: list[Step]) -> list[Step]:
        options = self._d.options
        if not options.targets and not options.replace:
            return steps
        for step in steps:
            if step.new is None or (isinstance(step, SameStep) and step.skipped_create):
                continue
            for urn in sorted(step.new.state.all_dependencies() & self.skipped_creates):
                self._d.error(
                    f"Resource '{step.urn}' depends on '{urn}' which was was not specified in --target list.",
                    step.urn,
                )
                self.failed = True
                if not options.preview:
                    raise Stopped
                self.skipped_creates.discard(urn)
        return steps


def _shown(value: object) -> str:
    return "<nil>" if value is None else str(value)

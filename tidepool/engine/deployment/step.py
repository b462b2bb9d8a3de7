"""The steps of an operation, and the parts that they and those who decide on them work with.

A step is decided by the generator and done by the executor, in three acts: ``begin`` records the intent,
``apply`` has the effect, ``end`` records what it came to. A preview applies without effects and records
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from tidepool.engine.deployment.callbacks import Hooks
from tidepool.engine.deployment.live import Entry, LiveStack
from tidepool.engine.deployment.options import Options, Request
from tidepool.engine.deployment.registry import Registry
from tidepool.engine.deployment.status import Status
from tidepool.engine.events import Op, PropertyDiff, StepMetadata
from tidepool.engine.providers.contract import DiffResult, Provider
from tidepool.engine.resource import OperationType, ResourceState
from tidepool.engine.values import Properties, Secret, secret


@dataclass(slots=True)
class Books:
    """Written by those who decide, between two ``await``; read by all.

    Attributes:
        seen: URNs that the program registered, and those that stand in for them.
        skipped_creates: creates that were left out: not targeted, or a destroy that runs the program.
        aliased: old URN -> new URN of resources that were found under an alias; ``adopted`` the other way.
        to_delete: resources that a destroy which runs the program deletes when the program is done.
        pending_deletes: old resources (not URNs) whose delete was decided already; the event tells that their
            step is over, well or not.
        providers: provider resources of this operation, by URN.
        dependent_keys: what makes a resource be replaced for the sake of another, by URN.
        reached_targets: URNs that are targeted, dependents included where those count.
        reached_excludes: likewise of excluded ones.
    """

    seen: set[str] = field(default_factory=set)
    sames: set[str] = field(default_factory=set)
    creates: set[str] = field(default_factory=set)
    updates: set[str] = field(default_factory=set)
    replaces: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    refreshes: set[str] = field(default_factory=set)
    skipped_creates: set[str] = field(default_factory=set)
    aliased: dict[str, str] = field(default_factory=dict)
    adopted: dict[str, str] = field(default_factory=dict)
    to_delete: list[Entry] = field(default_factory=list)
    pending_deletes: dict[Entry, asyncio.Event] = field(default_factory=dict)
    providers: dict[str, Entry] = field(default_factory=dict)
    dependent_keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reached_targets: set[str] = field(default_factory=set)
    reached_excludes: set[str] = field(default_factory=set)

    def is_operated_on(self, urn: str) -> bool:
        """Tell whether the resource stays, or was replaced."""
        urn = self.aliased.get(urn, urn)
        return any(urn in decided for decided in (self.sames, self.updates, self.replaces, self.reads))

    def is_looked_at(self, urn: str) -> bool:
        """Tell whether it is known what the resource is now."""
        return self.is_operated_on(urn) or self.aliased.get(urn, urn) in self.refreshes

    def decided(self) -> set[str]:
        """URNs for which anything was decided, but for refreshes."""
        return set().union(*self._decided)

    @property
    def _decided(self) -> tuple[set[str], ...]:
        return self.reads, self.creates, self.sames, self.updates, self.deletes, self.replaces

    def is_decided(self, entry: Entry) -> bool:
        """Tell whether anything was decided for a resource that was there before, under its old name or a new one."""
        urns = {entry.urn, self.aliased.get(entry.urn, entry.urn)}
        return entry in self.pending_deletes or not all(map(urns.isdisjoint, self._decided))

    def has_step(self, urn: str) -> bool:
        """Tell whether the resource has a step in this operation, or will have one."""
        return urn in self.seen or urn in self.aliased or self.is_operated_on(urn)


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one operation that steps, and those who decide on them, work with. None is replaced while it runs."""

    request: Request
    status: Status
    live: LiveStack
    registry: Registry
    hooks: Hooks
    books: Books

    @property
    def options(self) -> Options:
        return self.request.options

    async def provider_for(self, state: ResourceState) -> Provider:
        if state.is_provider:
            return self.registry
        return await self.registry.get(state.provider)


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration. ``unknown`` is set where a create was left out."""

    state: ResourceState
    result: Literal["success", "failed", "skipped"] = "success"
    unknown: bool = False


#: Where the answer to a registration is awaited; None for steps that the engine made by itself.
Answer = asyncio.Future[Registered] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of applying a step.

    ``partial`` says that the resource is there in spite of the error; ``lost`` that nobody knows.
    """

    error: Exception | None = None
    partial: bool = False
    lost: bool = False

    @property
    def took_effect(self) -> bool:
        """True where the state is to be changed."""
        return self.error is None or self.partial


SUCCESS: Final = Outcome()


class Step:
    """One thing to be done to one resource. ``old`` and ``new`` are it before and after."""

    op: Op
    #: Whether the step is one that the program asked for, not a part of a larger one.
    logical: bool = True
    #: Whether the resource is not there and is not to be made in this operation.
    skipped_create: bool = False
    pending: OperationType | None = None
    keys: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    detailed_diff: Mapping[str, PropertyDiff] | None = None

    def __init__(self, old: Entry | None, new: Entry | None = None, answer: Answer = None) -> None:
        self.old = old
        self.new = new
        self.answer = answer

    def _explain(self, diff: DiffResult | None) -> None:
        """Tell why it is done, where a diff says so."""
        if diff is not None:
            self.diffs, self.detailed_diff = diff.changed_keys, diff.detailed_diff

    @property
    def result_op(self) -> Op:
        """The op that the step is counted as."""
        return self.op

    @property
    def subject(self) -> Entry:
        """The resource that the step is about."""
        entry = self.new or self.old
        assert entry is not None
        return entry

    @property
    def urn(self) -> str:
        return self.subject.urn

    @property
    def internal(self) -> bool:
        """True where the step is the engine's own business: default providers, book-keeping."""
        return is_default_provider(self.urn)

    def metadata(self) -> StepMetadata:
        """The step as events tell of it."""
        state = self.subject.state
        return StepMetadata(
            op=self.result_op,
            urn=state.urn,
            type=state.type,
            provider=state.provider,
            old=self.old.state if self.old else None,
            new=self.new.state if self.new else None,
            keys=self.keys,
            diffs=self.diffs,
            detailed_diff=self.detailed_diff,
            logical=self.logical,
        )

    async def begin(self, context: Context) -> int | None:
        """Record durably what is about to be done."""
        if self.pending is None:
            return None
        return await context.live.begin(self.pending, self.subject.state)

    async def apply(self, context: Context) -> Outcome:
        """Do it; this one only says that something is so."""
        return SUCCESS

    async def end(self, context: Context, number: int | None, outcome: Outcome) -> None:
        """Record what it came to."""
        if self.pending is not None and not outcome.lost:
            await context.live.end(number)

    def respond(self, result: Literal["success", "failed", "skipped"]) -> None:
        """Answer the registration that asked for the step."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(Registered(self.subject.state, result, unknown=self.skipped_create))


def is_default_provider(urn: str) -> bool:
    """Tell whether the URN is that of a provider that the engine made by itself."""
    _, _, rest = urn.partition("::pulumi:providers:")
    name = rest.rpartition("::")[2]
    return bool(rest) and (name == "default" or name.startswith("default_"))


def now() -> str:
    """The time as the checkpoint writes it: UTC, RFC 3339."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def mark_secrets(entry: Entry) -> ResourceState:
    """Mark the outputs that are secret by option, or equal by key to a secret input."""
    state = entry.state
    if not state.outputs:
        return state
    marked = {k for k in state.additional_secret_outputs if k != "id"}
    marked.update(k for k, v in state.inputs.items() if isinstance(v, Secret))
    if not any(k in marked and not isinstance(v, Secret) for k, v in state.outputs.items()):
        return state
    outputs: Properties = {k: secret(v) if k in marked else v for k, v in state.outputs.items()}
    return entry.change(outputs=outputs)

"""A provider in memory, the world that it changes, and the faults that it may have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tidepool.engine import urn as urns
from tidepool.engine.providers.contract import (
    CallResult,
    CheckFailure,
    CheckResult,
    ConstructResult,
    CreateResult,
    DiffResult,
    Existing,
    InitializationFailed,
    InvokeResult,
    Provider,
    ProviderDied,
    ProviderError,
    ReadResult,
    UpdateResult,
)
from tidepool.engine.values import UNKNOWN, Properties

#: Inputs whose change makes a new resource; of ``early`` the old one is deleted first.
REPLACING = ("key", "early", "inside")
#: By (method, name of the resource): "fail", "unclear", "refuse", "init", "die", "die-after", "cancel".
Faults = Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Thing:
    """What exists. ``inside`` of its inputs is the id of a thing that it goes with."""

    id: str
    urn: str
    inputs: Properties


@dataclass
class World:
    """All that exists, by id. ``unanswered`` are ids by URN: made, and nobody was told."""

    things: dict[str, Thing] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    #: Ids of things that the stack no longer has, on purpose.
    let_go: set[str] = field(default_factory=set)
    #: Ids of things that were being changed or deleted when an operation was cut off. As with the CLI, the next
    #: operation warns of them and lists them no longer; what became of them only a refresh or a new change tells.
    unsure: set[str] = field(default_factory=set)
    effects: list[str] = field(default_factory=list)
    serial: int = 0

    def copy(self) -> World:
        """The world as it is now."""
        return World(
            dict(self.things), dict(self.unanswered), set(self.let_go), set(self.unsure), [], self.serial
        )

    def create(self, urn: str, inputs: Properties) -> str:
        """Make a thing, or take the one that was made for the same URN without anybody being told."""
        id = self.unanswered.get(urn, "")
        if id not in self.things:
            self.serial += 1
            id = f"{urns.name_of(urn)}-{self.serial}"
        self.effects.append(f"create {id}")
        self.things[id] = Thing(id, urn, inputs)
        self.unanswered[urn] = id
        return id

    def update(self, id: str, inputs: Properties) -> None:
        """Change a thing."""
        self.effects.append(f"update {id}")
        self.things[id] = replace(self.things[id], inputs=inputs)

    def delete(self, id: str) -> None:
        """Remove a thing, and all that is inside of it."""
        self.effects.append(f"delete {id}")
        self.things.pop(id, None)
        for other in [t for t in self.things.values() if t.inputs.get("inside") == id]:
            self.delete(other.id)

    def drift(self, id: str, inputs: Properties | None) -> None:
        """Change or remove a thing behind everybody's back."""
        before = set(self.things)
        if inputs is None:
            self.delete(id)
        else:
            self.things[id] = replace(self.things[id], inputs=inputs)
        self.unsure |= {id} | (before - self.things.keys())


class MemoryProvider(Provider):
    """The provider of package ``mem``."""

    def __init__(
        self,
        world: World,
        faults: Faults,
        turns: Callable[[], int],
        seen: Callable[[], None],
        cancel: Callable[[], None],
        needed: Callable[[str], list[str]] = lambda _: [],
        down: Set[str] = frozenset(),
    ) -> None:
        """``turns`` says how often a call lets others go first; ``seen`` is called after each effect.

        ``needed`` tells which things must not be there any more when one is deleted; ``down`` are ids that
        are known not to be there, which a program that is limited to targets may still be given.
        """
        self._world = world
        self._faults = faults
        self._turns = turns
        self._seen = seen
        self._cancel = cancel
        self._needed = needed
        self._down = down
        self._dead = False
        self._under_way = 0
        self.closed = False

    async def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        await self._begin("check", urn)
        return CheckResult(news)

    async def diff_config(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        await self._begin("diff", urn)
        if old.inputs == new_inputs:
            return DiffResult("none")
        return DiffResult("some", ("key",) if old.inputs.get("key") != new_inputs.get("key") else ())

    async def configure(self, urn: str, id: str, inputs: Properties) -> None:
        await self._begin("configure", urn)

    async def check(
        self, urn: str, olds: Properties, news: Properties, random_seed: bytes, preview: bool
    ) -> CheckResult:
        if await self._begin("check", urn) == "refuse":
            return CheckResult({}, (CheckFailure("value", "is refused"),))
        return CheckResult(news)

    async def diff(
        self, urn: str, old: Existing, new_inputs: Properties, ignore_changes: tuple[str, ...]
    ) -> DiffResult:
        await self._begin("diff", urn)
        keys = old.inputs.keys() | new_inputs.keys()
        changed = {k for k in keys if k not in ignore_changes and old.inputs.get(k) != new_inputs.get(k)}
        if not changed:
            return DiffResult("none")
        replacing = tuple(k for k in REPLACING if k in changed)
        if "refs" in changed and new_inputs.get("fixed"):
            replacing += ("refs",)
        return DiffResult(
            "some", replacing, changed_keys=tuple(sorted(changed)), delete_before_replace="early" in changed
        )

    async def create(self, urn: str, inputs: Properties, timeout_s: float, preview: bool) -> CreateResult:
        if preview:
            return CreateResult("", {**inputs, "id": UNKNOWN})
        fault = await self._begin("create", urn)
        needed = (*inputs.get("refs", ()), *([inputs["inside"]] if "inside" in inputs else ()))
        missing = [id for id in needed if id not in self._world.things]
        if not (self._world.unsure | self._down).isdisjoint(missing):
            raise ProviderError(f"{missing} went away")
        assert not missing, f"{urn} is created before {missing} exist"
        id = self._world.create(urn, inputs)
        outputs = {**inputs, "id": id}
        await self._end(fault, id, outputs)
        self._world.unanswered.pop(urn, None)
        if fault == "init":
            raise InitializationFailed(id, outputs, None, ("it did not come up",))
        return CreateResult(id, outputs)

    async def read(self, urn: str, old: Existing, timeout_s: float = 0) -> ReadResult:
        fault = await self._begin("read", urn)
        thing = self._world.things.get(old.id)
        if thing is None:
            return ReadResult("", None, None)
        found = {**thing.inputs, "id": old.id}
        if fault == "init":
            raise InitializationFailed(old.id, found, thing.inputs, ("it is not well",))
        return ReadResult(old.id, thing.inputs, found)

    async def update(
        self,
        urn: str,
        old: Existing,
        new_inputs: Properties,
        timeout_s: float,
        ignore_changes: tuple[str, ...],
        preview: bool,
    ) -> UpdateResult:
        outputs = {**new_inputs, "id": old.id}
        if preview:
            return UpdateResult(outputs)
        fault = await self._begin("update", urn)
        if old.id not in self._world.things:
            raise ProviderError(f"there is no {old.id}")
        self._world.update(old.id, new_inputs)
        await self._end(fault, old.id, outputs)
        self._world.unsure.discard(old.id)
        return UpdateResult(outputs)

    async def delete(self, urn: str, old: Existing, timeout_s: float) -> None:
        fault = await self._begin("delete", urn)
        assert not self._needed(old.id), f"{old.id} is deleted before {self._needed(old.id)}"
        self._world.delete(old.id)
        await self._end(fault, old.id, None)

    async def construct(self, request: Any) -> ConstructResult:
        raise NotImplementedError

    async def invoke(self, token: str, args: Properties, preview: bool) -> InvokeResult:
        raise NotImplementedError

    async def call(self, request: Any) -> CallResult:
        raise NotImplementedError

    async def cancel(self) -> None:
        """What is under way is left to come to its end."""

    async def close(self) -> None:
        """End the process: what is under way dies with it."""
        self.closed = True
        assert not self._under_way, "the provider is ended while calls are under way"

    async def _begin(self, method: str, urn: str) -> str:
        assert not self.closed, f"{method} of {urn} is asked of a provider that was ended"
        # What has no effect may be cut off; it is asked again.
        counts = method in ("create", "read", "update", "delete")
        self._under_way += counts
        try:
            fault = self._faults.get((method, urns.name_of(urn)), "")
            if fault == "cancel":
                self._cancel()
            await self._let_others_go_first()
            if fault == "die":
                self._dead = True
            self._check_alive()
            if fault in ("fail", "unclear"):
                raise ProviderError(f"{method} of {urn} failed", state_unknown=fault == "unclear")
            return fault
        finally:
            self._under_way -= counts

    async def _end(self, fault: str, id: str, outputs: Properties | None) -> None:
        self._seen()
        self._under_way += 1
        try:
            await self._let_others_go_first()
            if fault == "die-after":
                self._dead = True
            self._check_alive()
            if fault == "init" and outputs is not None:
                self._world.unanswered.pop(self._world.things[id].urn, None)
                raise InitializationFailed(id, outputs, None, ("it did not come up",))
        finally:
            self._under_way -= 1

    async def _let_others_go_first(self) -> None:
        for _ in range(self._turns()):
            await asyncio.sleep(0)

    def _check_alive(self) -> None:
        if self._dead:
            raise ProviderDied("the provider died")

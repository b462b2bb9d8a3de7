"""The stack while an operation changes it: entries and their dependencies, the fold over them, and the journal behind both."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidepool.engine.errors import EngineError
from tidepool.engine.resource import OperationType, PendingOperation, ResourceState, Snapshot
from tidepool.engine.state.journal import Begin, Encode, End, Fold, Journal, Record, encode_record


class Entry:
    """One resource, as it is known at the moment.

    States are values; an entry is the thing that they are states of. Two entries with one URN are two
    resources (one of them waits for its deletion). ``number`` is the resource's number in the journal.
    """

    __slots__ = ("number", "state")

    def __init__(self, number: int, state: ResourceState) -> None:
        self.number = number
        self.state = state

    def change(self, **fields: Any) -> ResourceState:
        """Set fields of the state, and return it."""
        self.state = self.state.changed(**fields)
        return self.state

    @property
    def urn(self) -> str:
        return self.state.urn

    def __repr__(self) -> str:
        return f"Entry({self.number}, {self.state.urn})"


def provider_urn(reference: str) -> str:
    """The URN within a provider reference (``URN::ID``); empty for an empty reference."""
    return reference.rsplit("::", 1)[0] if reference else ""


def _needs(state: ResourceState, *, parent: bool) -> Iterator[str]:
    for kind, urn in state.references():
        if parent or kind != "parent":
            yield urn
    if state.provider:
        yield provider_urn(state.provider)


class Graph:
    """Dependencies among ``entries``, which stand in an order in which each follows what it depends on.

    A URN may stand more than once: older copies wait for their deletion. A dependency on a URN is on
    every copy that stands before the dependent.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: Sequence[Entry] = tuple(entries)
        self._positions: dict[Entry, int] = {e: i for i, e in enumerate(self._entries)}
        self._by_urn: dict[str, list[int]] = defaultdict(list)
        self._children: dict[str, list[int]] = defaultdict(list)
        for i, entry in enumerate(self._entries):
            for urn in (entry.urn, *entry.state.aliases):
                self._by_urn[urn].append(i)
            if entry.state.parent:
                self._children[entry.state.parent].append(i)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._positions

    def position(self, entry: Entry) -> int:
        """Return the number of the resource in the order; what it depends on comes before it."""
        return self._positions[entry]

    def dependents(self, root: Entry, *, ignore: Collection[str] = (), children: bool = False) -> list[Entry]:
        """All that depend on ``root``, directly or not, each after those that it depends on.

        ``ignore`` names URNs that are known not to depend on it; ``children`` counts a child as dependent.
        """
        affected = {root.urn, *root.state.aliases}
        found: list[Entry] = []
        for candidate in self._entries[self._positions[root] + 1 :]:
            if candidate.urn in ignore:
                continue
            if any(urn in affected for urn in _needs(candidate.state, parent=children)):
                found.append(candidate)
                affected.update((candidate.urn, *candidate.state.aliases))
        return found

    def dependencies(self, entry: Entry) -> list[Entry]:
        """Return the direct dependencies of ``entry``; one on a component means on all that is below it, too."""
        position = self._positions[entry]
        found: dict[int, None] = {}
        for urn in _needs(entry.state, parent=False):
            for i in self._by_urn.get(urn, ()):
                if i < position:
                    found[i] = None
                    if not self._entries[i].state.custom:
                        found.update((c, None) for c in self._below(i) if c < position)
        if entry.state.parent:
            found.update((i, None) for i in self._by_urn.get(entry.state.parent, ()) if i < position)
        return [self._entries[i] for i in found]

    def transitive_dependencies(self, entry: Entry) -> set[Entry]:
        found: set[Entry] = set()
        frontier = [entry]
        while frontier:
            for dependency in self.dependencies(frontier.pop()):
                if dependency not in found:
                    found.add(dependency)
                    frontier.append(dependency)
        return found

    def _below(self, i: int) -> Iterator[int]:
        for urn in (self._entries[i].urn, *self._entries[i].state.aliases):
            for child in self._children.get(urn, ()):
                yield child
                yield from self._below(child)


class Durable:
    """Makes records durable for many steps at once.

    While one write runs, the records of other steps gather; the next one takes them all. So the cost
    of durability is shared by the steps that run at the same time.
    """

    def __init__(self, journal: Journal, encode: Encode) -> None:
        self._journal = journal
        self._encode = encode
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._waiting: list[asyncio.Future[None]] = []
        self._writer: asyncio.Task[None] | None = None

    def note(self, record: Record) -> None:
        """Write ``record`` with the next one that is waited for."""
        self._journal.append(encode_record(record, self._encode))

    async def write(self, record: Record) -> None:
        """Return when ``record``, and all before it, are durable."""
        self.note(record)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        await done

    async def flush(self) -> None:
        """Return when all that was noted is durable."""
        if self._writer is not None:
            await self._writer
        text = self._journal.take()
        if text:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._journal.write, text)

    def close(self) -> None:
        self._thread.shutdown()

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(self._thread, self._journal.write, self._journal.take())
            except Exception as error:  # noqa: BLE001 - each waiting step gets it: it is their error, not the writer's
                for future in waiting:
                    if not future.done():
                        future.set_exception(error)
            else:
                for future in waiting:
                    if not future.done():
                        future.set_result(None)
        self._writer = None


class LiveStack:
    """The resources of the stack as the operation goes on.

    ``entries`` are those that it began with, as refreshed since. Without ``durable`` (in a preview) nothing is recorded.
    """

    def __init__(self, base: Snapshot, durable: Durable | None) -> None:
        self._fold = Fold(base)
        self._durable = durable
        self._steps = 0
        self._graph: Graph | None = None
        self.rebase(Entry(n, s) for n, s in enumerate(base.resources))
        self._next = len(self.entries)

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            self._graph = Graph(self.entries)
        return self._graph

    def old(self, urn: str) -> Entry | None:
        """The live resource of that URN that the operation began with."""
        return self._old.get(urn)

    def old_all(self, urn: str) -> list[Entry]:
        """All resources of that URN, those that wait for their deletion included."""
        return self._old_all.get(urn, [])

    def new_entry(self, state: ResourceState, old: Entry | None = None) -> Entry:
        """An entry for a resource that is about to be made, or for what ``old`` is about to become."""
        if old is not None:
            return Entry(old.number, state)
        self._next += 1
        return Entry(self._next - 1, state)

    def rebase(self, entries: Iterable[Entry]) -> None:
        """Go on from ``entries``: what a refresh made of those before."""
        self.entries = list(entries)
        self._graph = None
        self._old: dict[str, Entry] = {}
        self._old_all: dict[str, list[Entry]] = {}
        for entry in self.entries:
            self._old_all.setdefault(entry.urn, []).append(entry)
            if not entry.state.delete:
                self._old[entry.urn] = entry

    async def begin(self, type: OperationType, state: ResourceState) -> int | None:
        """Record durably that a step on ``state`` is about to have its effect; gives its number."""
        if self._durable is None:
            return None
        self._steps += 1
        record = Begin(self._steps, PendingOperation(state, type))
        self._fold.apply(record)
        try:
            await self._durable.write(record)
        except EngineError:
            await self.end(record.step, durable=False)  # it will not be done, so nothing is pending
            raise
        return record.step

    async def end(
        self,
        step: int | None,
        *,
        puts: Iterable[Entry] = (),
        amends: Iterable[Entry] = (),
        keeps: Iterable[Entry] = (),
        drops: Iterable[Entry] = (),
        mends: bool = False,
        durable: bool = True,
    ) -> None:
        """Record what a step came to, durably unless it had no effect outside the state."""
        if self._durable is None:
            return
        record = End(
            step,
            tuple((e.number, e.state) for e in puts),
            tuple((e.number, e.state) for e in amends),
            tuple(e.number for e in keeps),
            tuple(e.number for e in drops),
            mends,
        )
        self._fold.apply(record)
        if durable:
            await self._durable.write(record)
        else:
            self._durable.note(record)

    def is_needed(self, provider: ResourceState) -> bool:
        """Tell whether a resource of the stack as it is now needs ``provider``. A preview records nothing, and needs nothing."""
        if self._durable is None or not provider.is_provider:
            return False
        reference = f"{provider.urn}::{provider.id}"
        return any(r.provider == reference and not r.pending_replacement for r in self._fold.resources())

    def snapshot(self) -> Snapshot:
        return self._fold.snapshot()

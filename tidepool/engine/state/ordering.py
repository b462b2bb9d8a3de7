"""The order in which a snapshot lists its resources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush

from tidepool.engine.resource import ResourceState
from tidepool.engine.state.mending import letting_go


def ordered(resources: Sequence[ResourceState]) -> tuple[ResourceState, ...]:
    """``resources``, each after all that it refers to; what stands so already stays in its place.

    Where some refer to each other in a circle, one lets go of those that come after it.
    """
    return tuple(letting_go(resources[i], names) for i, names in order(resources).items())


def order(resources: Sequence[ResourceState]) -> dict[int, Set[str]]:
    """The places of ``resources`` in their order, and what each refers to that comes after it all the same."""
    bearers: dict[str, list[int]] = defaultdict(list)
    for i, state in enumerate(resources):
        for name in _names(state):
            bearers[name].append(i)
    lacking = [{name for name in _needs(state) if name in bearers} for state in resources]
    let_go: list[set[str]] = [set() for _ in resources]
    awaiting: dict[str, list[int]] = defaultdict(list)
    for i, names in enumerate(lacking):
        for name in names:
            awaiting[name].append(i)
    ready = [i for i, names in enumerate(lacking) if not names]
    left = dict.fromkeys(range(len(resources)))
    placed: dict[int, Set[str]] = {}
    while left:
        if not ready:
            i, name = min(
                _circle(lacking, bearers, next(iter(left))),
                key=lambda link: (_weight(resources[link[0]], link[1]), link),
            )
            let_go[i].add(name)
            lacking[i].discard(name)
            if lacking[i]:
                continue
            ready.append(i)
        i = heappop(ready)
        del left[i]
        placed[i] = let_go[i]
        for name in _names(resources[i]):
            for j in awaiting.pop(name, ()):
                if name in lacking[j]:
                    lacking[j].discard(name)
                    if not lacking[j]:
                        heappush(ready, j)
    return placed


def _circle(
    lacking: Sequence[Set[str]], bearers: Mapping[str, Sequence[int]], first: int
) -> list[tuple[int, str]]:
    """A circle that is reached from ``first``: resources, and the name by which each needs the next."""
    path: dict[int, str] = {}
    i = first
    while i not in path:
        path[i] = min(lacking[i])
        i = bearers[path[i]][0]
    links = list(path.items())
    return links[list(path).index(i) :]


def _weight(state: ResourceState, name: str) -> int:
    """How much it matters that a resource stands after ``name``: of its provider it cannot let go."""
    return 2 if name == state.provider else 1 if name == state.parent else 0


def _names(state: ResourceState) -> Iterator[str]:
    for urn in (state.urn, *state.aliases):
        yield urn
        if state.is_provider:
            yield f"{urn}::{state.id}"


def _needs(state: ResourceState) -> Iterator[str]:
    if state.provider:
        yield state.provider
    if state.parent:
        yield state.parent
    yield from state.dependencies
    for urns in state.property_dependencies.values():
        yield from urns
    if state.deleted_with:
        yield state.deleted_with
    yield from state.replace_with

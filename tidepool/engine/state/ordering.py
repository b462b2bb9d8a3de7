"""The order in which a snapshot lists its resources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tidepool.engine.resource import ResourceState


def ordered(resources: Sequence[ResourceState]) -> tuple[ResourceState, ...]:
    """``resources``, each after all that it refers to; what stands so already stays in its place."""
    at: dict[str, list[int]] = defaultdict(list)
    for i, state in enumerate(resources):
        for name in _names(state):
            at[name].append(i)
    there: set[str] = set()
    begun: set[int] = set()
    placed: dict[int, None] = {}
    for first in range(len(resources)):
        stack = [first]
        while stack:
            i = stack[-1]
            state = resources[i]
            missing = [n for n in _needs(state) if n not in there] if i not in begun else []
            begun.add(i)
            # Copies that wait for their deletion are the last to be meant.
            wanted = [min(at[n], key=lambda j: resources[j].delete) for n in missing if n in at]
            wanted = [j for j in wanted if j not in begun]
            if wanted:
                stack += reversed(wanted)
            else:
                stack.pop()
                placed[i] = None
                there.update(_names(state))
    return tuple(resources[i] for i in placed)


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

"""References between the resources of a stack: verified, put in order, repaired, brought to new names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, Final

from tidepool.engine import urn as urns
from tidepool.engine.errors import EngineError
from tidepool.engine.resource import PendingOperation, ResourceState, Snapshot
from tidepool.engine.state.layout import StackReference
from tidepool.engine.value_json import RESOURCE_REFERENCE, SIGNATURE_KEY


class IntegrityError(EngineError):
    """A snapshot contradicts itself. The message names the resource and what is missing."""


def verify_integrity(snapshot: Snapshot) -> None:
    """Check that every resource is well-formed and stands after all it refers to.

    Raises:
        IntegrityError: naming the first resource that does not, and what is wrong with it.
    """
    seen: set[str] = set()
    live: set[str] = set()
    providers: set[str] = set()
    for index, state in enumerate(snapshot.resources):
        urn = state.urn
        if not urn:
            raise IntegrityError(f"resource at index {index} missing required 'urn' field")
        if not state.type:
            raise IntegrityError(f"resource '{urn}' missing required 'type' field")
        if state.id and not state.custom:
            raise IntegrityError(f"resource '{urn}' has 'custom' false but non-empty ID")
        if state.is_provider:
            if not state.id:
                raise IntegrityError(f"provider {urn} is not referenceable: it has no ID")
            providers.add(f"{urn}::{state.id}")
        if state.provider and state.provider not in providers and not state.pending_replacement:
            raise IntegrityError(f"resource {urn} refers to unknown provider {state.provider}")
        for kind, other in state.references():
            if other not in seen:
                raise IntegrityError(_missing(snapshot, index, kind, other))
        if not state.delete:
            if urn in live:
                raise IntegrityError(f"duplicate resource {urn} (not marked for deletion)")
            live.add(urn)
        seen.add(urn)


def _missing(snapshot: Snapshot, index: int, kind: str, urn: str) -> str:
    resource = snapshot.resources[index].urn
    if any(later.urn == urn for later in snapshot.resources[index + 1 :]):
        return f"resource {resource}: its {kind} {urn} comes after it"
    if urn == resource:
        return f"resource {resource}: its {kind} is the resource itself"
    return f"resource {resource}: its {kind} {urn} is missing"


def repaired(resources: Iterable[ResourceState]) -> list[ResourceState]:
    """``resources`` without references to others that are gone.

    Dependencies on them are dropped, and their children become those of their parents. ``resources`` stand
    in order, so what a resource may refer to stands before it.
    """
    result: list[ResourceState] = []
    there: set[str] = set()
    parents: dict[str, str] = {}
    for state in resources:
        changed = without_references(state, state.all_dependencies() - there)
        if changed.parent != state.parent:
            changed = replace(changed, parent=parents.get(state.parent, ""))
        parents[state.urn] = changed.parent
        there.update((state.urn, *state.aliases))
        result.append(changed)
    return result


def without_empty(state: ResourceState) -> ResourceState:
    """Return ``state`` without properties that are said to come from nothing, as the CLI has it after a refresh."""
    if all(state.property_dependencies.values()):
        return state
    return replace(state, property_dependencies={k: v for k, v in state.property_dependencies.items() if v})


def without_references(state: ResourceState, urns: Set[str]) -> ResourceState:
    """``state`` without references to ``urns``, but for that to its provider."""
    if urns.isdisjoint(state.all_dependencies()):
        return state
    left = {key: [u for u in named if u not in urns] for key, named in state.property_dependencies.items()}
    return replace(
        state,
        parent="" if state.parent in urns else state.parent,
        dependencies=tuple(u for u in state.dependencies if u not in urns),
        property_dependencies={key: tuple(named) for key, named in left.items() if named},
        replace_with=tuple(u for u in state.replace_with if u not in urns),
        deleted_with="" if state.deleted_with in urns else state.deleted_with,
    )


def ordered(resources: Sequence[ResourceState]) -> tuple[ResourceState, ...]:
    """``resources``, each after all that it refers to; what stands so already stays in its place.

    Where some refer to each other in a circle, one lets go of those that come after it.
    """
    return tuple(without_references(resources[i], names) for i, names in order(resources).items())


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
    """Weigh how much it matters that a resource comes after ``name``: it cannot do without its provider."""
    return 2 if name == state.provider else 1 if name == state.parent else 0


def _names(state: ResourceState) -> Iterator[str]:
    for urn in (state.urn, *state.aliases):
        yield urn
        if state.is_provider:
            yield f"{urn}::{state.id}"


def _needs(state: ResourceState) -> Iterator[str]:
    yield state.provider
    for _, urn in state.references():
        yield urn


def normalize_urn_references(snapshot: Snapshot) -> Snapshot:
    """``snapshot`` with every reference by an alias replaced, and no aliases left.

    Raises:
        IntegrityError: when two resources claim one alias.
    """
    if not any(state.aliases for state in snapshot.resources):
        return snapshot
    renamed = _renames(snapshot.resources)
    return replace(
        snapshot,
        resources=tuple(_normalized(state, renamed) for state in snapshot.resources),
        pending_operations=tuple(
            PendingOperation(replace(op.resource, aliases=()), op.type) for op in snapshot.pending_operations
        ),
    )


def _renames(resources: tuple[ResourceState, ...]) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for state in resources:
        for alias in state.aliases:
            if renamed.setdefault(alias, state.urn) != state.urn:
                raise IntegrityError(
                    f"two resources ('{renamed[alias]}' and '{state.urn}') have the same alias: '{alias}'"
                )
        parent = renamed.get(state.parent)
        if parent and urns.qualified_type_of(parent) != urns.ROOT_STACK_TYPE:
            own = urns.parse(state.urn)
            # A child's URN holds its parents' types, which a renamed parent may have changed.
            renamed[state.urn] = urns.make(
                own.stack, own.project, urns.qualified_type_of(parent), own.type, own.name
            )
    return renamed


def _normalized(state: ResourceState, renamed: dict[str, str]) -> ResourceState:
    def fixed(urn: str) -> str:
        return renamed.get(urn, urn)

    provider = state.provider
    if provider:
        urn, _, id = provider.rpartition("::")
        provider = f"{fixed(urn)}::{id}"
    return replace(
        state,
        urn=fixed(state.urn),
        parent=fixed(state.parent),
        provider=provider,
        dependencies=tuple(map(fixed, state.dependencies)),
        property_dependencies={k: tuple(map(fixed, v)) for k, v in state.property_dependencies.items()},
        deleted_with=fixed(state.deleted_with),
        replace_with=tuple(map(fixed, state.replace_with)),
        view_of=fixed(state.view_of),
        aliases=(),
    )


_ONE: Final = ("urn", "parent", "deletedWith", "viewOf")
_MANY: Final = ("dependencies", "replaceWith", "aliases")


def rename_deployment(raw: dict[str, Any], old: StackReference, new: StackReference) -> dict[str, Any]:
    """``raw`` (a ``DeploymentV3``) with the stack ``old`` named ``new``; ``raw`` itself stays as it is.

    Works on the JSON form, so no passphrase is needed: URNs do not stand within ciphertexts, only within
    secrets in plain text. Source: ``RenameStack`` in ``pkg/resource/edit/operations.go``.
    """
    out = dict(raw)
    if raw.get("resources"):
        out["resources"] = [_resource(r, old, new) for r in raw["resources"]]
    if raw.get("pending_operations"):
        out["pending_operations"] = [
            {**op, "resource": _resource(op["resource"], old, new)} for op in raw["pending_operations"]
        ]
    return out


def rename_urn(urn: str, old: StackReference, new: StackReference) -> str:
    """``urn`` moved from the stack ``old`` to ``new``; as it is where it belongs to another stack."""
    try:
        parts = urns.parse(urn)
    except ValueError:
        return urn
    if parts.stack != old.name or parts.project != old.project:
        return urn
    is_root = parts.qualified_type == urns.ROOT_STACK_TYPE
    name = f"{new.project}-{new.name}" if is_root else parts.name
    return urns.make(new.name, new.project, "", parts.qualified_type, name)


def _resource(raw: dict[str, Any], old: StackReference, new: StackReference) -> dict[str, Any]:
    out = dict(raw)
    for key in _ONE:
        if out.get(key):
            out[key] = rename_urn(out[key], old, new)
    for key in _MANY:
        if out.get(key):
            out[key] = [rename_urn(u, old, new) for u in out[key]]
    if out.get("propertyDependencies"):
        out["propertyDependencies"] = {
            key: [rename_urn(u, old, new) for u in deps or ()]
            for key, deps in out["propertyDependencies"].items()
        }
    if out.get("provider"):
        urn, _, id = out["provider"].rpartition("::")
        out["provider"] = f"{rename_urn(urn, old, new)}::{id}"
    for key in ("inputs", "outputs", "replacementTrigger"):
        if out.get(key) is not None:
            out[key] = _value(out[key], old, new)
    return out


def _value(raw: Any, old: StackReference, new: StackReference) -> Any:
    if isinstance(raw, list):
        return [_value(item, old, new) for item in raw]
    if not isinstance(raw, dict):
        return raw
    if raw.get(SIGNATURE_KEY) == RESOURCE_REFERENCE and isinstance(raw.get("urn"), str):
        return {**raw, "urn": rename_urn(raw["urn"], old, new)}
    if SIGNATURE_KEY in raw:
        return raw
    return {key: _value(item, old, new) for key, item in raw.items()}

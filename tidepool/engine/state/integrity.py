"""Is a snapshot whole? The rules are those of Pulumi's ``Snapshot.VerifyIntegrity``."""

from __future__ import annotations

from collections.abc import Iterator

from tidepool.engine.errors import EngineError
from tidepool.engine.resource import ResourceState, Snapshot


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
        for kind, other in _references(state):
            if other not in seen:
                raise IntegrityError(_missing(snapshot, index, kind, other))
        if not state.delete:
            if urn in live:
                raise IntegrityError(f"duplicate resource {urn} (not marked for deletion)")
            live.add(urn)
        seen.add(urn)


def _references(state: ResourceState) -> Iterator[tuple[str, str]]:
    if state.parent:
        yield "parent", state.parent
    for urn in state.dependencies:
        yield "dependency", urn
    for key, urns in state.property_dependencies.items():
        for urn in urns:
            yield f"property dependency (of property {key})", urn
    if state.deleted_with:
        yield "deletedWith", state.deleted_with
    for urn in state.replace_with:
        yield "replaceWith", urn


def _missing(snapshot: Snapshot, index: int, kind: str, urn: str) -> str:
    resource = snapshot.resources[index].urn
    if any(later.urn == urn for later in snapshot.resources[index + 1 :]):
        return f"resource {resource}: its {kind} {urn} comes after it"
    if urn == resource:
        return f"resource {resource}: its {kind} is the resource itself"
    return f"resource {resource}: its {kind} {urn} is missing"

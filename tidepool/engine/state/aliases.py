"""References to old names, made references to the new ones.

A resource that was renamed keeps its old URNs as aliases until the state is written. Pulumi's
``NormalizeURNReferences`` (``sdk/go/common/apitype/core.go``) then points everything at the new URNs and
drops the aliases; so do we.
"""

from __future__ import annotations

from dataclasses import replace

from tidepool.engine import urn as urns
from tidepool.engine.resource import PendingOperation, ResourceState, Snapshot
from tidepool.engine.state.integrity import IntegrityError


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

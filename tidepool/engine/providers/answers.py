"""A plugin's answers in the engine's words."""

from __future__ import annotations

from typing import Any, Final

from tidepool.engine.events import DiffKind, PropertyDiff
from tidepool.engine.providers.contract import CheckFailure, DiffResult
from tidepool.engine.wire import Decoder

#: Answers in a preview may hold unknown values; others must not.
IN_PREVIEW: Final = Decoder(outputs=False)
KNOWN: Final = Decoder(outputs=False, reject_unknowns=True)
#: Of components: outputs keep their dependencies. Outside previews unknown values are left out.
COMPONENT_IN_PREVIEW: Final = Decoder()
COMPONENT: Final = Decoder(unknowns=False)

# By number, as in `PropertyDiff.Kind` and `DiffResponse.DiffChanges` of provider.proto.
_KINDS: Final[tuple[DiffKind, ...]] = (
    "add",
    "add-replace",
    "delete",
    "delete-replace",
    "update",
    "update-replace",
)
_CHANGES: Final = {1: "none", 2: "some"}


def decoder(preview: bool) -> Decoder:
    """For answers about custom resources."""
    return IN_PREVIEW if preview else KNOWN


def component_decoder(preview: bool) -> Decoder:
    """For answers about components."""
    return COMPONENT_IN_PREVIEW if preview else COMPONENT


def failures(messages: Any) -> tuple[CheckFailure, ...]:
    """Mistakes in inputs or arguments."""
    return tuple(CheckFailure(m.property, m.reason) for m in messages)


def diff_result(response: Any) -> DiffResult:
    """What a ``DiffResponse`` says. A kind of difference that is not known counts as an update."""
    detailed = None
    if response.hasDetailedDiff:
        detailed = {
            path: PropertyDiff(_KINDS[d.kind] if 0 <= d.kind < len(_KINDS) else "update", d.inputDiff)
            for path, d in response.detailedDiff.items()
        }
    return DiffResult(
        changes=_CHANGES.get(response.changes, "unknown"),  # type: ignore[arg-type]
        replace_keys=tuple(response.replaces),
        stable_keys=tuple(response.stables),
        changed_keys=tuple(response.diffs),
        delete_before_replace=response.deleteBeforeReplace,
        detailed_diff=detailed,
    )


def urns_by_key(messages: Any) -> dict[str, tuple[str, ...]]:
    """The dependencies of each key."""
    return {key: tuple(message.urns) for key, message in messages.items()}

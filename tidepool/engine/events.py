"""Events of an operation while it runs. The display draws these, the event log stores them.

Values in events are typed property values (see :mod:`tidepool.engine.values`) and may hold secrets:
whoever shows or writes an event masks them (:func:`tidepool.engine.values.masked`).
The kinds and their JSON form are those of Pulumi's ``sdk/go/common/apitype/events.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from tidepool.engine.resource import ResourceState


class Op(StrEnum):
    """The operation of a step. The values are Pulumi's words."""

    SAME = "same"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "replace"
    CREATE_REPLACEMENT = "create-replacement"
    DELETE_REPLACED = "delete-replaced"
    READ = "read"
    READ_REPLACEMENT = "read-replacement"
    REFRESH = "refresh"
    READ_DISCARD = "discard"
    DISCARD_REPLACED = "discard-replaced"
    REMOVE_PENDING_REPLACE = "remove-pending-replace"
    IMPORT = "import"
    IMPORT_REPLACEMENT = "import-replacement"


Severity = Literal["debug", "info", "info#err", "warning", "error"]
DiffKind = Literal["add", "add-replace", "delete", "delete-replace", "update", "update-replace"]


@dataclass(frozen=True, slots=True)
class PropertyDiff:
    """One property path that differs. ``input_diff`` is true where old and new *inputs* differ."""

    kind: DiffKind
    input_diff: bool = False


@dataclass(frozen=True, slots=True)
class StepMetadata:
    """The step that an event tells of. ``old`` and ``new`` are None where there is no such state.

    ``detailed_diff`` maps property paths (``tags["a.b"].c[0]``) to their difference; None where the
    provider gave none. ``keys`` made a replacement necessary, ``diffs`` are all changed top-level keys.
    """

    op: Op
    urn: str
    type: str
    provider: str
    old: ResourceState | None
    new: ResourceState | None
    keys: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    detailed_diff: Mapping[str, PropertyDiff] | None = None
    logical: bool = True


@dataclass(frozen=True, slots=True)
class Prelude:
    """The operation begins. ``config`` holds full keys; secret values are masked already."""

    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResourcePre:
    """A step begins (in a preview: would begin)."""

    metadata: StepMetadata
    planning: bool


@dataclass(frozen=True, slots=True)
class ResourceOutputs:
    """A step succeeded, or a component registered its outputs."""

    metadata: StepMetadata
    planning: bool


@dataclass(frozen=True, slots=True)
class ResourceFailed:
    """A step failed; a Diagnostic with the same URN says why."""

    metadata: StepMetadata
    status: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message for the person, about ``urn`` where it is not empty. ``ephemeral`` ones are not kept."""

    severity: Severity
    message: str
    urn: str = ""
    stream_id: int = 0
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Stdout:
    """Text for the person as it is."""

    message: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The operation ended. ``resource_changes`` counts steps by op, ``same`` included."""

    is_preview: bool
    maybe_corrupt: bool
    duration_s: float
    resource_changes: Mapping[Op, int]
    result: Literal["succeeded", "failed", "canceled"]


@dataclass(frozen=True, slots=True)
class Cancel:
    """No more events of this operation follow."""


Event: TypeAlias = (
    Prelude | ResourcePre | ResourceOutputs | ResourceFailed | Diagnostic | Stdout | Summary | Cancel
)

#: Where events go. Called on the engine's own thread, in order; must not block for long.
EventSink: TypeAlias = Callable[[Event], None]

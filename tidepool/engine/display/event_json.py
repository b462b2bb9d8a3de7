"""Events as the JSON that Pulumi's tools exchange: ``apitype.EngineEvent``.

Pure functions. Field names, their order and what is left out when empty are those of
``sdk/go/common/apitype/events.go``. Secrets become an encrypted value whose ciphertext is ``[secret]``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tidepool.engine import value_json
from tidepool.engine.display import markup
from tidepool.engine.display.secret_filter import MASK, visible
from tidepool.engine.events import (
    Cancel,
    Diagnostic,
    Event,
    Op,
    Prelude,
    PropertyDiff,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    StepMetadata,
    Summary,
)
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import Properties


def event_json(event: Event, sequence: int, timestamp: int, raw_color: bool = False) -> dict[str, Any]:
    """``event`` as JSON.

    ``timestamp`` is in seconds since 1970. With ``raw_color``, messages keep their colour markup.
    """
    return {"sequence": sequence, "timestamp": timestamp, **_body(event, raw_color)}


def _body(event: Event, raw_color: bool) -> dict[str, Any]:
    match event:
        case Prelude():
            return {"preludeEvent": {"config": dict(sorted(event.config.items()))}}
        case ResourcePre():
            return {"resourcePreEvent": _planned(event.metadata, event.planning)}
        case ResourceOutputs():
            return {"resOutputsEvent": _planned(event.metadata, event.planning)}
        case ResourceFailed():
            return {
                "resOpFailedEvent": {
                    "metadata": step_json(event.metadata),
                    "status": event.status,
                    "steps": event.steps,
                }
            }
        case Diagnostic():
            return {"diagnosticEvent": _diagnostic(event, raw_color)}
        case Stdout():
            message = event.message if raw_color else markup.plain(event.message)
            return {"stdoutEvent": {"message": message, "color": "raw" if raw_color else "never"}}
        case Summary():
            return {
                "summaryEvent": {
                    "maybeCorrupt": event.maybe_corrupt,
                    "durationSeconds": math.ceil(event.duration_s),
                    "resourceChanges": changes_json(event.resource_changes),
                    "PolicyPacks": {},
                    "isPreview": event.is_preview,
                    "result": event.result,
                }
            }
        case Cancel():
            return {"cancelEvent": {}}


def step_json(step: StepMetadata) -> dict[str, Any]:
    """A step's metadata. ``detailedDiff`` is null where the provider gave none, which is not the same as {}."""
    result: dict[str, Any] = {
        "op": step.op.value,
        "urn": step.urn,
        "type": step.type,
        "old": _state(step.old),
        "new": _state(step.new),
    }
    if step.keys:
        result["keys"] = list(step.keys)
    if step.diffs:
        result["diffs"] = list(step.diffs)
    result["detailedDiff"] = detailed_diff_json(step.detailed_diff, "diffKind")
    if step.logical:
        result["logical"] = True
    result["provider"] = step.provider
    return result


def changes_json(changes: Mapping[Op, int]) -> dict[str, int]:
    """Counts by operation."""
    return {op.value: count for op, count in sorted(changes.items())}


def detailed_diff_json(diff: Mapping[str, PropertyDiff] | None, kind_key: str) -> dict[str, Any] | None:
    """A detailed diff; the event log and the digest name its kind differently."""
    if diff is None:
        return None
    return {path: {kind_key: d.kind, "inputDiff": d.input_diff} for path, d in sorted(diff.items())}


def properties_json(properties: Properties) -> dict[str, Any]:
    """Properties, with every secret masked in the form of an encrypted value."""
    return value_json.encode_properties(visible(properties, show_secrets=False), lambda _: MASK)


def _planned(step: StepMetadata, planning: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"metadata": step_json(step)}
    if planning:
        result["planning"] = True
    return result


def _state(state: ResourceState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    result: dict[str, Any] = {"type": state.type, "urn": state.urn}
    if state.custom:
        result["custom"] = True
    if state.delete:
        result["delete"] = True
    result["id"] = state.id
    result["parent"] = state.parent
    for key, flag in (
        ("protect", state.protect),
        ("taint", state.taint),
        ("external", state.external),
        ("retainOnDelete", state.retain_on_delete),
    ):
        if flag:
            result[key] = True
    result["inputs"] = properties_json(state.inputs)
    result["outputs"] = properties_json(state.outputs)
    result["provider"] = state.provider
    if state.init_errors:
        result["initErrors"] = list(state.init_errors)
    if state.hide_diff:
        result["hideDiffs"] = list(state.hide_diff)
    return result


def _diagnostic(event: Diagnostic, raw_color: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if event.urn:
        result["urn"] = event.urn
    before = markup.prefix(event.severity)
    message = markup.without_ansi(event.message)
    if raw_color:
        message = f"{markup.RESET}{message}{markup.RESET}\n"
    else:
        before, message = markup.plain(before), markup.plain(message) + "\n"
    if before:
        result["prefix"] = before
    result["message"] = message
    result["color"] = "raw" if raw_color else "never"
    result["severity"] = event.severity
    if event.ephemeral:
        result["ephemeral"] = True
    return result

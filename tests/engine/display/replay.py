"""Recorded event logs of the Pulumi CLI, as events again.

A log does not tell which stream a message came from; lines that a program printed end with two newlines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidepool.engine import value_json
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
    StepMetadata,
    Summary,
)
from tidepool.engine.resource import ResourceState

RECORDED = Path(__file__).parent / "recorded"


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of a recorded log."""
    text = (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def events(name: str) -> Iterator[Event]:
    """The events of a recorded log."""
    for line in lines(name):
        yield event(line)


def event(line: dict[str, Any]) -> Event:
    """One line as an event."""
    kind, body = next((k, v) for k, v in line.items() if k.endswith("Event"))
    match kind:
        case "preludeEvent":
            return Prelude(body["config"])
        case "resourcePreEvent":
            return ResourcePre(_step(body["metadata"]), body.get("planning", False))
        case "resOutputsEvent":
            return ResourceOutputs(_step(body["metadata"]), body.get("planning", False))
        case "resOpFailedEvent":
            return ResourceFailed(_step(body["metadata"]), body["status"], body["steps"])
        case "diagnosticEvent":
            message = body["message"].removesuffix("\n")
            return Diagnostic(
                body["severity"],
                message,
                body.get("urn", ""),
                stream_id=1 if message.endswith("\n") and body["severity"].startswith("info") else 0,
            )
        case "summaryEvent":
            return Summary(
                body["isPreview"],
                body["maybeCorrupt"],
                float(body["durationSeconds"]),
                {Op(op): count for op, count in body["resourceChanges"].items()},
                body["result"],
            )
        case "cancelEvent":
            return Cancel()
    raise AssertionError(f"unexpected kind of event: {kind}")


def _step(raw: dict[str, Any]) -> StepMetadata:
    diff = raw["detailedDiff"]
    return StepMetadata(
        Op(raw["op"]),
        raw["urn"],
        raw["type"],
        raw["provider"],
        _state(raw["old"]),
        _state(raw["new"]),
        tuple(raw.get("keys", ())),
        tuple(raw.get("diffs", ())),
        None if diff is None else {k: PropertyDiff(v["diffKind"], v["inputDiff"]) for k, v in diff.items()},
        raw.get("logical", False),
    )


def _state(raw: dict[str, Any] | None) -> ResourceState | None:
    if raw is None:
        return None
    return ResourceState(
        raw["urn"],
        raw["type"],
        raw.get("custom", False),
        raw["id"],
        delete=raw.get("delete", False),
        inputs=value_json.decode_properties(raw["inputs"], lambda _: '"[secret]"'),
        outputs=value_json.decode_properties(raw["outputs"], lambda _: '"[secret]"'),
        parent=raw["parent"],
        protect=raw.get("protect", False),
        provider=raw["provider"],
    )

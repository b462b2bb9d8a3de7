"""``preview --json``: one JSON document that says what would happen.

The form is Pulumi's ``pkg/display/json.go`` (PreviewDigest), resources are ``apitype.ResourceV3``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import IO, Any

from tidepool.engine.display import markup, words
from tidepool.engine.display.event_log import changes_json, detailed_diff_json
from tidepool.engine.display.settings import MASK, Settings, visible
from tidepool.engine.display.step_text import has_line
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Op,
    Prelude,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    StepMetadata,
    Summary,
)
from tidepool.engine.resource import ResourceState, encode_resource
from tidepool.engine.values import Properties, masked

_NANOSECONDS = 1_000_000_000


class DigestDisplay:
    """Collects a preview and writes its digest when it is closed."""

    def __init__(self, stdout: IO[str], settings: Settings) -> None:
        self._stdout = stdout
        self._settings = settings
        self._config: dict[str, str] = {}
        self._steps: list[dict[str, Any]] = []
        self._positions: dict[str, int] = {}
        self._refreshed: set[str] = set()
        self._diagnostics: list[dict[str, Any]] = []
        self._summary: Summary | None = None

    def event(self, event: Event) -> None:
        match event:
            case Prelude():
                self._config = dict(sorted(event.config.items()))
            case Diagnostic():
                if not event.ephemeral and event.severity != "debug":
                    self._diagnose(event)
            case Stdout():
                self._diagnostics.append({"message": markup.plain(event.message), "severity": "info"})
            case ResourcePre():
                self._plan(event.metadata)
            case ResourceOutputs():
                self._correct(event.metadata)
            case Summary():
                self._summary = event
            case _:
                pass

    def cancelling(self) -> None:
        """Nothing is written before the end, so that it is one document."""

    def close(self) -> None:
        text = json.dumps(self.document(), indent=4, ensure_ascii=False)
        self._stdout.write(_as_go(text) + "\n")
        self._stdout.flush()

    def document(self) -> dict[str, Any]:
        """The digest; what is empty is left out."""
        result: dict[str, Any] = {
            "config": self._config,
            "steps": self._steps,
            "diagnostics": self._diagnostics,
        }
        if self._summary is not None:
            result["duration"] = round(self._summary.duration_s * _NANOSECONDS)
            result["changeSummary"] = changes_json(self._summary.resource_changes)
            result["maybeCorrupt"] = self._summary.maybe_corrupt
        return {key: value for key, value in result.items() if value}

    def _plan(self, step: StepMetadata) -> None:
        if not has_line(step, self._settings):
            return
        if step.op is Op.REFRESH:
            self._refreshed.add(step.urn)
        else:
            self._refreshed.discard(step.urn)
        self._positions[step.urn] = len(self._steps)
        self._steps.append(step_json(step, self._settings.suppress_outputs))

    def _correct(self, step: StepMetadata) -> None:
        """Put what a refresh found in the place of the step that announced it."""
        found = (step.op is Op.UPDATE and step.detailed_diff is not None) or step.op is Op.DELETE
        if found and step.urn in self._refreshed and has_line(step, self._settings):
            self._steps[self._positions[step.urn]] = step_json(step, self._settings.suppress_outputs)

    def _diagnose(self, event: Diagnostic) -> None:
        message = markup.plain(markup.prefix(event.severity) + event.message) + "\n"
        result: dict[str, Any] = {"urn": event.urn} if event.urn else {}
        self._diagnostics.append(result | {"message": message, "severity": event.severity})


def step_json(step: StepMetadata, suppress_outputs: bool) -> dict[str, Any]:
    """A step of the digest."""
    result: dict[str, Any] = {"op": step.op.value, "urn": step.urn}
    if step.provider:
        result["provider"] = step.provider
    for key, state in (("oldState", step.old), ("newState", step.new)):
        if state is not None:
            result[key] = resource_json(state, suppress_outputs and words.is_root(state.urn))
    if step.diffs:
        result["diffReasons"] = list(step.diffs)
    if step.keys:
        result["replaceReasons"] = list(step.keys)
    result["detailedDiff"] = detailed_diff_json(step.detailed_diff, "kind")
    return result


def resource_json(state: ResourceState, without_properties: bool = False) -> dict[str, Any]:
    """A resource as the checkpoint has it, with ``[secret]`` for each secret."""
    shown = replace(
        state,
        inputs={} if without_properties else _shown(state.inputs),
        outputs={} if without_properties else _shown(state.outputs),
        replacement_trigger=masked(state.replacement_trigger),
        unknown_fields={},
    )
    return encode_resource(shown, lambda _: MASK)


def _shown(properties: Properties) -> Properties:
    shown: Properties = masked(visible(properties, show_secrets=False))
    return shown


def _as_go(text: str) -> str:
    """JSON text with Go's escapes for what could end a script element."""
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

"""What can be seen of one step: events, the cloud, the state; in a form that two runs agree on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import normalise, order
from .normalise import Normaliser

_DELETES: Final = ("delete", "delete-replaced", "discard", "discard-replaced", "read-discard")
_KINDS: Final = {
    "resourcePreEvent": "begins",
    "resOutputsEvent": "done",
    "resOpFailedEvent": "failed",
}


def events(
    log: Sequence[dict[str, Any]], dependencies: set[tuple[str, str]], names: Normaliser
) -> dict[str, Any]:
    """What an event log says: each step and how it came out, the order that matters, messages, summary."""
    spans: list[order.Span] = []
    open_spans: dict[tuple[str, str], int] = {}
    steps: list[dict[str, Any]] = []
    found = set(dependencies)
    for position, event in enumerate(log):
        for kind, word in _KINDS.items():
            if kind not in event:
                continue
            metadata = event[kind]["metadata"]
            for state in (metadata.get("old"), metadata.get("new")):
                found |= order.edges([state] if state else [])
            is_custom = bool((metadata.get("new") or metadata.get("old") or {}).get("custom"))
            key = (metadata["op"], metadata["urn"])
            if word == "begins":
                open_spans[key] = position
            else:
                # A component's outputs come as one more outcome, whenever it pleases: that is no step.
                begin = open_spans.pop(key, None)
                if begin is not None and is_custom:
                    spans.append(order.Span(metadata["op"], metadata["urn"], begin, position))
            what = f"{metadata['op']} {metadata['urn']}"
            steps.append({"what": what, "is": [word], "custom": is_custom, **_difference(metadata)})
    if any("summaryEvent" in e and e["summaryEvent"]["result"] != "succeeded" for e in log):
        # Whether a component still got to its outputs when something else failed is a matter of timing.
        steps = [s for s in steps if s["custom"] or s["is"] == ["begins"]]
    for step in steps:
        del step["custom"]
    seen = {
        "steps": sorted(names.values(_merged(steps)), key=lambda s: json.dumps(s, sort_keys=True)),
        "order": names.values(order.pairs(spans, found)),
        "early deletes": names.values(_early_deletes(spans)),
        "messages": _messages(log, names),
    }
    for event in log:
        if "summaryEvent" in event:
            summary = event["summaryEvent"]
            seen["summary"] = {
                k: v for k, v in summary.items() if k not in ("durationSeconds", "PolicyPacks")
            }
        if "preludeEvent" in event:
            seen["config"] = names.values(event["preludeEvent"]["config"])
    return seen


def calls(lines: Iterable[str], dependencies: set[tuple[str, str]], names: Normaliser) -> dict[str, Any]:
    """What the cloud was asked: effects with their order, questions without number or order."""
    effects: list[dict[str, Any]] = []
    questions: dict[str, dict[str, Any]] = {}
    spans: list[order.Span] = []
    for position, line in enumerate(lines):
        call = json.loads(line)
        shown = names.values(
            {k: v for k, v in call.items() if v or k not in ("timeout", "preview", "ignore_changes")}
        )
        if call["op"] in ("check", "diff", "configure", "invoke") or call.get("preview"):
            questions[json.dumps(shown, sort_keys=True)] = shown
        else:
            effects.append(shown)
            spans.append(order.Span(call["op"], call["urn"], position, position))
    return {
        "effects": sorted(effects, key=lambda c: json.dumps(c, sort_keys=True)),
        "order of effects": names.values(order.pairs(spans, dependencies)),
        "questions": [questions[key] for key in sorted(questions)],
    }


def state(
    deployment: Mapping[str, Any], step_of_time: Mapping[str, int], names: Normaliser
) -> dict[str, Any]:
    """A checkpoint's deployment (secrets in clear) with its resources sorted."""
    seen = {k: v for k, v in deployment.items() if k not in ("manifest", "resources", "pending_operations")}
    if "secrets_providers" in seen:
        seen["secrets_providers"] = seen["secrets_providers"]["type"]
    resources = deployment.get("resources") or []
    seen["resources"] = _sorted(names.values([normalise.resource(r, step_of_time) for r in resources]))
    pending = deployment.get("pending_operations") or []
    seen["pending operations"] = _sorted(
        names.values([{**p, "resource": normalise.resource(p["resource"], step_of_time)} for p in pending])
    )
    seen["out of order"] = names.values(_out_of_order(resources))
    return seen


def objects(folder: Path) -> dict[str, Any]:
    """What the cloud really holds, by id."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def leaks(texts: Mapping[str, str], secrets: Sequence[str]) -> list[str]:
    """Where a secret stands in clear."""
    return sorted(
        f"{secret} in {place}" for place, text in texts.items() for secret in secrets if secret in text
    )


def _difference(metadata: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key in ("keys", "diffs", "detailedDiff"):
        if metadata.get(key):
            shown[key] = metadata[key]
    return shown


def _merged(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A step that began and came out is one entry, where it told the same difference both times."""
    merged: dict[str, dict[str, Any]] = {}
    for step in steps:
        key = json.dumps({k: v for k, v in step.items() if k != "is"}, sort_keys=True)
        if key in merged:
            merged[key]["is"] += step["is"]
        else:
            merged[key] = {**step}
    return [{**step, "is": ", ".join(step["is"])} for step in merged.values()]


def _early_deletes(spans: Sequence[order.Span]) -> list[str]:
    """Deletions that something else had to wait for: all others come after the program has ended."""
    last_begin = max((s.begin for s in spans if s.what not in _DELETES and "Stack" not in s.urn), default=-1)
    return sorted({f"{s.what} {s.urn}" for s in spans if s.what in _DELETES and s.end < last_begin})


def _messages(log: Sequence[dict[str, Any]], names: Normaliser) -> list[dict[str, Any]]:
    joined: dict[tuple[str, str], str] = {}
    for event in log:
        if diagnostic := event.get("diagnosticEvent"):
            key = (diagnostic["severity"], diagnostic.get("urn", ""))
            if key[0] != "debug" and not diagnostic.get("ephemeral"):
                joined[key] = joined.get(key, "") + diagnostic["message"]
    # The CLI ends a program that it no longer wants by an interrupt, of which Python then tells on stderr.
    told = {
        key: text for key, text in joined.items() if key[0] != "info#err" or "KeyboardInterrupt" not in text
    }
    found = [
        {"severity": s, "urn": names.text(u), "lines": names.message(text)}
        for (s, u), text in sorted(told.items())
    ]
    return [message for message in found if message["lines"]]


def _sorted(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(resources, key=lambda r: json.dumps([r.get("urn"), r.get("id"), r], sort_keys=True))


def _out_of_order(resources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Resources that stand before one that they depend on: no checkpoint may hold any."""
    seen: set[str] = set()
    wrong: list[str] = []
    for r in resources:
        wrong += [f"{r['urn']} before {urn}" for _, urn in order.edges([r]) if urn not in seen]
        seen.add(r["urn"])
    return sorted(wrong)

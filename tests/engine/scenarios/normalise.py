"""Takes out of an observation what differs from run to run, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"
_UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PROVIDER_REFERENCE: Final = re.compile(rf'(urn:pulumi:[^"\s]*?pulumi:providers:[^"\s]*?)::({_UUID})')
_ANY_UUID: Final = re.compile(_UUID)
_COLOUR: Final = re.compile(r"<\{%.*?%\}>|\x1b\[[0-9;]*m")
_FRAME: Final = re.compile(r'^\s*File "')
_PROGRESS: Final = re.compile(r"^@ \w+( \w+)?\.+$")
#: What Python says of a program that the CLI ended by an interrupt, wherever that found it.
_INTERRUPT: Final = re.compile(
    r"^(?:(?:Exception ignored|Error) in\b.*\n)?KeyboardInterrupt:?$\n?"
    r"|^During handling of the above exception, another exception occurred:$\n?",
    re.MULTILINE,
)
#: What the CLI lets a program say, or not, that was still under way when a failure elsewhere ended the deployment. It is
#: the CLI's own text, so nothing that the engine says is left out.
_SHUT_DOWN: Final = re.compile(
    r"^Program failed with an unhandled exception:$\n"
    r"grpc\._channel\._InactiveRpcError: .*\n(?:\t.*\n|>\n)*Exception: resource monitor shut down$\n?",
    re.MULTILINE,
)
#: What Python says where an interrupt found it at its end, about to flush.
_ENDING: Final = re.compile(
    r"^(object (address|refcount|type|type name|repr) *: |lost sys\.stderr$|Fatal Python error: _enter_buffered_busy"
    r"|Python runtime state: finalizing|(Current thread|Thread) 0x\w+ |  <no Python frame>$|Extension modules: )"
)
_DURATION: Final = re.compile(r"\b\d+(\.\d+)?(ms|s)\b|\b\d+m\d+s\b")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")
#: The engine follows the SDK's release, and the CLI that can be built may be another.
_RELEASE: Final = re.compile(r"\bPulumi CLI version \d+\.\d+\.\d+")
_PASSING: Final = ("stackTrace", "timestamp", "sequence", "duration", "durationSeconds")
#: In the project itself, not in an environment that lies in its folder.
_IN_PROJECT: Final = re.compile(r"project:///(?!.*/site-packages/)[^./][^#]*#\d+")


class Normaliser:
    """Remembers, over all steps of a scenario, which random id is which."""

    def __init__(self, root: str, project: str) -> None:
        self._root = root
        self._urns = re.compile(rf"urn:pulumi:(\w+)::{re.escape(project)}::")
        self._names: dict[str, str] = {}
        self._ids: dict[str, list[str]] = {}

    def learn(self, document: Any) -> None:
        """Give a name to each random id of a provider in ``document`` (a state or events, as read)."""
        for node in _nodes(document):
            urn, id = node.get("urn"), node.get("id")
            if isinstance(urn, str) and isinstance(id, str) and _ANY_UUID.fullmatch(id) and id != _UNKNOWN:
                self._name(urn, id)
        for urn, id in _PROVIDER_REFERENCE.findall(json.dumps(document)):
            if id != _UNKNOWN:
                self._name(urn, id)

    def values(self, document: Any) -> Any:
        """``document`` with random ids and paths named, secrets shown as ``{"secret": VALUE}``."""
        return _readable(json.loads(self.text(json.dumps(document, sort_keys=True))))

    def text(self, text: str) -> str:
        """``text`` without colours, temporary paths and random ids; ``@`` begins a URN of this project."""
        text = _COLOUR.sub("", text).replace(self._root, "<root>")
        text = self._urns.sub(lambda m: "@" if m[1] == "dev" else f"{m[1]}@", text)
        return _ANY_UUID.sub(lambda m: self._names.get(m[0], m[0] if m[0] == _UNKNOWN else "<uuid>"), text)

    def printed(self, text: str) -> Any:
        """What a command printed: JSON as values (one document, or one a line), anything else as lines."""
        try:
            return self.values(_shape(json.loads(text)))
        except json.JSONDecodeError:
            pass
        try:
            lines = [json.loads(line) for line in text.splitlines()]
        except json.JSONDecodeError:
            return self.message(text)
        return [self.values(_shape(line)) for line in lines if not _is_debug(line)]

    def message(self, text: str) -> list[str]:
        """The lines of a message for a person, without stack frames, times and empty lines."""
        lines: list[str] = []
        in_frame = False
        for line in _sort_diagnostics(self.text(text).splitlines()):
            if not line.strip():
                continue
            if _FRAME.match(line):
                in_frame = True
                continue
            if in_frame and line.startswith("    "):
                continue
            in_frame = False
            line = _RELEASE.sub("Pulumi CLI version <release>", line)
            line = _ADDRESS.sub("<address>", _TIME.sub("<time>", _DURATION.sub("<duration>", line))).rstrip()
            if _PROGRESS.match(line) or _ENDING.match(line):
                continue
            if "Traceback (most recent call last)" not in line:
                lines.append(line)
        return _SHUT_DOWN.sub("", _INTERRUPT.sub("", "".join(f"{line}\n" for line in lines))).splitlines()

    def _name(self, urn: str, id: str) -> None:
        if id not in self._names:
            ids = self._ids.setdefault(urn, [])
            ids.append(id)
            self._names[id] = f"<id {len(ids)} of {urn.rsplit('::', 1)[-1]}>"


def _sort_diagnostics(lines: list[str]) -> list[str]:
    """``lines`` with the resources under "Diagnostics:", and each one's messages, sorted.

    The CLI keeps both in hash tables, so their order is chance. An empty line ends a message.
    """
    if "Diagnostics:" not in lines:
        return lines
    begin = lines.index("Diagnostics:") + 1
    end = next(
        (i for i in range(begin, len(lines)) if lines[i] and not lines[i].startswith("  ")), len(lines)
    )
    resources: list[tuple[str, list[list[str]]]] = [("", [[]])]
    for line in lines[begin:end]:
        if not line:
            resources[-1][1].append([])
        elif line.startswith("    "):
            resources[-1][1][-1].append(line)
        else:
            resources.append((line, [[]]))
    blocks = [[heading, *chain.from_iterable(sorted(messages))] for heading, messages in sorted(resources)]
    return [*lines[:begin], *chain.from_iterable(blocks), *lines[end:]]


def instant(time: str) -> str:
    """``time`` as RFC 3339 without trailing zeros: who writes it on may leave them out or not."""
    return time.removesuffix("Z").rstrip("0").rstrip(".") if "." in time else time.removesuffix("Z")


def resource(raw: Mapping[str, Any], step_of_time: Mapping[str, int]) -> dict[str, Any]:
    """One resource of a checkpoint: its times as step numbers, its place only where it is in the project."""
    kept = {k: v for k, v in raw.items() if k != "stackTrace"}
    # The SDK collects dependencies in sets: their order is chance.
    if "dependencies" in kept:
        kept["dependencies"] = sorted(kept["dependencies"])
    if "propertyDependencies" in kept:
        # A property that depends on nothing is listed or left out as it happens: the CLI's refresh leaves it out.
        kept["propertyDependencies"] = {k: sorted(v) for k, v in kept["propertyDependencies"].items() if v}
        if not kept["propertyDependencies"]:
            del kept["propertyDependencies"]
    for key in ("created", "modified"):
        if key in kept:
            kept[key] = step_of_time.get(instant(kept[key]), "<another time>")
    if not _IN_PROJECT.fullmatch(kept.get("sourcePosition", "")):
        kept.pop("sourcePosition", None)
    return kept


def _shape(value: Any) -> Any:
    """A JSON document without times, durations, counters and frames outside the project."""
    match value:
        case dict():
            return {
                k: _shape(v)
                for k, v in value.items()
                if k not in _PASSING
                and not (k == "sourcePosition" and not _IN_PROJECT.fullmatch(v))
                and not (isinstance(v, str) and _TIME.fullmatch(v))
            }
        case list():
            return [_shape(v) for v in value]
        case _:
            return value


def _is_debug(event: Any) -> bool:
    return isinstance(event, dict) and event.get("diagnosticEvent", {}).get("severity") == "debug"


def _nodes(value: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if isinstance(value, dict):
        found.append(value)
        for child in value.values():
            found += _nodes(child)
    elif isinstance(value, list):
        for child in value:
            found += _nodes(child)
    return found


def _readable(value: Any) -> Any:
    match value:
        case dict() if value.get(_SIGNATURE) == _SECRET:
            if "plaintext" in value:
                return {"secret": _readable(json.loads(value["plaintext"]))}
            if "value" in value:
                return {"secret": _readable(value["value"])}
            return {"secret": "<not shown>"}
        case dict():
            return {k: "<a program>" if k == "__provider" and v else _readable(v) for k, v in value.items()}
        case list():
            return [_readable(v) for v in value]
        case _:
            return value

"""From the message of a registration to the goal that it means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from pulumi.runtime.proto import alias_pb2, resource_pb2

from tidepool.engine import urn as urns
from tidepool.engine import wire
from tidepool.engine.deployment.callbacks import HOOK_FIELDS
from tidepool.engine.deployment.goal import Goal
from tidepool.engine.deployment.live import provider_urn
from tidepool.engine.deployment.registry import with_plugin
from tidepool.engine.deployment.status import RequestRefused
from tidepool.engine.resource import PROVIDER_TYPE_PREFIX, CustomTimeouts, ResourceState
from tidepool.engine.values import (
    UNKNOWN,
    Output,
    Properties,
    Secret,
    output_dependencies,
    transform,
    without_outputs,
)

_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
#: Where the frames of what runs a program are.
_ENGINE: Final = Path(__file__).parents[1].as_uri() + "/"


def goal_of(
    request: resource_pb2.RegisterResourceRequest,
    options: resource_pb2.TransformResourceOptions,
    properties: Properties,
    dependencies: Iterable[str],
    by_property: Mapping[str, Iterable[str]],
    root: str,
) -> Goal:
    """Return the goal of ``request``, its ``options`` as the transforms left them. ``root`` is the project's folder."""
    if request.type.startswith(PROVIDER_TYPE_PREFIX):
        properties = with_plugin(properties, options.version, options.plugin_download_url)
    protect = options.protect if options.HasField("protect") else None
    retain = options.retain_on_delete if options.HasField("retain_on_delete") else None
    first = options.delete_before_replace if options.HasField("delete_before_replace") else None
    trigger = None
    if options.HasField("replacement_trigger"):
        trigger = without_outputs(wire.from_value(options.replacement_trigger))
    state = ResourceState(
        urn="",
        type=request.type,
        custom=request.custom,
        inputs=properties,
        parent=request.parent,
        dependencies=tuple(sorted(dependencies)),
        property_dependencies={k: tuple(sorted(v)) for k, v in by_property.items()},
        protect=bool(protect),
        retain_on_delete=bool(retain),
        deleted_with=options.deleted_with,
        replace_with=tuple(options.replace_with),
        ignore_changes=tuple(options.ignore_changes),
        replace_on_changes=tuple(options.replace_on_changes),
        replacement_trigger=trigger,
        additional_secret_outputs=tuple(options.additional_secret_outputs),
        hide_diff=tuple(options.hide_diff),
        import_id=getattr(options, "import"),
        custom_timeouts=_timeouts(options),
        source_position=source_position(request.sourcePosition, root),
        stack_trace=stack_trace(request, root),
        resource_hooks=_hooks(options),
    )
    return Goal(request.name, state, tuple(options.aliases), protect, retain, first)


def transform_options(
    request: resource_pb2.RegisterResourceRequest, handed_down: Mapping[str, str]
) -> resource_pb2.TransformResourceOptions:
    """The options of a registration as transforms see them.

    ``handed_down`` are the references of the providers that the parent has for it, by package.
    """
    package = request.type.split(":", 1)[0]
    provider = request.provider
    if request.custom or request.remote:
        provider = provider or request.providers.get(package) or handed_down.get(package, "")
    options = resource_pb2.TransformResourceOptions(
        depends_on=request.dependencies,
        ignore_changes=request.ignoreChanges,
        replace_on_changes=request.replaceOnChanges,
        version=request.version,
        aliases=[*(alias_pb2.Alias(urn=u) for u in request.aliasURNs), *request.aliases],
        provider=provider,
        providers=request.providers,
        hide_diff=request.hideDiffs,
        plugin_download_url=request.pluginDownloadURL,
        deleted_with=request.deletedWith,
        replace_with=request.replace_with,
        additional_secret_outputs=request.additionalSecretOutputs,
        plugin_checksums=request.pluginChecksums,
    )
    setattr(options, "import", request.importId)
    if request.HasField("protect"):
        options.protect = request.protect
    if request.HasField("retainOnDelete"):
        options.retain_on_delete = request.retainOnDelete
    if request.deleteBeforeReplaceDefined or request.deleteBeforeReplace:
        options.delete_before_replace = request.deleteBeforeReplace
    if request.HasField("customTimeouts"):
        options.custom_timeouts.CopyFrom(request.customTimeouts)
    if request.HasField("hooks"):
        options.hooks.CopyFrom(request.hooks)
    if request.HasField("replacement_trigger"):
        options.replacement_trigger.CopyFrom(request.replacement_trigger)
    return options


def stack_trace(request: Any, root: str) -> tuple[str, ...]:
    """Return the places in the program that a request came from, innermost call first.

    What ran the program is not told: it is of no use to a person, differs from machine to machine, and would be the
    larger part of the state.
    """
    frames = request.stackTrace.frames if request.HasField("stackTrace") else ()
    of_program = takewhile(lambda f: not f.pc.uri.startswith(_ENGINE), frames)
    return tuple(source_position(f.pc, root) for f in of_program)


def inherit(request: resource_pb2.RegisterResourceRequest, parent: Goal) -> None:
    """Take from the parent what a child has of it unless it says otherwise."""
    if not request.deletedWith:
        request.deletedWith = parent.state.deleted_with
    if not request.HasField("protect") and parent.protect is not None:
        request.protect = parent.protect
    if not request.HasField("retainOnDelete") and parent.retain_on_delete is not None:
        request.retainOnDelete = parent.retain_on_delete
    if not request.provider and parent.state.provider:
        package = urns.type_of(provider_urn(parent.state.provider)).removeprefix(PROVIDER_TYPE_PREFIX)
        if not (request.remote or request.custom) or package == request.type.split(":", 1)[0]:
            request.provider = parent.state.provider


def property_dependencies(
    request: resource_pb2.RegisterResourceRequest, properties: Properties, dependencies: list[str]
) -> dict[str, list[str]]:
    """Return the URNs that each property comes from."""
    if not request.propertyDependencies and not request.remote:
        # A client that does not tell them apart: every property may come from every dependency.
        return {k: list(dependencies) for k in properties}
    return {k: list(v.urns) for k, v in request.propertyDependencies.items()}


def with_own_dependencies(
    values: Properties, dependencies: Mapping[str, Iterable[str]]
) -> dict[str, list[str]]:
    """``dependencies`` (URNs by property) and those that ``values`` themselves tell."""
    found = {key: list(urns) for key, urns in dependencies.items()}
    for key, value in values.items():
        more = output_dependencies(value)
        if more:
            found[key] = list(dict.fromkeys([*found.get(key, ()), *sorted(more)]))
    return found


def as_outputs(properties: Properties, dependencies: Mapping[str, Iterable[str]]) -> Properties:
    """``properties`` with what each came from told in the value itself."""

    def leave(v: Any) -> Any:
        if v is UNKNOWN:
            return Output(UNKNOWN)
        if isinstance(v, Secret):
            inner = _output(v.element)
            return Output(inner.element, True, inner.dependencies)
        return v

    result: Properties = {}
    for key, value in properties.items():
        value = transform(value, leave)
        wanted = set(dependencies.get(key, ()))
        if wanted and not wanted <= output_dependencies(value):
            bare = _output(value)
            value = Output(bare.element, bare.secret, tuple(sorted(wanted | set(bare.dependencies))))
        result[key] = value
    return result


def _output(value: Any) -> Output:
    return value if isinstance(value, Output) else Output(value)


def _timeouts(options: resource_pb2.TransformResourceOptions) -> CustomTimeouts:
    if not options.HasField("custom_timeouts"):
        return CustomTimeouts()
    t = options.custom_timeouts
    try:
        return CustomTimeouts(*map(_seconds, (t.create, t.update, t.delete, t.read)))
    except ValueError as error:
        raise RequestRefused(f"unable to parse customTimeout Value {error}") from error


def _hooks(options: resource_pb2.TransformResourceOptions) -> dict[str, tuple[str, ...]]:
    if not options.HasField("hooks"):
        return {}
    named = {kind: tuple(getattr(options.hooks, field)) for kind, field in HOOK_FIELDS.items()}
    return {kind: names for kind, names in named.items() if names}


def source_position(position: Any, root: str) -> str:
    """Return ``project:///FILE#LINE,COLUMN`` of a ``source_pb2.SourcePosition``; empty where it says nothing usable."""
    if position is None or not position.uri or position.line < 0 or position.column < 0:
        return ""
    return _position_text(position.uri, position.line, position.column, root)


# One text a place in the program, however many resources stand there.
@lru_cache(maxsize=4096)
def _position_text(uri: str, line: int, column: int, root: str) -> str:
    url = urlsplit(uri)
    path = unquote(url.path)
    if url.scheme != "file" or not os.path.isabs(path):
        return ""
    file = quote(os.path.relpath(path, root))
    return f"project:///{file}#{line},{column}" if column else f"project:///{file}#{line}"


def _seconds(text: str) -> float:
    """Return one of Go's durations (``1h30m``, ``1.5s``) in seconds; 0 for an empty text.

    Raises:
        ValueError: with the text, where it is not a duration.
    """
    if text in ("", "0"):
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text.lstrip("+-")
    total = 0.0
    while rest:
        match = _PART.match(rest)
        if match is None:
            raise ValueError(text)
        total += float(match[1]) * _UNITS_S[match[2]]
        rest = rest[match.end() :]
    return sign * total

"""A step's difference and a resource's outputs, drawn.

Layout facts: Pulumi's ``pkg/backend/display/{diff,object_diff}.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidepool.engine import urn as urns
from tidepool.engine.display import difference, markup, words
from tidepool.engine.display.difference import Change, Changes
from tidepool.engine.display.property_text import Pen, worth_drawing
from tidepool.engine.display.settings import Settings, visible
from tidepool.engine.events import Op, StepMetadata
from tidepool.engine.value_json import UNKNOWN_STRING
from tidepool.engine.values import UNKNOWN, Properties, Value

_BOTH_ENDS = frozenset({Op.CREATE, Op.DELETE, Op.DELETE_REPLACED, Op.READ_DISCARD, Op.DISCARD_REPLACED})
# How the SDK marks a resource among a stack's outputs.
_RESOURCE_MARKER = "@isPulumiResource"
_READS = frozenset({Op.READ, Op.READ_REPLACEMENT, Op.IMPORT, Op.IMPORT_REPLACEMENT})


def is_shown(step: StepMetadata, settings: Settings, steps_of_replacements: bool) -> bool:
    """Return whether a step is worth a line of its own.

    ``steps_of_replacements``: whether the display follows a replacement through its steps.
    """
    if step.op is Op.SAME:
        protection_changed = (
            step.old is not None and step.new is not None and step.old.protect != step.new.protect
        )
        return settings.show_sames or protection_changed
    if settings.show_replacement_steps or steps_of_replacements:
        return True
    return step.logical or step.op not in words.REPLACEMENT_STEPS


def has_line(step: StepMetadata, settings: Settings) -> bool:
    """Return whether a display that takes a replacement for one thing tells of a step."""
    if words.is_internal(step):
        return False
    return words.is_root(step.urn) or is_shown(step, settings, steps_of_replacements=False)


def depth(step: StepMetadata, seen: Mapping[str, StepMetadata], shown: Callable[[StepMetadata], bool]) -> int:
    """Count the parents of a resource that are drawn above it."""
    depth, state = 0, step.new or step.old
    while state is not None and state.parent:
        parent = seen.get(state.parent)
        if parent is None:
            break
        if words.is_root(parent.urn) or shown(parent):
            depth += 1
        state = parent.new or parent.old
    return depth


def difference_of(step: StepMetadata, indent: int, settings: Settings, refresh: bool) -> str:
    """A step's header and what it changes."""
    text = [header(step, indent, settings)]
    if step.op is not Op.SAME:
        # "Same" may still change protection and the like, but never a property.
        pen = Pen(
            text,
            indent + 1,
            truncate=not settings.show_full_output,
            show_secrets=settings.show_secrets,
        )
        if step.detailed_diff is not None and step.old is not None and step.new is not None:
            _detailed(step, pen, settings, refresh)
        else:
            _details(step, pen, settings)
    return "".join(text) + markup.RESET


def header(step: StepMetadata, indent: int, settings: Settings) -> str:
    """A step's first lines: sign, type, operation, ID, URN, provider."""
    old, new = step.old, step.new
    lock = ""
    if new is not None and not new.protect and old is not None and old.protect:
        lock = " 🔓"
    elif (new is not None and new.protect) or (old is not None and old.protect):
        lock = " 🔒"
    name = step.urn if settings.show_urns else step.type
    text: list[str] = []
    text.append(
        "    " * indent + words.colored_sign(step.op) + f"{name}: ({step.op}{words.retained(step)}){lock}\n"
    )
    pen = Pen(text, indent + 1, op=step.op if step.op in _BOTH_ENDS else Op.SAME)
    if old is not None and old.id:
        pen.line(f"[id={old.id}]\n")
    if not settings.show_urns:
        pen.line(f"[urn={words.printable(step.urn)}]\n")
    if step.provider:
        _provider(step, pen)
    return "".join(text)


def outputs_of(step: StepMetadata, indent: int, settings: Settings, planning: bool, refresh: bool) -> str:
    """The outputs that a resource's inputs did not tell, or how they changed; "" where there are none."""
    root = urns.qualified_type_of(step.urn) == urns.ROOT_STACK_TYPE
    if planning and not (refresh or root or step.op in _READS):
        return ""  # nobody knows them yet
    if step.old is not None and step.old.init_errors:
        return ""
    show_sames = settings.show_sames or (root and not planning)
    show = settings.show_secrets
    inputs = visible(step.new.inputs, show) if step.new is not None else {}
    outputs = visible(step.new.outputs, show) if step.new is not None else {}
    hits: set[str] = set()
    ignore = difference.recording(difference.hidden_paths(step), hits)
    changes: Changes[str] | None = None
    if step.old is not None:
        changes = difference.of_objects(visible(step.old.outputs, show), outputs, ignore)
        if changes is None and hits:
            changes = Changes()
        if planning and root and changes is not None:
            _drop_unknown(changes)
        if changes is None and not show_sames:
            return ""
    text: list[str] = []
    pen = Pen(text, indent, step.op, truncate=not settings.show_full_output, show_secrets=show)
    pen.hidden(sorted(hits))
    keys = sorted(outputs) if changes is None else changes.keys()
    width = max(map(len, keys), default=0)
    for key in keys:
        out = outputs.get(key)
        if changes is None and (difference.is_internal_key(key) or not worth_drawing(out)):
            continue
        if key in inputs and not refresh and difference.of_values(out, inputs[key], ignore, (key,)) is None:
            continue
        if changes is None:
            pen.property(key, out, width)
        elif show_sames or changes.changed(key):
            pen.property_change(key, width, changes)
    return "".join(text)


def _provider(step: StepMetadata, pen: Pen) -> None:
    old, new = step.old, step.new
    if old is not None and new is not None and old.provider != new.provider:
        after = new.provider
        if after.endswith(f"::{UNKNOWN_STRING}"):
            after = after.removesuffix(UNKNOWN_STRING) + "[unknown]"
        pen = replace(pen, op=Op.UPDATE)
        pen.line("[provider: ")
        replace(pen, op=Op.DELETE).write(old.provider)
        pen.write(" => ")
        replace(pen, op=Op.CREATE).write(after)
        pen.write("]\n")
    elif urns.name_of(step.provider.rpartition("::")[0]) != "default":
        pen.line(f"[provider={step.provider}]\n")


def _detailed(step: StepMetadata, pen: Pen, settings: Settings, refresh: bool) -> None:
    assert step.old is not None
    show = settings.show_secrets
    changes, hidden = difference.of_detailed_diff(step, refresh, lambda p: visible(p, show))
    pen = replace(pen, signs=True)
    if changes is not None:
        pen.hidden(hidden)
        pen.changes(changes)
    else:
        pen.object(visible(step.old.inputs, show))


def _details(step: StepMetadata, pen: Pen, settings: Settings) -> None:
    show = settings.show_secrets
    old, new = step.old, step.new
    if old is None and new is not None:
        replace(pen, op=step.op).object(visible(new.outputs or new.inputs, show))
    elif new is None and old is not None:
        replace(pen, op=step.op).object(visible(old.inputs, show))
    elif old is not None and new is not None:
        if new.outputs:
            before, after, include = old.outputs, new.outputs, None
        else:
            before, after, include = old.inputs, new.inputs, step.diffs or None
        hits: set[str] = set()
        ignore = difference.recording(difference.hidden_paths(step), hits)
        before, after = visible(before, show), visible(after, show)
        changes = difference.of_objects(before, after, ignore)
        if changes is None and hits:
            changes = Changes()
        pen = replace(pen, signs=True)
        if changes is None:
            pen.object(after)
        else:
            pen.hidden(sorted(hits))
            pen.changes(changes, include)


def _drop_unknown(changes: Changes[str]) -> None:
    """Leave out what a preview cannot know: outputs of the stack that may turn out to be the same."""
    if changes.adds.pop(_RESOURCE_MARKER, None) is not None:
        changes.adds = {k: v for k, v in changes.adds.items() if v is not UNKNOWN}
    changes.adds = {k: _without_marker(v) for k, v in changes.adds.items()}
    changes.updates = {k: c for k, c in changes.updates.items() if c.new is not UNKNOWN}
    for change in changes.updates.values():
        _drop_unknown_in(change)


def _drop_unknown_in(change: Change) -> None:
    if change.members is not None:
        _drop_unknown(change.members)
    elif change.items is not None:
        change.items.adds = {i: _without_marker(v) for i, v in change.items.adds.items()}
        for inner in change.items.updates.values():
            _drop_unknown_in(inner)


def _without_marker(value: Value) -> Value:
    """``value`` without the mark that the SDK puts on resources among a stack's outputs."""
    match value:
        case dict():
            members: Properties = {k: _without_marker(v) for k, v in value.items() if k != _RESOURCE_MARKER}
            return members
        case list():
            return [_without_marker(v) for v in value]
        case _:
            return value

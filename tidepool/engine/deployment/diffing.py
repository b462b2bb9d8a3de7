"""The meaning of a diff for a resource: the engine's own options laid over the provider's answer."""

from __future__ import annotations

from dataclasses import replace

from tidepool.engine import property_path
from tidepool.engine.events import PropertyDiff
from tidepool.engine.property_path import Path
from tidepool.engine.providers.contract import DiffResult
from tidepool.engine.values import (
    Properties,
    Value,
    contains_unknowns,
    equal,
    without_outputs,
    without_secrets,
)

#: The path under which ``replace_on_changes`` names initialization errors.
INIT_ERROR = "#initerror"


def with_engine_diff(diff: DiffResult, old_inputs: Properties, new_inputs: Properties) -> DiffResult:
    """``diff``, or where the provider could not tell, what the inputs themselves say."""
    if diff.changes != "unknown":
        return diff
    detailed = detailed_diff(old_inputs, new_inputs)
    if not detailed:
        return replace(diff, changes="none")
    return replace(diff, changes="some", changed_keys=changed_keys(detailed), detailed_diff=detailed)


def with_replace_on_changes(diff: DiffResult, paths: tuple[str, ...], has_init_errors: bool) -> DiffResult:
    """``diff`` with the changes that are to be replacements turned into such.

    Raises:
        ValueError: where one of ``paths`` is not a property path.
    """
    if diff.changes != "some" and not has_init_errors:
        return diff
    wanted = [property_path.parse(p) for p in paths]

    def replaces(text: str) -> bool:
        path = property_path.parse(text)
        return any(property_path.contains(w, path) for w in wanted)

    detailed = diff.detailed_diff
    if detailed is not None:
        detailed = {p: _to_replace(d) if replaces(p) else d for p, d in detailed.items()}
    keys = dict.fromkeys(diff.replace_keys)
    keys.update((k, None) for k in diff.changed_keys if replaces(k))
    changes = diff.changes
    if has_init_errors and replaces(INIT_ERROR):
        keys[INIT_ERROR] = None
        changes = "some"
        if detailed is not None:
            detailed = {**detailed, INIT_ERROR: PropertyDiff("update-replace")}
    return replace(diff, changes=changes, replace_keys=tuple(keys), detailed_diff=detailed)


def with_ignored(
    inputs: Properties, old_inputs: Properties, ignore_changes: tuple[str, ...]
) -> tuple[Properties, list[str]]:
    """``inputs`` with ignored properties as they were, and the paths for which that cannot be done."""
    impossible: list[str] = []
    for text in ignore_changes:
        try:
            path = property_path.parse(text)
        except ValueError:
            continue
        inputs, done = property_path.reset(path, old_inputs, inputs)
        if not done:
            impossible.append(text)
    return inputs, impossible


def trigger_fired(old: Value, new: Value) -> bool:
    """Tell whether a replacement trigger changed; one that appears or goes away does not count."""
    if contains_unknowns(old) or contains_unknowns(new):
        return True
    if old is None or new is None:
        return False
    return not equal(without_secrets(without_outputs(old)), without_secrets(without_outputs(new)))


def _to_replace(diff: PropertyDiff) -> PropertyDiff:
    if diff.kind.endswith("-replace"):
        return diff
    return PropertyDiff(f"{diff.kind}-replace", diff.input_diff)  # type: ignore[arg-type]


def detailed_diff(old: Properties, new: Properties) -> dict[str, PropertyDiff]:
    """All leaves that differ between ``old`` and ``new`` inputs, by path; secrets count by their content."""
    found: dict[str, PropertyDiff] = {}
    _differences((), without_secrets(without_outputs(old)), without_secrets(without_outputs(new)), found)
    return found


def changed_keys(diff: dict[str, PropertyDiff]) -> tuple[str, ...]:
    """The top-level keys that a detailed diff touches, sorted."""
    return tuple(sorted({str(property_path.parse(path)[0]) for path in diff}))


def _differences(path: Path, old: Value, new: Value, found: dict[str, PropertyDiff]) -> None:
    if equal(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            _differences((*path, key), old.get(key), new.get(key), found)
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            before = old[i] if i < len(old) else None
            after = new[i] if i < len(new) else None
            _differences((*path, i), before, after, found)
    else:
        kind = "add" if old is None else "delete" if new is None else "update"
        found[property_path.format(path)] = PropertyDiff(kind, input_diff=True)  # type: ignore[arg-type]

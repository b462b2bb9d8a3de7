"""Differences between two sets of properties, where the engine has to find them itself."""

from __future__ import annotations

from tidepool.engine import property_path
from tidepool.engine.events import PropertyDiff
from tidepool.engine.property_path import Path
from tidepool.engine.values import (
    Archive,
    Asset,
    Properties,
    Value,
    without_outputs,
    without_secrets,
)


def equal(a: Value, b: Value) -> bool:
    """Return whether two values are the same; unlike ``==``, tells ``True`` from ``1``."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    if isinstance(a, Asset | Archive) and type(a) is type(b) and a.hash and b.hash:
        return a.hash == b.hash
    return bool(a == b)


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

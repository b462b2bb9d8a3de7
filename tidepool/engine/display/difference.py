"""Differences between two sets of properties, as they are drawn.

The structure follows Pulumi's ``sdk/go/common/resource/properties_diff.go`` and
``pkg/engine/detailedDiff.go``. Null counts as no value: a property that becomes null is a deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar

from tidepool.engine import property_path
from tidepool.engine.events import DiffKind, StepMetadata
from tidepool.engine.property_path import Path
from tidepool.engine.resource import ResourceState
from tidepool.engine.values import (
    UNKNOWN,
    Output,
    Properties,
    ResourceReference,
    Secret,
    Unknown,
    Value,
    equal,
)

K = TypeVar("K", str, int)

#: Whether a path is to be left out of a comparison.
Ignore: TypeAlias = Callable[[Path], bool]


@dataclass(slots=True)
class Changes(Generic[K]):
    """The members of an object (by key) or of a list (by index), sorted by what became of them."""

    adds: dict[K, Value] = field(default_factory=dict)
    deletes: dict[K, Value] = field(default_factory=dict)
    sames: dict[K, Value] = field(default_factory=dict)
    updates: dict[K, Change] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.adds or self.deletes or self.updates)

    def keys(self) -> list[K]:
        """All keys, changed or not, in order."""
        keys: set[K] = set()
        keys.update(self.adds, self.deletes, self.sames, self.updates)
        return sorted(keys)

    def changed(self, key: K) -> bool:
        """Return whether the member at ``key`` is another one now."""
        return key in self.adds or key in self.deletes or key in self.updates


@dataclass(slots=True)
class Change:
    """One value that changed; ``members`` or ``items`` says more where both are objects or both are lists."""

    old: Value = None
    new: Value = None
    members: Changes[str] | None = None
    items: Changes[int] | None = None


def is_internal_key(key: str) -> bool:
    """Return whether a property is between SDK and provider and not shown: it begins with two underscores."""
    return key.startswith("__")


def of_objects(
    old: Properties, new: Properties, ignore: Ignore | None = None, path: Path = ()
) -> Changes[str] | None:
    """Compare ``new`` with ``old``, without internal keys; None where nothing differs."""
    changes: Changes[str] = Changes()
    for key, before in old.items():
        if _left_out(key, ignore, path):
            continue
        if key not in new:
            if before is not None:
                changes.deletes[key] = before
            continue
        after = new[key]
        change = of_values(before, after, ignore, (*path, key))
        if change is None:
            changes.sames[key] = before
        elif before is None:
            changes.adds[key] = after
        elif after is None:
            changes.deletes[key] = before
        else:
            changes.updates[key] = change
    for key, after in new.items():
        if key not in old and after is not None and not _left_out(key, ignore, path):
            changes.adds[key] = after
    return changes or None


def of_values(old: Value, new: Value, ignore: Ignore | None = None, path: Path = ()) -> Change | None:
    """Compare ``new`` with ``old``; None where nothing differs."""
    if isinstance(old, list) and isinstance(new, list):
        items: Changes[int] = Changes()
        both = min(len(old), len(new))
        items.adds = {i: new[i] for i in range(both, len(new))}
        items.deletes = {i: old[i] for i in range(both, len(old))}
        for i in range(both):
            change = of_values(old[i], new[i], ignore, (*path, i))
            if change is None:
                items.sames[i] = old[i]
            else:
                items.updates[i] = change
        return Change(old, new, items=items) if items else None
    if isinstance(old, dict) and isinstance(new, dict):
        members = of_objects(old, new, ignore, path)
        return Change(old, new, members=members) if members else None
    return None if same(old, new) else Change(old, new)


def same(a: Value, b: Value) -> bool:
    """Return whether two values are drawn as the same one."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same(a.get(k), b.get(k)) for k in a.keys() | b.keys())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Secret) and isinstance(b, Secret):
        return same(a.element, b.element)
    if isinstance(a, ResourceReference) and isinstance(b, ResourceReference):
        return a.urn == b.urn and equal(a.id, b.id)
    return equal(a, b)


def hidden_paths(step: StepMetadata) -> tuple[Path, ...]:
    """The paths whose difference the program asked not to show."""
    state = step.new or step.old
    return tuple(map(parsed, state.hide_diff)) if state is not None else ()


def parsed(path: str) -> Path:
    """``path`` taken apart; what is not a path is taken for one key, as providers may send anything."""
    try:
        return property_path.parse(path)
    except ValueError:
        return (path,)


def of_detailed_diff(
    step: StepMetadata, refresh: bool, visible: Callable[[Properties], Properties]
) -> tuple[Changes[str] | None, list[str]]:
    """Return the changes that a step's detailed diff names, and the paths of it that are hidden, sorted.

    Old values are a step's old outputs (or inputs where the diff says so), new ones are its new inputs; in
    a refresh, its new outputs. ``visible`` makes of properties what may be drawn.
    """
    hidden = hidden_paths(step)
    hits: set[str] = set()
    root = Change()
    olds, news = _Views(step.old, visible), _Views(step.new, visible)
    for text, difference in (step.detailed_diff or {}).items():
        path = parsed(text)
        hit = next((h for h in hidden if property_path.contains(h, path)), None)
        if hit is not None:
            hits.add(property_path.format(hit))
        elif path:
            old = olds.inputs if difference.input_diff else olds.outputs
            new = news.outputs if refresh and not difference.input_diff else news.inputs
            _add(path, difference.kind, root, old, new)
    return root.members, sorted(hits)


class _Views:
    """A state's properties as they may be drawn, each made once and only when needed."""

    def __init__(self, state: ResourceState | None, visible: Callable[[Properties], Properties]) -> None:
        self._state = state
        self._visible = visible

    @cached_property
    def inputs(self) -> Properties:
        return self._visible(self._state.inputs) if self._state else {}

    @cached_property
    def outputs(self) -> Properties:
        return self._visible(self._state.outputs) if self._state else {}


_MISSING = object()


def _add(path: Path, kind: DiffKind, parent: Change, old_parent: Value, new_parent: Value) -> None:
    element = path[0]
    old, new = _member(element, old_parent), _member(element, new_parent)
    if isinstance(element, int):
        parent.items = parent.items if parent.items is not None else Changes()
        _record(parent.items, element, path, kind, old, new)
    else:
        parent.members = parent.members if parent.members is not None else Changes()
        _record(parent.members, element, path, kind, old, new)


def _record(changes: Changes[K], key: K, path: Path, kind: DiffKind, old: Value, new: Value) -> None:
    before, after = (None if old is _MISSING else old), (None if new is _MISSING else new)
    if len(path) == 1:
        match kind:
            case "add" | "add-replace":
                changes.adds[key] = UNKNOWN if new is _MISSING else new
            case "delete" | "delete-replace":
                changes.deletes[key] = UNKNOWN if old is _MISSING else old
            case _:
                changes.updates[key] = of_values(before, after) or Change(before, after)
    elif before is None and after is not None:
        changes.adds[key] = after
    elif before is not None and after is None:
        changes.deletes[key] = before
    else:
        _add(path[1:], kind, changes.updates.setdefault(key, Change()), before, after)


def _member(key: str | int, value: Value) -> Value:
    if isinstance(value, Unknown | Output | Secret):
        return value  # what is inside cannot be known
    if isinstance(value, list) and isinstance(key, int):
        return value[key] if 0 <= key < len(value) else _MISSING
    if isinstance(value, Mapping) and isinstance(key, str):
        return value.get(key, _MISSING)
    return _MISSING


def _left_out(key: str, ignore: Ignore | None, path: Path) -> bool:
    return is_internal_key(key) or (ignore is not None and ignore((*path, key)))


def recording(hidden: Iterable[Path], hits: set[str]) -> Ignore:
    """An :data:`Ignore` for the ``hidden`` paths that notes in ``hits`` which of them were met."""
    paths = tuple(hidden)

    def ignore(path: Path) -> bool:
        for h in paths:
            if property_path.contains(h, path):
                hits.add(property_path.format(h))
                return True
        return False

    return ignore

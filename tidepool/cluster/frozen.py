"""Mappings that do not change, for the models that hold what a person wrote."""

from __future__ import annotations

from typing import Any, Never, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that refuses to change. A dict, so that JSON, YAML and pydantic know what to do with it."""

    def _refuse(self, *_arguments: object, **_named: object) -> Never:
        raise TypeError("this mapping is frozen; make a new one: {**old, key: value}")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def __deepcopy__(self, memo: object) -> FrozenDict[K, V]:
        return self


def frozen(value: Any) -> Any:
    """``value`` with all mappings and lists in it frozen: what JSON and YAML can hold."""
    if isinstance(value, dict):
        return FrozenDict({key: frozen(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    return value

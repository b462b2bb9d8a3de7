"""Property values: what a resource's inputs and outputs are made of.

A value is one of ``None | bool | int | float | str | list | dict`` (keys are strings) or one of the
classes below, which stand for the things that JSON has no word for. Source: Pulumi's
``sdk/go/common/resource`` (property values) and its wire form in ``proto/pulumi/resource.proto``.

Values are never changed in place: every function here returns a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

#: A property value. ``Any``, because Python's checkers cannot follow a recursive union cheaply.
Value: TypeAlias = Any
#: An object of property values: a resource's inputs or outputs.
Properties: TypeAlias = dict[str, Value]


@final
class Unknown:
    """A value that is not known before the operation has run. There is one: :data:`UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is encrypted in state and masked wherever it is shown. Never nested in another secret."""

    element: Value

    def __repr__(self) -> str:
        return "Secret([secret])"


@dataclass(frozen=True, slots=True)
class Output:
    """A value together with what it came from, as sent to components that accept outputs.

    ``element`` is :data:`UNKNOWN` where the value is not known; ``dependencies`` are URNs.
    """

    element: Value
    secret: bool = False
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asset:
    """A blob: exactly one of ``text``, ``path`` or ``uri`` is set; ``hash`` is the SHA-256 of its bytes."""

    hash: str = ""
    text: str | None = None
    path: str | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class Archive:
    """A collection of assets: exactly one of ``assets``, ``path`` or ``uri`` is set."""

    hash: str = ""
    assets: Mapping[str, Any] | None = None
    path: str | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceReference:
    """A reference to another resource. ``id`` is None for a component, UNKNOWN while it is not known."""

    urn: str
    id: Any = None
    package_version: str = ""


def secret(value: Value) -> Secret:
    """``value`` as a secret, without nesting."""
    return value if isinstance(value, Secret) else Secret(value)


def equal(a: Value, b: Value) -> bool:
    """Return whether two values are the same; unlike ``==``, tells ``True`` from ``1``."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal_part(v, b[k]) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal_part, a, b))
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    if isinstance(a, Asset | Archive) and type(a) is type(b) and a.hash and b.hash:
        return a.hash == b.hash
    return bool(a == b)


def _equal_part(a: Value, b: Value) -> bool:
    # Most are texts: those are told here.
    return a == b if a.__class__ is str and b.__class__ is str else equal(a, b)


def specials(value: Value) -> Iterator[Value]:
    """Yield of ``value`` and its parts those that JSON has no word for, outer ones first: secrets, assets, references, ..."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += [part for part in each.values() if part.__class__ not in _PLAIN]
        elif isinstance(each, list):
            left += [part for part in each if part.__class__ not in _PLAIN]
        elif each.__class__ not in _PLAIN:
            yield each
            left += _parts(each)


def _parts(special: Value) -> Iterable[Value]:
    match special:
        case Secret() | Output():
            return (special.element,)
        case Archive() if special.assets is not None:
            return special.assets.values()
        case _:
            return ()


def contains_unknowns(value: Value) -> bool:
    """Return whether any part of ``value`` is unknown."""
    return any(
        v is UNKNOWN or (isinstance(v, ResourceReference) and v.id is UNKNOWN) for v in specials(value)
    )


def contains_secrets(value: Value) -> bool:
    """Return whether any part of ``value`` is secret."""
    return any(isinstance(v, Secret) or (isinstance(v, Output) and v.secret) for v in specials(value))


def transform(value: Value, leave: Callable[[Value], Value]) -> Value:
    """``value`` rebuilt bottom-up: ``leave`` is given each part that JSON has no word for, after its own parts were rebuilt."""
    match value:
        case dict():
            return {k: v if v.__class__ in _PLAIN else transform(v, leave) for k, v in value.items()}
        case list():
            return [v if v.__class__ in _PLAIN else transform(v, leave) for v in value]
        case Secret():
            return leave(Secret(transform(value.element, leave)))
        case Output():
            return leave(Output(transform(value.element, leave), value.secret, value.dependencies))
        case Archive() if value.assets is not None:
            assets = {k: transform(v, leave) for k, v in value.assets.items()}
            return leave(Archive(value.hash, assets, value.path, value.uri))
        case _:
            return value if value.__class__ in _PLAIN else leave(value)


def without_secrets(value: Value) -> Value:
    """``value`` with every secret replaced by what it holds."""
    return transform(value, lambda v: v.element if isinstance(v, Secret) else v)


def without_outputs(value: Value) -> Value:
    """``value`` with every :class:`Output` replaced by the plain, secret or unknown value it stands for."""
    return transform(value, _bare)


def _bare(value: Value) -> Value:
    """The value that an output stands for; any other is itself."""
    if isinstance(value, Output):
        return secret(value.element) if value.secret else value.element
    return value


def output_dependencies(value: Value) -> set[str]:
    """The URNs that the outputs within ``value`` came from."""
    return {urn for v in specials(value) if isinstance(v, Output) for urn in v.dependencies}


def masked(value: Value) -> Value:
    """``value`` with every secret replaced by a mask: what may be shown."""

    def leave(v: Value) -> Value:
        v = _bare(v)
        return "[secret]" if isinstance(v, Secret) else v

    return transform(value, leave)


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})

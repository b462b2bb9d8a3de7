"""Frozen values as JSON and back, by their types: dataclasses, named tuples, enums, times, node sets, mappings.

What is written names its fields, so a field that a later release adds is missing in what an earlier one wrote, and
has its default. A field that was renamed is written by its old name, which its metadata has as ``stored_as``; a class
that was renamed has the old one in a class variable ``STORED_AS``. Many values of one class are written by columns: each field's name once, with all its values.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from ipaddress import IPv4Address
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from tidepool.cluster.frozen import FrozenDict, frozen
from tidepool.cluster.hostlist import HostSet
from tidepool.scaling.decision import stored_name

#: How a time among untyped values is told from a text.
_TIME: Final = "\x1ftime"
#: The first byte of what is compressed; JSON never begins with it.
_ZLIB: Final = b"\x78"
_COMPRESSED_FROM_BYTES: Final = 512

_Step = Callable[[Any], Any]


class Unreadable(Exception):
    """A value in the journal cannot be read: it is damaged, or of a release that had other fields."""


def dumps(kind: Any, value: Any) -> bytes:
    """``value``, which is a ``kind``, as compact JSON; compressed where that is worth it.

    Raises:
        ValueError: a time in it has no zone.
    """
    plain = _codec(kind)[0](value)
    written = json.dumps(plain, separators=(",", ":")).encode("ascii")
    # The quickest level: what repeats are names and zeros, which it finds as well.
    return zlib.compress(written, 1) if len(written) >= _COMPRESSED_FROM_BYTES else written


def loads(kind: Any, written: bytes) -> Any:
    """The value of type ``kind`` that `dumps` wrote. Mappings are frozen, times are in UTC.

    Raises:
        Unreadable: it is not one.
    """
    try:
        text = zlib.decompress(written) if written[:1] == _ZLIB else written
        return _codec(kind)[1](json.loads(text))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


@cache
def _codec(kind: Any) -> tuple[_Step, _Step]:
    """From a value of type ``kind`` to what JSON has, and back."""
    if kind is Any:
        return _plain, _unplain
    if kind in (str, int, bool, NoneType):
        return _same, _same
    if kind is float:
        return _same, float
    if kind is datetime:
        return _moment, datetime.fromisoformat
    if kind in (HostSet, IPv4Address):
        return str, kind
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _same, _one_of(arguments)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is tuple:
        return _many(arguments)
    if origin is frozenset:
        write, read = _codec(arguments[0])
        return (lambda found: sorted(map(write, found))), (lambda said: frozenset(map(read, said)))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*arguments)
    if isinstance(kind, type):
        return _class(kind)
    raise TypeError(f"the journal cannot write {kind!r}")


def _class(kind: type[Any]) -> tuple[_Step, _Step]:
    if issubclass(kind, StrEnum):
        return _same, kind
    if issubclass(kind, BaseModel):
        return (lambda model: model.model_dump(mode="json")), kind.model_validate
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind)
    raise TypeError(f"the journal cannot write {kind!r}")


def _record(kind: type[Any]) -> tuple[_Step, _Step]:
    """A dataclass or a named tuple, as an object."""
    steps = {each.name: (each.key, *_codec(each.hint)) for each in _fields(kind)}
    required = {each.key for each in _fields(kind) if each.is_required}

    def write(value: Any) -> Any:
        return {key: to_json(getattr(value, name)) for name, (key, to_json, _) in steps.items()}

    def read(said: Any) -> Any:
        if missing := required - said.keys():
            raise LookupError(f"{kind.__name__} without {', '.join(sorted(missing))}")
        return kind(
            **{name: from_json(said[key]) for name, (key, _, from_json) in steps.items() if key in said}
        )

    return write, read


def _many(arguments: tuple[Any, ...]) -> tuple[_Step, _Step]:
    """``tuple[X, ...]``: a list; of records, columns."""
    if len(arguments) != 2 or arguments[1] is not Ellipsis:
        raise TypeError(f"the journal cannot write tuples of {arguments!r}")
    (kind, _) = arguments
    if isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields")):
        return _columns(kind)
    write, read = _codec(kind)
    if write is _same and read is _same:
        return list, tuple
    return (lambda values: list(map(write, values))), (lambda said: tuple(map(read, said)))


def _columns(kind: type[Any]) -> tuple[_Step, _Step]:
    assert all(each.name == each.key for each in _fields(kind)), "columns have the names of their fields"
    steps = {each.name: _codec(each.hint) for each in _fields(kind)}
    required = {each.key for each in _fields(kind) if each.is_required}

    def write(values: Any) -> Any:
        if not values:
            return {}
        if hasattr(kind, "_fields"):
            columns: Sequence[Sequence[Any]] = list(zip(*values, strict=True))
        else:
            columns = [[getattr(value, name) for value in values] for name in steps]
        return {
            name: column if step[0] is _same else list(map(step[0], column))
            for (name, step), column in zip(steps.items(), columns, strict=True)
        }

    def read(said: Any) -> Any:
        if not said:
            return ()
        if missing := required - said.keys():
            raise LookupError(f"{kind.__name__} without {', '.join(sorted(missing))}")
        names = [name for name in steps if name in said]
        columns = [map(steps[name][1], said[name]) for name in names]
        if names == list(steps):
            return tuple(kind(*row) for row in zip(*columns, strict=True))
        return tuple(kind(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True))

    return write, read


def _mapping(key: Any, value: Any) -> tuple[_Step, _Step]:
    """An object where the keys are texts; else the keys and the values, each as a tuple of them is written."""
    if key is str or (isinstance(key, type) and issubclass(key, StrEnum)):
        read_key = _codec(key)[1]
        write, read = _codec(value)
        if write is _same and read is _same and key is str:
            return dict, FrozenDict

        def write_object(mapping: Any) -> Any:
            return {name: write(inner) for name, inner in mapping.items()}

        def read_object(said: Any) -> Any:
            return FrozenDict({read_key(name): read(inner) for name, inner in said.items()})

        return write_object, read_object
    keys, values = _codec(tuple[key, ...]), _codec(tuple[value, ...])

    def write_pairs(mapping: Any) -> Any:
        return [keys[0](tuple(mapping)), values[0](tuple(mapping.values()))]

    def read_pairs(said: Any) -> Any:
        return FrozenDict(zip(keys[1](said[0]), values[1](said[1]), strict=True))

    return write_pairs, read_pairs


def _union(kinds: tuple[Any, ...]) -> tuple[_Step, _Step]:
    """``X | None``: null or X. Of several classes: the class's name, and the value."""
    some = [kind for kind in kinds if kind is not NoneType]
    if all(get_origin(kind) is Literal for kind in kinds):
        return _same, _one_of(tuple(allowed for kind in kinds for allowed in get_args(kind)))
    if len(some) == 1:
        write, read = _codec(some[0])
        return (
            lambda value: None if value is None else write(value),
            lambda said: None if said is None else read(said),
        )
    if NoneType in kinds or not all(is_dataclass(kind) for kind in kinds):
        raise TypeError(f"the journal cannot write one of {kinds!r}")
    writers = {kind: _codec(kind)[0] for kind in kinds}
    readers = {stored_name(kind): _codec(kind)[1] for kind in kinds}
    return (
        lambda value: [stored_name(type(value)), writers[type(value)](value)],
        lambda said: readers[said[0]](said[1]),
    )


class _Field(NamedTuple):
    """A field: its name, that by which it is written, its type, and whether it has no default."""

    name: str
    key: str
    hint: Any
    is_required: bool


def _fields(kind: type[Any]) -> list[_Field]:
    hints = get_type_hints(kind)
    if not is_dataclass(kind):
        return [_Field(name, name, hints[name], name not in kind._field_defaults) for name in kind._fields]
    return [
        _Field(
            field.name,
            field.metadata.get("stored_as", field.name),
            hints[field.name],
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    ]


def _same(value: Any) -> Any:
    return value


def _one_of(allowed: tuple[Any, ...]) -> _Step:
    def read(said: Any) -> Any:
        if said not in allowed:
            raise ValueError(f"{said!r} is none of {', '.join(map(repr, allowed))}")
        return said

    return read


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone; say which")
    return (value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat()


def _plain(value: Any) -> Any:
    """Return what JSON can hold, and times, whatever they are in."""
    if isinstance(value, datetime):
        return {_TIME: _moment(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value))
    return value


def _unplain(said: Any) -> Any:
    if isinstance(said, dict):
        if said.keys() == {_TIME}:
            return datetime.fromisoformat(said[_TIME])
        return FrozenDict({key: _unplain(inner) for key, inner in said.items()})
    if isinstance(said, list):
        return tuple(map(_unplain, said))
    return frozen(said)

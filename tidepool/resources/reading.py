"""Inputs read as their model declares them, with all mistakes at once; and how two sets of inputs differ. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Network
from types import UnionType
from typing import Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin

from tidepool.cluster.boot import Variables
from tidepool.resources.model import MISSING, Model, Property, camel, types_of
from tidepool.resources.values import UNKNOWN, Inputs, Plain, has_unknowns

_M = TypeVar("_M")


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something wrong with the input ``property``: what it is, and what is allowed."""

    property: str
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the input ``key``. With ``replaces`` the resource cannot be changed so: another one is made."""

    key: str
    is_new: bool = False
    is_gone: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Reading(Generic[_M]):
    """Inputs as they were read.

    What is wrong, and what is not known yet, is read as if it were empty: ``value`` is worth nothing unless there are no
    mistakes, and nothing was unknown.
    """

    value: _M
    mistakes: tuple[Mistake, ...]
    has_unknowns: bool


def read(model: type[_M], inputs: Inputs, *, strict: bool = False) -> Reading[_M]:
    """Read inputs as a `Model`, or as a frozen dataclass. With ``strict``, what is no input is a mistake."""
    there = {key: value for key, value in inputs.items() if value is not None}
    reader = _Reader()
    value = reader.whole(model, "", there)
    if strict:
        reader.refuse_others(model, "", there)
    return Reading(value, tuple(reader.mistakes), any(map(has_unknowns, there.values())))


def _read_one(model: Any, name: str, value: Plain) -> Any:
    """The meaning of one input; where it cannot be read, what was given."""
    reader = _Reader()
    (entry,) = (each for each in _entries(model) if each[0].name == name)
    read = reader.entry(entry, "", {entry[0].wire: value})
    return value if reader.mistakes else read


def differences(model: type[Model], old: Inputs, new: Inputs) -> tuple[Change, ...]:
    """Return what changes of the meaning of inputs between two sets of them: what is left out, or null, is as its default."""
    found = []
    for each in sorted(model.properties.values(), key=lambda each: each.wire):
        if each.role == "output":
            continue
        before, after = old.get(each.wire), new.get(each.wire)
        if before == after and not has_unknowns(after):
            continue
        if not has_unknowns(before) and not has_unknowns(after):
            meant = [_read_one(model, each.name, value) for value in (before, after)]
            if meant[0] == meant[1]:
                continue
        replaces = each.replaces is True or (each.replaces == "known" and after is not UNKNOWN)
        found.append(Change(each.wire, before is None, after is None, replaces))
    return tuple(found)


#: A property, with its type.
_Entry = tuple[Property, Any]


@cache
def _entries(model: Any) -> tuple[_Entry, ...]:
    """The properties of a model; the fields of a dataclass, as inputs."""
    types = types_of(model)
    if issubclass(model, Model):
        return tuple((each, types[name]) for name, each in model.properties.items())
    found = []
    for each in dataclasses.fields(model):
        default = each.default
        if default is dataclasses.MISSING:
            made = each.default_factory
            default = MISSING if made is dataclasses.MISSING else made()
        least = each.metadata.get("least", 0)
        # What programs may give an output for is a text here.
        type_ = str if isinstance(types[each.name], TypeVar) else types[each.name]
        entry = Property("given", default, least=least, name=each.name, wire=camel(each.name))
        found.append((entry, type_))
    return tuple(found)


class _Reader:
    """Reads values by their types, and keeps the mistakes."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def whole(self, model: Any, path: str, inputs: Inputs) -> Any:
        return model(**{each[0].name: self.entry(each, path, inputs) for each in _entries(model)})

    def refuse_others(self, model: type, path: str, inputs: Inputs) -> None:
        known = sorted(each.wire for each, _ in _entries(model) if each.role != "output")
        for key in inputs:
            # Those with underscores are the engine's own.
            if key not in known and not key.startswith("__"):
                self._refuse(_below(path, key), f"there is no such input; known are {', '.join(known)}")

    def entry(self, entry: _Entry, path: str, inputs: Inputs) -> Any:
        declared, type_ = entry
        where, value = _below(path, declared.wire), inputs.get(declared.wire)
        if value is None:
            if declared.default is MISSING:
                self._refuse(where, f"it is missing; {_wanted(type_)} is wanted")
                return _empty(type_)
            return declared.default
        if value == "" and type_ is str and declared.default is MISSING:
            self._refuse(where, "it is empty")
        if declared.keyed_by and value is not UNKNOWN:
            return self._keyed(get_args(type_)[0], declared.keyed_by, where, value)
        return self._value(type_, where, value, declared.least)

    def _keyed(self, model: Any, keyed_by: str, path: str, value: Plain) -> Any:
        """A list that is stored as a map, by a field of its elements."""
        if not isinstance(value, dict):
            self._refuse(path, f"it is {_shown(value)}; a map is wanted")
            return ()
        # Maps come over gRPC in any order.
        return tuple(
            self._value(model, _below(path, key), {**each, keyed_by: key} if isinstance(each, dict) else each)
            for key, each in sorted(value.items())
        )

    def _value(self, type_: Any, path: str, value: Plain, least: float = 0) -> Any:
        origin, arguments = get_origin(type_), get_args(type_)
        if origin in (Union, UnionType):
            return self._value(arguments[0], path, value, least)
        if value is UNKNOWN:
            return _empty(type_)
        if type_ is Any:
            return value
        if type_ == Variables:
            return tuple(sorted(self._value(Mapping[str, str], path, value).items()))
        if not isinstance(value, _plain_type(type_)) or isinstance(value, bool) is not (type_ is bool):
            self._refuse(path, f"it is {_shown(value)}; {_wanted(type_)} is wanted")
            return _empty(type_)
        if type_ in (int, float):
            return self._number(type_, path, value, least)
        if type_ is IPv4Network:
            return self._network(path, value)
        if origin is Literal:
            return self._one_of(arguments, path, value)
        if origin in (tuple, Sequence):
            return tuple(self._value(arguments[0], f"{path}[{at}]", each) for at, each in enumerate(value))
        if origin is Mapping:
            # Maps come over gRPC in any order.
            return {
                arguments[0](key): self._value(arguments[1], _below(path, key), each)
                for key, each in sorted(value.items())
            }
        model = origin or type_
        return self._below(model, path, value) if dataclasses.is_dataclass(model) else value

    def _number(self, type_: type, path: str, value: float, least: float) -> float:
        if type_ is int and value != int(value):
            self._refuse(path, f"it is {value:g}; a whole number is wanted")
        elif value < least:
            self._refuse(path, f"it is {value:g}; at least {least:g} is wanted")
        return int(value) if type_ is int else float(value)

    def _network(self, path: str, value: str) -> IPv4Network:
        try:
            return IPv4Network(value)
        except ValueError as error:
            self._refuse(path, f"it is {value!r} ({error}); a range of IPv4 is wanted")
            return _NO_NETWORK

    def _one_of(self, allowed: Sequence[Any], path: str, value: str) -> str:
        if value not in allowed:
            self._refuse(path, f"it is {value!r}; allowed are {', '.join(map(repr, allowed))}")
        return value

    def _below(self, model: Any, path: str, value: Mapping[str, Plain]) -> Any:
        inputs = {key: each for key, each in value.items() if each is not None}
        before = len(self.mistakes)
        self.refuse_others(model, path, inputs)
        fields = {each[0].name: self.entry(each, path, inputs) for each in _entries(model)}
        return model(**fields) if len(self.mistakes) == before else None

    def _refuse(self, path: str, reason: str) -> None:
        self.mistakes.append(Mistake(path, reason))


_NO_NETWORK: Final = IPv4Network("0.0.0.0/0")
#: By a type: the plain values that are read as it, what a person calls them, and what stands for one that is wrong.
_SIMPLE: Final[Mapping[Any, tuple[Any, str, Any]]] = {
    str: (str, "a text", ""),
    bool: (bool, "true or false", False),
    int: (float | int, "a whole number", 0),
    float: (float | int, "a number", 0.0),
    IPv4Network: (str, "a text", _NO_NETWORK),
    Literal: (str, "a text", ""),
    tuple: (list, "a list", ()),
    Sequence: (list, "a list", ()),
    Mapping: (dict, "a map", {}),
}


def _simple(type_: Any) -> tuple[Any, str, Any]:
    if get_origin(type_) in (Union, UnionType):
        return _simple(get_args(type_)[0])
    return _SIMPLE.get(get_origin(type_) or type_, (dict, "a map", None))


def _plain_type(type_: Any) -> Any:
    return _simple(type_)[0]


def _wanted(type_: Any) -> str:
    words = _simple(type_)[1]
    if words != "a list":
        return words
    return f"a list of {_simple(get_args(type_)[0])[1].removeprefix('a ')}s"


def _empty(type_: Any) -> Any:
    return None if type_ is Any else _simple(type_)[2]


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(value: Plain) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float() | int():
            return f"{value:g}"
        case str():
            return repr(value)
        case list():
            return "a list"
        case _:
            return "a map"

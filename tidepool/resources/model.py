"""The declaration of a resource: its inputs and outputs, once for programs, the provider, the schema and the diff.

A model names each property with its type and all that holds of it:

    class VolumeModel(Model):
        stack: Field[str] = given(replaces=True)
        retain: Field[bool] = given(default=False)
        path: Field[str] = output()

    class Volume(Resource, VolumeModel, token="tidepool:local:Volume"): ...

Programs give ``Volume("home", stack="dev", retain=True)`` Pulumi inputs, and read `Output`s of it. The provider reads a
`VolumeModel` of plain values (`tidepool.resources.reading`). In the state, names are the same words in camelCase.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from enum import Enum
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, dataclass_transform

import pulumi
from pulumi import Input, Output

if TYPE_CHECKING:
    from typing import Generic, overload

    from typing_extensions import TypeVar

    _R = TypeVar("_R")
    _W = TypeVar("_W", default=_R)

    class Field(Generic[_R, _W]):
        """A property: ``_R`` to the provider; to programs an input of ``_W`` where it is given, and an `Output` of ``_R``."""

        @overload
        def __get__(self, instance: pulumi.Resource, owner: Any) -> Output[_R]: ...
        @overload
        def __get__(self, instance: Model, owner: Any) -> _R: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...
        def __set__(self, instance: Any, value: Input[_W] | None) -> None: ...
else:

    class Field:
        """A property; what is in the brackets first is its type."""

        def __class_getitem__(cls, types: Any) -> Any:
            return types[0] if isinstance(types, tuple) else types


#: ``given``: by programs. ``derived``: from the others, by the provider's check. ``condition``: how it is while all is
#: well; a look says how it is else, so that what died is made good. ``output``: what the resource has beside its inputs.
Role = Literal["given", "derived", "condition", "output"]


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


@dataclasses.dataclass(slots=True)
class Property:
    """A declared property: ``name`` in Python, ``wire`` in the state.

    ``default`` stands for one that is left out, and is in the state only where it is ``stored``. ``replaces``: a change of
    it asks for another resource; ``"known"``: not where the new value is not known yet, and likely the one that it was.
    ``remade``: every update makes it anew, so that previews cannot tell it. ``least`` is of numbers. A list ``keyed_by`` a
    field of its elements is stored as a map.
    """

    role: Role
    default: Any = MISSING
    replaces: bool | Literal["known"] = False
    is_secret: bool = False
    stored: bool = False
    remade: bool = False
    least: float = 0
    keyed_by: str = ""
    name: str = ""
    wire: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.wire = name, camel(name)


def given(
    *,
    default: Any = MISSING,
    replaces: bool | Literal["known"] = False,
    secret: bool = False,
    stored: bool = False,
    least: float = 0,
    keyed_by: str = "",
) -> Any:
    """Declare an input that programs give; they must, where there is no default."""
    return Property("given", default, replaces, secret, stored, least=least, keyed_by=keyed_by)


def derived(*, replaces: bool = False, init: Literal[False] = False) -> Any:  # noqa: ARG001 - for type checkers
    """Declare an input that follows from the others, and decides about changes."""
    return Property("derived", "", replaces)


def condition(well: str, *, init: Literal[False] = False) -> Any:  # noqa: ARG001 - for type checkers
    """Declare how the resource is; ``well`` is how it should be."""
    return Property("condition", well)


def output(
    *,
    default: Any = "",
    secret: bool = False,
    remade: bool = False,
    init: Literal[False] = False,  # noqa: ARG001 - for type checkers
) -> Any:
    """Declare an output."""
    return Property("output", default, is_secret=secret, remade=remade)


def _argument(*, default: Any = None, kw_only: bool = True) -> Any:
    """Declare an argument of Pulumi's own."""


@dataclass_transform(kw_only_default=True, field_specifiers=(given, derived, condition, output, _argument))
class Model:
    """The declared properties of a resource, and the frozen values that the provider reads of them."""

    #: All of them, inherited ones too, by their names in Python.
    properties: ClassVar[Mapping[str, Property]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = (item for base in reversed(cls.__mro__) for item in vars(base).items())
        cls.properties = {name: each for name, each in declared if isinstance(each, Property)}

    def __init__(self, **values: Any) -> None:
        defaults = {name: each.default for name, each in self.properties.items()}
        if unknown := values.keys() - defaults.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        vars(self).update(defaults | values)
        if missing := [name for name, value in vars(self).items() if value is MISSING]:
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of {type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # of maps and lists there is none

    def __repr__(self) -> str:
        shown = (
            f"{name}={vars(self)[name]!r}" for name, each in self.properties.items() if not each.is_secret
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class Resource(pulumi.CustomResource, Model):
    """A resource of the provider, as programs register it: with the inputs of its model, by keyword."""

    token: ClassVar[str]
    #: What the provider reads its values as.
    model: ClassVar[type[Model]]
    #: There cannot be two of one name: the old one goes before the new one is made.
    delete_first: ClassVar[bool] = True

    resource_name: str = _argument(kw_only=False)
    opts: pulumi.ResourceOptions | None = _argument(default=None)

    def __init_subclass__(cls, token: str, delete_first: bool = True) -> None:
        super().__init_subclass__()
        cls.token, cls.delete_first = token, delete_first
        (cls.model,) = (
            base for base in cls.__bases__ if issubclass(base, Model) and not issubclass(base, Resource)
        )

    def __init__(
        self, resource_name: str, *, opts: pulumi.ResourceOptions | None = None, **inputs: Any
    ) -> None:
        super().__init__(self.token, resource_name, self._inputs(inputs), opts)
        for name, each in self.properties.items():
            if name != each.wire and each.wire in vars(self):
                vars(self)[name] = vars(self)[each.wire]

    @classmethod
    def _inputs(cls, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by their names in the state; None for what is left out, and for outputs, which is not stored."""
        declared = {name: each for name, each in cls.properties.items() if each.role == "given"}
        if unknown := inputs.keys() - declared.keys():
            raise TypeError(f"{cls.__name__} has no input {', '.join(sorted(unknown))}")
        found: dict[str, Any] = {}
        for name, each in declared.items():
            value = inputs.get(name, each.default if each.stored else None)
            if value is None and each.default is MISSING:
                raise TypeError(f"{cls.__name__} needs the input {name}")
            if each.keyed_by and isinstance(value, Sequence):
                value = {getattr(one, each.keyed_by): one for one in value}
            found[each.wire] = to_wire(value, but=each.keyed_by)
            if each.is_secret and value is not None:
                found[each.wire] = Output.secret(found[each.wire])
        others = (each.wire for each in cls.properties.values() if each.role in ("derived", "output"))
        return {**found, **dict.fromkeys(others)}

    # A resource is no value.
    __setattr__ = object.__setattr__  # type: ignore[assignment]
    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]
    __repr__ = object.__repr__


def types_of(model: Any) -> dict[str, Any]:
    """The types of a model's properties, or of a dataclass's fields, by their names."""
    found: dict[str, Any] = {}
    for each in reversed(model.__mro__):
        if each is not Resource and (issubclass(each, Model) or dataclasses.is_dataclass(each)):
            found |= inspect.get_annotations(each, eval_str=True)
    return {name: found[name] for name in names_of(model)}


def names_of(model: Any) -> tuple[str, ...]:
    """The names of a model's properties, or of a dataclass's fields."""
    if issubclass(model, Model):
        return tuple(model.properties)
    return tuple(each.name for each in dataclasses.fields(model))


def camel(name: str) -> str:
    """The name in the state of what is ``memory_mib`` in Python: ``memoryMib``."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def to_wire(value: Any, but: str = "") -> Any:
    """Return the value as it is stored; `Output`s stay.

    Dataclasses are maps with names in camelCase, without the field ``but`` and what is as its default.
    """
    if value.__class__ in (str, int, bool):  # most values are: they are told first
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each: getattr(value, each.name) for each in dataclasses.fields(value)}
        return {
            camel(each.name): to_wire(own)
            for each, own in fields.items()
            if each.name != but and own is not each.default and own != each.default
        }
    if isinstance(value, Mapping):
        return {str(key): to_wire(each, but) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_wire(each) for each in value]
    return str(value) if isinstance(value, IPv4Network) else value

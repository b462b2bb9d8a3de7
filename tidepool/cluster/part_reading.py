"""Reading a model of a spec from what a person wrote: pydantic's errors as mistakes, in words and places of the person's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tidepool.cluster.part import Part
from tidepool.cluster.spec_entries import Mistake, nearest


def field_key(name: str, field: FieldInfo) -> str:
    """The key of a field in ``Pulumi.<stack>.yaml``."""
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that values of ``annotation`` are, or hold: of ``tuple[Fleet, ...]`` it is Fleet."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(dict.fromkeys(found for inner in get_args(annotation) for found in models_in(inner)))


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The first of them, which is the only one but where a ``name`` tells which of several is meant."""
    return next(iter(models_in(annotation)), None)


def is_by_name(annotation: Any) -> bool:
    """Return whether values of ``annotation`` are mappings, in which a person's names stand before the models."""
    origin = get_origin(annotation)
    return (isinstance(origin, type) and issubclass(origin, Mapping)) or any(
        is_by_name(inner) for inner in get_args(annotation)
    )


def model_named(annotation: Any, name: str) -> type[BaseModel] | None:
    """Return that one of several models whose ``name`` it is."""
    found = models_in(annotation)
    named = (model for model in found if name in get_args(_name_of(model)))
    return next(named, None) if len(found) > 1 else None


def _name_of(model: type[BaseModel]) -> Any:
    field = model.model_fields.get("name")
    return field.annotation if field else None


_P = TypeVar("_P", bound=Part)

#: Pydantic's words for what a value should be, in ours.
_SHOULD_BE: Final = (
    (
        "Input should be a valid dictionary or object to extract fields from",
        "write a name, or keys and values",
    ),
    ("Input should be a valid dictionary or instance of ", "write keys and values here, those of "),
    ("Input should be a valid dictionary", "write keys and values here"),
    ("Input should be a valid tuple", "write a list here"),
    ("Keys should be strings", "a key is text here; put it in quotes, or correct it"),
    ("Tuple should have at least 1 item after validation, not 0", "at least one is needed"),
    ("Input should be ", "it should be "),
)


def read_part(part: type[_P], path: str, given: object, mistakes: list[Mistake]) -> _P | None:
    """The ``part`` that ``given`` says; None where it cannot be, with every mistake in it added to ``mistakes``.

    ``path`` is where it stands in the spec: ``infrastructures.aws``.
    """
    try:
        return part.model_validate(dict(given) if isinstance(given, Mapping) else given)
    except ValidationError as error:
        mistakes += [mistake_of(each, part, path) for each in error.errors(include_url=False)]
        return None


def seems_short(error: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    """Return whether a list seems short only because entries of it are wrong, which is told already."""
    loc = error["loc"]
    return error["type"] == "too_short" and any(
        len(e["loc"]) > len(loc) and e["loc"][: len(loc)] == loc for e in errors
    )


def mistake_of(error: ErrorDetails, model: type[BaseModel], path: str = "") -> Mistake:
    """One of pydantic's errors about a ``model`` that stands at ``path``, for people."""
    loc, here = _model_at(model, error["loc"])
    path = _path(path, loc)
    match error["type"]:
        case "union_tag_invalid":
            known = [tag.strip(" '") for tag in error["ctx"]["expected_tags"].split(",")]
            name = str(error["ctx"]["tag"])
            return Mistake(f"{path}.name", name, f"there is none of that name; {nearest(name, known)}")
        case "union_tag_not_found":
            return Mistake(f"{path}.name", None, f"missing. {_described(model, error['loc'])}")
        case "missing":
            return Mistake(path, None, f"missing. {_described(model, error['loc'])}")
        case "extra_forbidden":
            _, within = _model_at(model, error["loc"][:-1])
            known = [field_key(name, field) for name, field in within.model_fields.items()] if within else []
            return Mistake(path, error["input"], f"no such key; {nearest(str(loc[-1]), known)}")
        case "value_error":
            # Of keys that do not agree, what says so names those that are meant.
            found = None if here is not None and isinstance(error["input"], Mapping) else error["input"]
            return Mistake(path, found, str(error["ctx"]["error"]))
        case _:
            message = error["msg"]
            for theirs, ours in _SHOULD_BE:
                if message.startswith(theirs):
                    message = ours + message.removeprefix(theirs)
                    break
            described = _described(model, error["loc"])
            return Mistake(path, error["input"], f"{message}. {described}" if described else message)


def _path(at: str, loc: tuple[int | str, ...]) -> str:
    """Return the path as `pulumi config set --path` takes it: ``fleets[0].max_nodes``."""
    # Pydantic's "[key]" says that the key is wrong, and not its value.
    keys = [key for key in loc if key != "[key]"]
    return (at + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)).removeprefix(".")


def _model_at(
    model: type[BaseModel] | None, loc: tuple[int | str, ...]
) -> tuple[tuple[int | str, ...], type[BaseModel] | None]:
    """The keys as a person wrote them, and the model that is there.

    Where a ``name`` tells which of several models is meant, pydantic has it among the keys.
    """
    keys: list[int | str] = []
    annotation: Any = None
    for key in loc:
        if isinstance(key, str) and (named := model_named(annotation, key)) is not None:
            model, annotation = named, None
            continue
        keys.append(key)
        if is_by_name(annotation):
            annotation = None
        elif isinstance(key, str) and model is not None:
            fields = {field_key(name, field): field for name, field in model.model_fields.items()}
            annotation = fields[key].annotation if key in fields else None
            model = model_in(annotation)
    return tuple(keys), model


def _described(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """Describe the field at ``loc``, as its model does; of an entry in a list, what the list is."""
    names = [(i, key) for i, key in enumerate(loc) if isinstance(key, str)]
    if not names:
        return ""
    place, name = names[-1]
    _, within = _model_at(model, loc[:place])
    for field_name, field in within.model_fields.items() if within else ():
        if field_key(field_name, field) == name:
            return field.description or ""
    return ""

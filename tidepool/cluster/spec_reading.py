"""Reading a `ClusterSpec` from the mapping in ``Pulumi.<stack>.yaml``, and telling of all mistakes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_checks import Mistake, disagreements, nearest, subnet_suggestion
from tidepool.cluster.spec_fields import field_key, model_in, model_named

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


class SpecError(ValueError):
    """A spec that no cluster can be made of. Its text is for people and tells of all ``mistakes``."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        number = "one mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__("\n  ".join([f"{number} in the cluster's spec:", *map(str, mistakes)]))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class Concern:
    """Something in a spec that can be, and that a person should know: where, and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def read_spec(mapping: Mapping[str, Any]) -> ClusterSpec:
    """The spec that ``mapping`` says, as YAML gives it: texts, numbers, lists and mappings.

    Raises:
        SpecError: with every mistake in it.
    """
    try:
        return ClusterSpec.model_validate(dict(mapping))
    except ValidationError as error:
        # What the parts say to each other is asked once more, for pydantic asks only where every part is right.
        errors = [e for e in error.errors(include_url=False) if e["loc"]]
        of_parts = [_mistake(e, mapping) for e in errors if not _follows(e, errors)]
        raise SpecError((*of_parts, *disagreements(mapping))) from None


def concerns(spec: ClusterSpec, machine_memory_mib: int | None = None) -> tuple[Concern, ...]:
    """What a person should know of ``spec`` before it is built.

    ``machine_memory_mib`` is the memory of this machine, which the infrastructure `local` takes from.
    """
    return (*_without_partition(spec), *_without_default(spec), *_beyond_memory(spec, machine_memory_mib))


def _without_partition(spec: ClusterSpec) -> Iterable[Concern]:
    named = [
        set(p.fleets) if p.fleets is not None else {f.name for f in spec.fleets} for p in spec.partitions
    ]
    for i, fleet in enumerate(spec.fleets):
        if not any(fleet.name in names for names in named):
            yield Concern(f"fleets[{i}]", f"no partition has {fleet.name}, so no job can reach its nodes")


def _without_default(spec: ClusterSpec) -> Iterable[Concern]:
    if len(spec.partitions) > 1 and not any(p.default for p in spec.partitions):
        yield Concern("partitions", "none is the default, so jobs that name no partition are refused")


def _beyond_memory(spec: ClusterSpec, machine_memory_mib: int | None) -> Iterable[Concern]:
    """The sums, where the nodes that may run on this machine have more memory than it has."""
    if machine_memory_mib is None:
        return
    sums: list[tuple[str, int]] = []
    for i, fleet in enumerate(spec.fleets):
        here = next((x for x in fleet.infrastructures if x.name == "local"), None)
        if here is None:
            continue
        nodes = fleet.max_nodes if here.max_nodes is None else min(fleet.max_nodes, here.max_nodes)
        needed = nodes * fleet.shape.memory_mib
        sums.append((f"{fleet.name} {nodes} x {fleet.shape.memory_mib} = {needed} MiB", needed))
        if needed > machine_memory_mib:
            yield Concern(
                f"fleets[{i}].max_nodes",
                f"{nodes} nodes of {fleet.shape.memory_mib} MiB are {needed} MiB, and this machine has "
                f"{machine_memory_mib} MiB: jobs that use what they asked for will not fit. "
                f"{machine_memory_mib // fleet.shape.memory_mib} nodes would",
            )
    total = sum(needed for _, needed in sums)
    if len(sums) > 1 and total > machine_memory_mib:
        yield Concern(
            "fleets",
            f"all together, {' + '.join(text for text, _ in sums)}: {total} MiB, and this machine has "
            f"{machine_memory_mib} MiB",
        )


def _follows(error: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    """Whether a list seems short only because entries of it are wrong, which is told already."""
    loc = error["loc"]
    return error["type"] == "too_short" and any(
        len(e["loc"]) > len(loc) and e["loc"][: len(loc)] == loc for e in errors
    )


def _mistake(error: ErrorDetails, mapping: Mapping[str, Any]) -> Mistake:
    """One of pydantic's errors, for people."""
    loc, _ = _place(error["loc"])
    path = _path(loc)
    match error["type"]:
        case "union_tag_invalid":
            known = [tag.strip(" '") for tag in error["ctx"]["expected_tags"].split(",")]
            name = str(error["ctx"]["tag"])
            return Mistake(f"{path}.name", name, f"there is none of that name; {nearest(name, known)}")
        case "union_tag_not_found":
            return Mistake(f"{path}.name", None, f"missing. {_described(error['loc'])}")
        case "missing":
            suggestion = ""
            if loc[-1] == "subnet":
                suggestion = subnet_suggestion(mapping, error["input"].get("max_nodes"))
            return Mistake(
                path,
                None,
                f"missing. {_described(error['loc'])}" + (f" Here, {suggestion}." if suggestion else ""),
            )
        case "extra_forbidden":
            _, model = _place(error["loc"][:-1])
            known = [field_key(name, field) for name, field in model.model_fields.items()] if model else []
            return Mistake(path, error["input"], f"no such key; {nearest(str(loc[-1]), known)}")
        case "value_error":
            return Mistake(path, error["input"], str(error["ctx"]["error"]))
        case _:
            message = error["msg"]
            for theirs, ours in _SHOULD_BE:
                if message.startswith(theirs):
                    message = ours + message.removeprefix(theirs)
                    break
            described = _described(error["loc"])
            return Mistake(path, error["input"], f"{message}. {described}" if described else message)


def _path(loc: tuple[int | str, ...]) -> str:
    """As `pulumi config set --path` takes it: ``fleets[0].max_nodes``."""
    # Pydantic's "[key]" says that the key is wrong, and not its value.
    keys = [key for key in loc if key != "[key]"]
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _place(loc: tuple[int | str, ...]) -> tuple[tuple[int | str, ...], type[BaseModel] | None]:
    """The keys as a person wrote them, and the model that is there.

    Where a ``name`` tells which of several models is meant, pydantic has it among the keys.
    """
    keys: list[int | str] = []
    model: type[BaseModel] | None = ClusterSpec
    annotation: Any = None
    for key in loc:
        if isinstance(key, str) and (named := model_named(annotation, key)) is not None:
            model, annotation = named, None
            continue
        keys.append(key)
        if isinstance(key, str) and model is not None:
            fields = {field_key(name, field): field for name, field in model.model_fields.items()}
            annotation = fields[key].annotation if key in fields else None
            model = model_in(annotation)
    return tuple(keys), model


def _described(loc: tuple[int | str, ...]) -> str:
    """What the field at ``loc`` is, as its model says it; of an entry in a list, what the list is."""
    names = [(i, key) for i, key in enumerate(loc) if isinstance(key, str)]
    if not names:
        return ""
    place, name = names[-1]
    _, model = _place(loc[:place])
    for field_name, field in model.model_fields.items() if model else ():
        if field_key(field_name, field) == name:
            return field.description or ""
    return ""

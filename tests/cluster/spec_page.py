"""The page of documentation that the models of a spec write of themselves."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import IPv4Address
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tidepool.cluster.part_reading import field_key, models_in
from tidepool.cluster.shape import Shape
from tidepool.cluster.slurm_keys import SLURM_CONF
from tidepool.cluster.slurm_options import PROTECTED, PROTECTED_BEFORE_23_11
from tidepool.cluster.spec import ClusterSpec

#: The spec on the page. A test reads it.
EXAMPLE: Final = """\
name: physics
network: 10.77.0.0/16
offerings:
  - name: a100
    shape:
      cpus: 8
      memory: 32GiB
      gres: [{name: gpu, type: a100, count: 2, files: "/dev/nvidia[0-1]"}]
    features: [a100]
    infrastructures:
      - local
      - {name: aws, options: {instance_type: p4d.24xlarge}, price_usd_per_hour: 32.77}
fleets:
  - name: cpu
    subnet: 10.77.1.0/24
    max_nodes: 16
    shape: {cpus: 2, memory: 4GiB}
  - {name: gpu, subnet: 10.77.2.0/24, max_nodes: 4, offering: a100}
partitions:
  - {name: main, default: true}
  - {name: gpu, fleets: [gpu], max_time: "1-00:00:00"}
limits: {price_usd_per_hour: 100}
slurm_conf: {KillWait: 60}
"""

_TOP: Final = """\
# The cluster's spec
What stands under the stack's configuration in `Pulumi.<stack>.yaml`. This page is written from the models in
`tidepool/cluster/spec.py`; a test holds it current.

```yaml
{example}```

All mistakes in a spec are told at once, before anything is created. Keys that are not listed here are refused.
"""

_END: Final = """\
## What a person cannot set in `slurm_conf`
All else that the release in `slurm_version` knows can be set, and overrides what Tidepool writes.

| key | why not |
|---|---|
"""

_WORDS: Final[dict[Any, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    IPv4Address: "address",
}


def spec_page() -> str:
    """The text of ``docs/cluster-spec.md``."""
    sections = [_section(model) for model in _models()]
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for key, why in {**PROTECTED, **PROTECTED_BEFORE_23_11}.items():
        keys[why].append(f"`{SLURM_CONF[key].name}`")
    refused = "".join(f"| {', '.join(names)} | {why} |\n" for why, names in keys.items())
    return "\n".join([_TOP.format(example=EXAMPLE), *sections, _END + refused])


def _models() -> list[type[BaseModel]]:
    """All models of a spec, each before those that are deeper within it."""
    models: list[type[BaseModel]] = [ClusterSpec]
    for model in models:
        inner = (found for field in model.model_fields.values() for found in models_in(field.annotation))
        models += dict.fromkeys(found for found in inner if found not in models)
    return models


def _section(model: type[BaseModel]) -> str:
    lines = [
        f"## {model.__name__}",
        *(model.__doc__ or "").splitlines(),
        "",
        "| key | what it is | default | |",
        "|---|---|---|---|",
    ]
    for name, field in model.model_fields.items():
        cells = (
            f"`{field_key(name, field)}`",
            _kind(field.annotation),
            _default(field),
            field.description or "",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _kind(annotation: Any) -> str:
    """An annotation, in words."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(f"`{word}`" for word in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_kind(inner) for inner in arguments if inner is not NoneType)
    if origin is tuple:
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        return "keys and values"
    if hasattr(annotation, "__metadata__"):
        return _kind(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return _WORDS.get(annotation, "network")


def _default(field: FieldInfo) -> str:
    default = field.default
    if field.default_factory is not None or default in (None, ()):
        return ""
    if default is PydanticUndefined:
        said = field.json_schema_extra
        return f"**required** without `{said['without']}`" if isinstance(said, dict) else "**required**"
    return _value(default)


def _value(value: Any) -> str:
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case Shape():
            return f"{value.cpus} cpus, {value.memory_mib} MiB"
        case BaseModel():
            name = getattr(value, "name", None)
            return f"`{name}`" if name else "its defaults"
        case tuple():
            return ", ".join(map(_value, value))
        case _:
            return f"`{value}`"

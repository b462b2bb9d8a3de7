"""Service offerings of machines: the one that is named, else the smallest one that fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """Needs of a machine of its offering; ``name`` where a person names one."""

    cpus: int
    memory_mib: int
    details: Mapping[str, str]
    name: str = ""
    host_tags: tuple[str, ...] = ()


def fitting(offerings: Iterable[Mapping[str, Any]], shape: Shape) -> Mapping[str, Any] | None:
    """Return the offering that machines of ``shape`` are of; None where there is none.

    One of just so many processors is better than one that leaves them open, and of these the least memory.
    """
    fit = [each for each in offerings if not unfit(each, shape)]
    return min(
        fit,
        key=lambda each: (bool(each.get("iscustomized")), int(each.get("memory") or 0), str(each["name"])),
        default=None,
    )


def unfit(offering: Mapping[str, Any], shape: Shape) -> Sequence[str]:
    """Return why machines of ``shape`` cannot be of an offering."""
    lacks = []
    if shape.name and offering.get("name") != shape.name:
        lacks.append(f"it is {offering.get('name')}")
    if offering.get("state", "Active") != "Active":
        lacks.append(f"it is {offering['state']}")
    said = {str(key): str(value) for key, value in (offering.get("serviceofferingdetails") or {}).items()}
    if wrong := {key: value for key, value in shape.details.items() if said.get(key) != value}:
        lacks.append(
            f"it does not say {', '.join(f'{key}: {value}' for key, value in sorted(wrong.items()))}"
        )
    tags = {tag.strip() for tag in str(offering.get("hosttags") or "").split(",")}
    if missing := [tag for tag in shape.host_tags if tag not in tags]:
        lacks.append(f"it does not ask for hosts with the tag {', '.join(missing)}")
    if offering.get("iscustomized"):
        most = said.get("maxcpunumber"), said.get("maxmemory")
        least = said.get("mincpunumber"), said.get("minmemory")
        for what, wanted, low, high in zip(
            ("processors", "MiB"), (shape.cpus, shape.memory_mib), least, most, strict=True
        ):
            if not int(low or 1) <= wanted <= int(high or wanted):
                lacks.append(f"it has {low or 1} to {high} {what}, and a machine needs {wanted}")
        return lacks
    if int(offering["cpunumber"]) != shape.cpus:
        lacks.append(f"it has {offering['cpunumber']} processors, and a machine needs {shape.cpus}")
    if int(offering["memory"]) < shape.memory_mib:
        lacks.append(f"it has {offering['memory']} MiB, and a machine needs {shape.memory_mib}")
    return lacks

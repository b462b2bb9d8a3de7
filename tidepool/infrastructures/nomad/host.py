"""A host as Nomad knows it (a client; Nomad calls it a node), and whether it is as constraints want it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidepool.infrastructures.nomad.jobspec import Constraint


@dataclass(frozen=True, slots=True)
class Host:
    """A host of Nomad. ``drivers`` are those that work."""

    id: str
    name: str
    datacenter: str = "dc1"
    node_pool: str = "default"
    version: str = ""
    is_up: bool = True
    is_eligible: bool = True
    drivers: frozenset[str] = frozenset()
    meta: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


def read_host(node: Mapping[str, Any]) -> Host:
    """From what ``/v1/node/ID`` says."""
    attributes = node.get("Attributes") or {}
    drivers = node.get("Drivers") or {}
    return Host(
        id=node["ID"],
        name=node.get("Name", ""),
        datacenter=node.get("Datacenter", ""),
        node_pool=node.get("NodePool", "default"),
        version=attributes.get("nomad.version", ""),
        is_up=node.get("Status") == "ready",
        is_eligible=node.get("SchedulingEligibility") == "eligible",
        drivers=frozenset(name for name, told in drivers.items() if told.get("Healthy")),
        meta=node.get("Meta") or {},
        attributes=attributes,
    )


def lacking(host: Host, constraints: Sequence[Constraint]) -> tuple[str, ...]:
    """The constraints that it does not keep, in words."""
    return tuple(
        f"{each.left} is {found or 'not there'}, and not {each.right}"
        for each in constraints
        if not _keeps(found := _value(host, each.left), each)
    )


def _value(host: Host, of: str) -> str:
    key = of.removeprefix("${").removesuffix("}")
    if key == "node.unique.name":
        return host.name
    scope, _, rest = key.partition(".")
    return (host.attributes if scope == "attr" else host.meta).get(rest, "")


def _keeps(found: str, constraint: Constraint) -> bool:
    if constraint.operand == "set_contains_any":
        return found in constraint.right.split(",")
    return found == constraint.right

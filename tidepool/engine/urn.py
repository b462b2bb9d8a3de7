"""Uniform resource names: ``urn:pulumi:STACK::PROJECT::PARENT_TYPE$TYPE::NAME``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ROOT_STACK_TYPE: Final = "pulumi:pulumi:Stack"
_PREFIX: Final = "urn:pulumi:"


@dataclass(frozen=True, slots=True)
class Parts:
    """A URN taken apart. ``qualified_type`` holds the parents' types, joined by ``$``."""

    stack: str
    project: str
    qualified_type: str
    name: str

    @property
    def type(self) -> str:
        return self.qualified_type.rsplit("$", 1)[-1]


@lru_cache(maxsize=65_536)
def parse(urn: str) -> Parts:
    """Take ``urn`` apart.

    Raises:
        ValueError: when it is not a URN.
    """
    if not urn.startswith(_PREFIX):
        raise ValueError(f"invalid URN {urn!r}: it must begin with {_PREFIX!r}")
    parts = urn[len(_PREFIX) :].split("::", 3)
    if len(parts) != 4:
        raise ValueError(f"invalid URN {urn!r}: expected {_PREFIX}STACK::PROJECT::TYPE::NAME")
    return Parts(*parts)


def make(stack: str, project: str, parent_qualified_type: str, type: str, name: str) -> str:
    """The URN of a resource. ``parent_qualified_type`` is empty for a child of the stack."""
    qualified = type
    if parent_qualified_type and parent_qualified_type != ROOT_STACK_TYPE:
        qualified = f"{parent_qualified_type}${type}"
    return f"{_PREFIX}{stack}::{project}::{qualified}::{name}"


def child(parent: str, type: str, name: str) -> str:
    """The URN of a resource ``name`` of ``type`` below the resource ``parent``."""
    p = parse(parent)
    return make(p.stack, p.project, p.qualified_type, type, name)


def name_of(urn: str) -> str:
    """The resource's own name."""
    return parse(urn).name


def type_of(urn: str) -> str:
    """The resource's own type token."""
    return parse(urn).type


def qualified_type_of(urn: str) -> str:
    """The resource's type with its parents' types before it."""
    return parse(urn).qualified_type

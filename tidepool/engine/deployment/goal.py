"""What a program asks for: the state that one resource should have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidepool.engine.resource import CustomTimeouts
from tidepool.engine.values import Properties


@dataclass(frozen=True, slots=True)
class Alias:
    """A name under which a resource may be known from before: a whole URN, or the parts that changed."""

    urn: str = ""
    name: str = ""
    type: str = ""
    stack: str = ""
    project: str = ""
    parent: str = ""
    no_parent: bool = False


@dataclass(frozen=True, slots=True)
class Goal:
    """One resource as the program registered it, its options resolved."""

    type: str
    name: str
    custom: bool
    properties: Properties
    parent: str = ""
    provider: str = ""
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: tuple[Alias, ...] = ()
    protect: bool | None = None
    retain_on_delete: bool | None = None
    delete_before_replace: bool | None = None
    deleted_with: str = ""
    replace_with: tuple[str, ...] = ()
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    replacement_trigger: Any = None
    additional_secret_outputs: tuple[str, ...] = ()
    hide_diff: tuple[str, ...] = ()
    import_id: str = ""
    custom_timeouts: CustomTimeouts = CustomTimeouts()
    source_position: str = ""
    stack_trace: tuple[str, ...] = ()
    resource_hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadGoal:
    """One resource that the program looks up by its id and does not own."""

    type: str
    name: str
    id: str
    parent: str
    provider: str
    properties: Properties
    dependencies: tuple[str, ...] = ()
    additional_secret_outputs: tuple[str, ...] = ()
    source_position: str = ""
    stack_trace: tuple[str, ...] = ()

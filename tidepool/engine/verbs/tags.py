"""``stack tag``: names and values that a person keeps with a stack."""

from __future__ import annotations

from dataclasses import dataclass

from tidepool.engine.arguments import World
from tidepool.engine.errors import EngineError
from tidepool.engine.verbs.showing import json_document, table
from tidepool.engine.verbs.workspace import open_workspace


@dataclass(frozen=True, slots=True)
class Get:
    """``stack tag get``."""

    name: str
    stack: str = ""

    def run(self, world: World) -> int:
        """Show one tag's value."""
        workspace = open_workspace(world)
        ref = workspace.require(self.stack or None)
        tags = workspace.backend.tags(ref)
        if self.name not in tags:
            raise EngineError(f"stack tag '{self.name}' not found for stack '{workspace.shown(ref)}'")
        world.say(tags[self.name])
        return 0


@dataclass(frozen=True, slots=True)
class List:
    """``stack tag list``."""

    stack: str = ""
    json: bool = False
    output: str = "default"

    def run(self, world: World) -> int:
        """Show all tags."""
        workspace = open_workspace(world)
        tags = workspace.backend.tags(workspace.require(self.stack or None))
        if self.json or self.output == "json":
            world.stdout.write(json_document(dict(sorted(tags.items()))))
        else:
            world.stdout.write(table(["NAME", "VALUE"], [[k, v] for k, v in sorted(tags.items())]))
        return 0


@dataclass(frozen=True, slots=True)
class Set:
    """``stack tag set``."""

    name: str
    value: str
    stack: str = ""

    def run(self, world: World) -> int:
        """Set one tag."""
        workspace = open_workspace(world)
        workspace.backend.set_tag(workspace.require(self.stack or None), self.name, self.value)
        return 0


@dataclass(frozen=True, slots=True)
class Remove:
    """``stack tag remove``."""

    name: str
    stack: str = ""

    def run(self, world: World) -> int:
        """Remove one tag; one that is not there is no mistake."""
        workspace = open_workspace(world)
        workspace.backend.remove_tag(workspace.require(self.stack or None), self.name)
        return 0

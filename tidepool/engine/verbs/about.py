"""``version`` and ``about``."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import Any, Final

from tidepool.engine.arguments import World

#: The version of the CLI whose commands, state and protocol this engine follows. The Automation API asks
#: `pulumi version` and decides by the answer what it may send: which commands exist, and that events go
#: to a gRPC server and not to a file. A version of the engine's own would be refused as too old, or make
#: it avoid what works. `about` says plainly that this is not the CLI.
COMPATIBLE_VERSION: Final = "3.260.0"


@dataclass(frozen=True, slots=True)
class Version:
    """``version``."""

    def run(self, world: World) -> int:
        """Show the version."""
        world.say(f"v{COMPATIBLE_VERSION}")
        return 0


@dataclass(frozen=True, slots=True)
class Hint:
    """No command at all."""

    def run(self, world: World) -> int:
        """Show the help."""
        from tidepool.engine.verbs.commands import ROOT
        from tidepool.engine.verbs.help import help_text

        world.stdout.write(help_text((ROOT,)))
        return 0


def root(version: bool = False) -> Version | Hint:
    """``pulumi`` without a command."""
    return Version() if version else Hint()


@dataclass(frozen=True, slots=True)
class About:
    """``about``."""

    stack: str = ""
    json: bool = False
    output: str = "default"

    def run(self, world: World) -> int:
        """Show where the engine runs and what it works on."""
        # Late, for `version` is asked for at every start of the Automation API.
        from tidepool.engine.errors import EngineError
        from tidepool.engine.verbs.showing import json_document, table
        from tidepool.engine.verbs.workspace import open_workspace

        rows: dict[str, Any] = {
            "engine": "tidepool, embedded",
            "compatibleWith": f"Pulumi CLI {COMPATIBLE_VERSION}, file backend",
            "python": f"{platform.python_version()} ({sys.executable})",
            "host": f"{platform.system()} {platform.release()} {platform.machine()}",
        }
        try:
            workspace = open_workspace(world)
            rows["backend"] = workspace.url
            if workspace.project is not None:
                rows["project"] = f"{workspace.project.name} ({workspace.project.file})"
            ref = workspace.require(self.stack or None)
            rows["stack"] = ref.qualified
        except EngineError as error:
            rows["problem"] = str(error)
        if self.json or self.output == "json":
            world.stdout.write(json_document(rows))
        else:
            world.stdout.write(table(["ABOUT", ""], [[k, v] for k, v in rows.items()]))
        return 0

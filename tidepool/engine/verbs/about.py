"""``version``, ``about``, and the help of each command, made from the table of commands."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import Any

from tidepool.engine.choice import COMPATIBLE_VERSION
from tidepool.engine.request import World
from tidepool.engine.verbs.grammar import Command, Flag, visible_flags


def version(world: World) -> None:
    """Show the version."""
    world.say(f"v{COMPATIBLE_VERSION}")


def root(world: World, version: bool = False) -> None:
    """Show the version, or the help."""
    from tidepool.engine.verbs.commands import ROOT

    world.stdout.write(f"v{COMPATIBLE_VERSION}\n" if version else help_text((ROOT,)))


def about(world: World, *, stack: str = "", json: bool = False) -> None:
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
        ref = workspace.require(stack)
        rows["stack"] = ref.qualified
    except EngineError as error:
        rows["problem"] = str(error)
    if json:
        world.stdout.write(json_document(rows))
    else:
        world.stdout.write(table(["ABOUT", ""], [[k, v] for k, v in rows.items()]))


def help_text(path: Sequence[Command]) -> str:
    """Return the ``--help`` of the last command of ``path``."""
    command = path[-1]
    called = " ".join(("pulumi", *(c.name for c in path[1:])))
    words = [called]
    for positional in command.positionals:
        name = positional.name.replace("_", "-") + ("..." if positional.many else "")
        words.append(f"<{name}>" if positional.required else f"[{name}]")
    lines = [command.help, "", "Usage:"]
    if command.function:
        lines.append(f"  {' '.join(words)} [flags]")
    if command.commands:
        lines.append(f"  {called} [command]")
    if command.aliases:
        lines += ["", "Aliases:", f"  {', '.join((command.name, *command.aliases))}"]
    here = [c for c in command.commands if not c.refused]
    there = [c.name for c in command.commands if c.refused]
    if here:
        lines += ["", "Commands:", *_table([(c.name, c.help) for c in here])]
    if there:
        lines += ["", f"The Pulumi CLI also has, and this engine has not: {', '.join(there)}."]
    flags = [f for f in visible_flags(path) if not f.hidden]
    own = {f.name for f in command.flags} | {"help"}
    for title, shown in (
        ("Flags:", [f for f in flags if f.name in own]),
        ("Global flags:", [f for f in flags if f.name not in own]),
    ):
        if shown:
            rows = [(_spelled(f), f.help) for f in sorted(shown, key=lambda f: f.name)]
            lines += ["", title, *_table(rows)]
    return "\n".join(lines) + "\n"


def _spelled(flag: Flag) -> str:
    letter = f"-{flag.short}, " if flag.short else "    "
    value = {"bool": "", "int": " N", "optional": "[=VALUE]"}.get(flag.kind, " TEXT")
    return f"{letter}--{flag.name}{value}"


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(left) for left, _ in rows)
    return [f"  {left.ljust(width)}  {right}".rstrip() for left, right in rows]

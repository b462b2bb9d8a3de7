"""``plugin list``: the provider plugins that are installed in Pulumi's home."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidepool.engine.arguments import World
from tidepool.engine.verbs.showing import ago, json_document, table, time_text

_FOLDER = re.compile(r"(?P<kind>resource|language|analyzer|converter|tool)-(?P<name>.+?)-v(?P<version>\d.*)")


@dataclass(frozen=True, slots=True)
class List:
    """``plugin list``."""

    json: bool = False
    output: str = "default"

    def run(self, world: World) -> int:
        """List the installed plugins."""
        found = sorted(_plugins(world.pulumi_home / "plugins"), key=lambda p: (p["name"], p["version"]))
        if self.json or self.output == "json":
            world.stdout.write(json_document([{k: v for k, v in p.items() if k != "moment"} for p in found]))
            return 0
        now = datetime.now(UTC)
        rows = [[p["name"], p["kind"], p["version"], _size(p["size"]), ago(p["moment"], now)] for p in found]
        world.stdout.write(table(["NAME", "KIND", "VERSION", "SIZE", "INSTALLED"], rows))
        world.say(f"\nTOTAL plugin cache size: {_size(sum(p['size'] for p in found))}")
        return 0


def _plugins(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _FOLDER.fullmatch(path.name)
        # A .partial file beside it says that its installation was cut off.
        if match is None or not path.is_dir() or path.with_name(path.name + ".partial").exists():
            continue
        moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        found.append(
            {
                "name": match["name"],
                "kind": match["kind"],
                "version": match["version"],
                "size": sum(f.stat().st_size for f in path.rglob("*") if f.is_file()),
                "installTime": time_text(moment),
                "lastUsedTime": time_text(moment),
                "moment": moment,
            }
        )
    return found


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

"""What a step left on disk, so that another command line can take it over where the first is not installed.

Kept as it is, but for stack frames outside the project: those tell where somebody's Python is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .sandbox import Sandbox

_OUTSIDE: Final = ("project:///../", "file://")


def collect(box: Sandbox) -> dict[str, Any]:
    """The stacks' checkpoints and settings and all of the cloud, by path below the sandbox's root."""
    found: dict[str, Any] = {}
    for path in _paths(box):
        text = path.read_text()
        name = str(path.relative_to(box.root))
        found[name] = (
            _without_outside(json.loads(text)) if "/stacks/" in name and path.suffix == ".json" else text
        )
    return found


def restore(box: Sandbox, files: dict[str, Any]) -> None:
    """Make the sandbox hold ``files`` and nothing else of their kind."""
    for path in _paths(box):
        path.unlink()
    for name, content in files.items():
        path = box.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=4))


def _paths(box: Sandbox) -> Iterator[Path]:
    kept = (box.backend / ".pulumi" / "stacks", box.cloud)
    for folder in kept:
        yield from (
            p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix not in (".bak", ".attrs")
        )
    yield from (p for p in (box.backend / ".pulumi").glob("meta.yaml"))
    yield from sorted(box.project.glob("Pulumi.*.yaml"))


def _without_outside(value: Any) -> Any:
    match value:
        case dict():
            return {
                k: _without_outside(v)
                for k, v in value.items()
                if not (k == "sourcePosition" and isinstance(v, str) and v.startswith(_OUTSIDE))
            }
        case list():
            return [_without_outside(v) for v in value]
        case _:
            return value

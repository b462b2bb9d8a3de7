"""A stack's tags: one small file beside the stack's, as Pulumi's file backend writes it (``stack_tags.go``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidepool.engine.errors import EngineError
from tidepool.engine.state import files, jsontext

_VERSION: Final = 1


def read_tags(path: Path) -> dict[str, str]:
    """The tags in ``path``, by name; none where there is no such file.

    Raises:
        EngineError: when the file is damaged or of another version.
    """
    try:
        raw = jsontext.loads(files.read(path))
    except FileNotFoundError:
        return {}
    except jsontext.JsonDamage as error:
        raise EngineError(f"the stack's tags are damaged: {path}: {error}. Remove the file") from error
    version = raw.get("version") if isinstance(raw, dict) else None
    if version != _VERSION:
        raise EngineError(f"unsupported stack tags version: {version} (expected {_VERSION}) in {path}")
    return dict(sorted((raw.get("tags") or {}).items()))


def write_tags(path: Path, tags: Mapping[str, str]) -> None:
    """Make ``tags`` what ``path`` holds; without tags there is no file."""
    if not tags:
        files.remove(path)
        return
    content = {"version": _VERSION, "tags": dict(sorted(tags.items()))}
    files.write(path, jsontext.dumps(content).encode("utf-8"))

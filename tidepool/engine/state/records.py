"""Records beside a stack's state: its tags, and one file for each past update, as Pulumi's file backend writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.engine import json_text
from tidepool.engine.errors import EngineError
from tidepool.engine.state import files

_SUFFIXES: Final = (".history.json", ".history.json.gz", ".history.json.zst")


@dataclass(frozen=True, slots=True)
class UpdateInfo:
    """One update. Times are seconds since 1970.

    ``kind`` is "update", "refresh", "destroy", "import" or "rename"; ``result`` is "succeeded" or "failed".
    ``config`` maps full keys to their text, or to ``{"secure": CIPHERTEXT}``; ``resource_changes`` maps
    operations (``create``, ``same``, ...) to how many there were.
    """

    kind: str
    start_time: int
    end_time: int
    result: str
    message: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    resource_changes: Mapping[str, int] = field(default_factory=dict)
    version: int = 0


def encode_update(update: UpdateInfo) -> dict[str, Any]:
    """The JSON form, keys in Go's order."""
    out: dict[str, Any] = {
        "kind": update.kind,
        "startTime": update.start_time,
        "message": update.message,
        "environment": dict(sorted(update.environment.items())),
        "config": dict(sorted(update.config.items())),
        "version": update.version,
        "result": update.result,
        "endTime": update.end_time,
    }
    if update.resource_changes:
        out["resourceChanges"] = dict(sorted(update.resource_changes.items()))
    return out


def decode_update(raw: Mapping[str, Any]) -> UpdateInfo:
    """The update that its JSON form tells of."""
    return UpdateInfo(
        kind=raw["kind"],
        start_time=raw.get("startTime") or 0,
        end_time=raw.get("endTime") or 0,
        result=raw.get("result") or "",
        message=raw.get("message") or "",
        environment=raw.get("environment") or {},
        config=raw.get("config") or {},
        resource_changes=raw.get("resourceChanges") or {},
        version=raw.get("version") or 0,
    )


def read_history(folder: Path, page: int = 1, page_size: int = 0) -> list[UpdateInfo]:
    """The updates in ``folder``, latest first. Pages count from 1; a ``page_size`` of 0 gives all.

    Raises:
        EngineError: when a file of the page is damaged, naming it.
    """
    found = [name for name in files.names(folder) if name.endswith(_SUFFIXES)]
    found.reverse()  # names end in the time, so this is the order of time
    if page_size > 0:
        start = (max(page, 1) - 1) * page_size
        found = found[start : start + page_size]
    return [_read_update(folder / name) for name in found]


def _read_update(path: Path) -> UpdateInfo:
    try:
        return decode_update(json_text.loads(files.read(path)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(
            f"reading history file {path}: {error}. Remove the file to see the rest of the history"
        ) from error


_VERSION: Final = 1


def read_tags(path: Path) -> dict[str, str]:
    """The tags in ``path``, by name; none where there is no such file.

    Raises:
        EngineError: when the file is damaged or of another version.
    """
    try:
        raw = json_text.loads(files.read(path))
    except FileNotFoundError:
        return {}
    except json_text.JsonDamage as error:
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
    files.write(path, json_text.dumps(content).encode("utf-8"))

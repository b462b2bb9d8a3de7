"""The selected stack of a project and backend, stored where the CLI stores it, so that both agree.

The file is ``PULUMI_HOME/workspaces/<project>-<sha1 of the project file's path>-workspace.json``. Source:
``pkg/workspace/workspace.go`` and ``settings.go``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tidepool.engine.errors import EngineError
from tidepool.engine.project import Project
from tidepool.engine.state import files


def selected(pulumi_home: Path, project: Project, backend_url: str) -> str | None:
    """The full name of the stack that is selected, None where none is."""
    settings = _read(_path(pulumi_home, project))
    by_backend = settings.get("stacks") or {}
    # Before there was one selection a backend, there was one for all, under "stack".
    return by_backend.get(backend_url) or settings.get("stack") or None


def select(pulumi_home: Path, project: Project, backend_url: str, stack: str | None) -> None:
    """Select the stack with the full name ``stack``; None selects none."""
    path = _path(pulumi_home, project)
    settings = _read(path)
    stacks = dict(settings.get("stacks") or {})
    if stack:
        stacks[backend_url] = stack
    else:
        stacks.pop(backend_url, None)
        settings.pop("stack", None)
    settings = {k: v for k, v in settings.items() if k != "stacks"}
    if stacks:
        settings["stacks"] = stacks
    if settings:
        files.write(path, json.dumps(settings, indent=4).encode())
    else:
        files.remove(path)


def _path(pulumi_home: Path, project: Project) -> Path:
    # A name for a file, as the CLI makes it; nothing is protected by it.
    digest = hashlib.sha1(str(project.file).encode(), usedforsecurity=False).hexdigest()
    return pulumi_home / "workspaces" / f"{project.name}-{digest}-workspace.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EngineError(
            f"could not parse file {path}: {error}. Remove it, and select the stack again"
        ) from error
    if not isinstance(settings, dict):
        raise EngineError(
            f"could not parse file {path}: not an object. Remove it, and select the stack again"
        )
    return settings

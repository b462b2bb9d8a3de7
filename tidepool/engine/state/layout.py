"""Keys of Pulumi's DIY backends, names of stacks and backends, and which of them Pulumi's home says is chosen.

The layout is version 1 of Pulumi's DIY backends (``pkg/backend/diy/store.go``), below the bucket's root::

    .pulumi/meta.yaml                                   version: 1
    .pulumi/stacks/PROJECT/STACK.json[.gz]              the checkpoint, and .bak beside it
    .pulumi/stacks/PROJECT/STACK.pulumi-tags            tags
    .pulumi/history/PROJECT/STACK/STACK-NS.history.json what each update did, and .checkpoint.json after it
    .pulumi/backups/PROJECT/STACK/STACK.NS.json         the checkpoint after each update
    .pulumi/locks/organization/PROJECT/STACK/UUID.json  who is at work
    .pulumi/journals/PROJECT/STACK.journal              ours alone: the CLI does not look there

The selected stack of a project and backend is stored where the CLI stores it, so that both agree:
``PULUMI_HOME/workspaces/<project>-<sha1 of the project file's path>-workspace.json`` (``pkg/workspace/workspace.go``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.engine.errors import EngineError
from tidepool.engine.project import Project
from tidepool.engine.state import files
from tidepool.engine.state.bucket import Bucket

ORGANIZATION: Final = "organization"
DEFAULT_URL: Final = "file://~"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NAME_LIMIT: Final = 100


class InvalidName(EngineError):
    """The name of a stack or project is not allowed."""


@dataclass(frozen=True, slots=True, order=True)
class StackReference:
    """A stack of the file backend; both names are of ``[A-Za-z0-9_.-]``, at most 100 characters."""

    project: str
    name: str

    @property
    def qualified(self) -> str:
        """The full name, ``organization/PROJECT/STACK``; the first part never varies."""
        return f"{ORGANIZATION}/{self.project}/{self.name}"

    def __str__(self) -> str:
        return self.qualified

    @classmethod
    def parse(cls, text: str, project: str | None) -> StackReference:
        """The stack that ``text`` names: ``STACK``, ``organization/STACK`` or ``organization/PROJECT/STACK``.

        ``project`` is the project of the current folder, None where there is none.

        Raises:
            InvalidName: when the text is not such a name, or there is no project to complete it with.
        """
        if not text:
            raise InvalidName("stack name must not be empty")
        organization, parts = ORGANIZATION, text.split("/")
        if len(parts) > 3:
            raise InvalidName(f"invalid stack name {text!r}: expected STACK or organization/PROJECT/STACK")
        if len(parts) > 1:
            organization, *parts = parts
        if organization != ORGANIZATION:
            raise InvalidName(
                f"invalid stack name {text!r}: organization name must be 'organization' in a file backend"
            )
        name = parts[-1]
        chosen = parts[0] if len(parts) == 2 else project
        if not chosen:
            raise InvalidName(
                "no Pulumi.yaml project file found; either run this command from a directory containing a "
                "Pulumi project, or pass the fully qualified stack name (organization/project/stack)"
            )
        verify_name("project", chosen)
        verify_name("stack", name)
        return cls(chosen, name)


def verify_name(kind: str, name: str) -> None:
    """Check the name of a ``kind`` ("stack" or "project").

    Raises:
        InvalidName: naming the first character that is not allowed.
    """
    if not name:
        raise InvalidName(f"a {kind} name may not be empty")
    if len(name) > _NAME_LIMIT:
        raise InvalidName(f"a {kind} name cannot exceed {_NAME_LIMIT} characters")
    match = _NAME.match(name)
    end = match.end() if match else 0
    if end != len(name):
        raise InvalidName(
            f"a {kind} name may only contain alphanumeric, hyphens, underscores, or periods: "
            f"invalid character {name[end]!r} at position {end}"
        )
    if name in (".", ".."):
        # The CLI lets these through and then writes into the wrong folder.
        raise InvalidName(f"a {kind} cannot be named {name!r}")


@dataclass(frozen=True, slots=True)
class Layout:
    """The keys below a bucket's root: of a folder, the paths of its files."""

    root: Path

    @property
    def bookkeeping(self) -> Path:
        return self.root / ".pulumi"

    @property
    def meta(self) -> Path:
        return self.bookkeeping / "meta.yaml"

    @property
    def stacks(self) -> Path:
        return self.bookkeeping / "stacks"

    def checkpoint(self, ref: StackReference) -> Path:
        """The stack file without compression."""
        return self.stacks / ref.project / f"{ref.name}.json"

    def tags(self, ref: StackReference) -> Path:
        return self.stacks / ref.project / f"{ref.name}.pulumi-tags"

    def history(self, ref: StackReference) -> Path:
        return self.bookkeeping / "history" / ref.project / ref.name

    def backups(self, ref: StackReference) -> Path:
        return self.bookkeeping / "backups" / ref.project / ref.name

    def locks(self, ref: StackReference) -> Path:
        return self.bookkeeping / "locks" / ORGANIZATION / ref.project / ref.name

    def journal(self, ref: StackReference) -> Path:
        """The journal of the operation that is, or was, under way."""
        return self.bookkeeping / "journals" / ref.project / f"{ref.name}.journal"


def backend_url(env: Mapping[str, str], project_backend_url: str | None = None) -> str:
    """Return the URL of the state: ``PULUMI_BACKEND_URL``, the project's ``backend.url``, the login, ``file://~``.

    The login is read from ``credentials.json`` in ``PULUMI_CREDENTIALS_PATH``, ``PULUMI_HOME`` or ``~/.pulumi``.

    Raises:
        EngineError: when the login's file cannot be read.
    """
    chosen = env.get("PULUMI_BACKEND_URL") or project_backend_url
    if chosen:
        return chosen
    folder = env.get("PULUMI_CREDENTIALS_PATH") or env.get("PULUMI_HOME")
    if folder is None and "HOME" in env:
        folder = str(Path(env["HOME"]) / ".pulumi")
    if not folder:
        return DEFAULT_URL
    file = Path(folder) / "credentials.json"
    try:
        login = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return DEFAULT_URL
    except (OSError, ValueError) as error:
        raise EngineError(
            f"failed to read the Pulumi credentials file {file}: {error}. Fix or delete it, or set "
            "PULUMI_BACKEND_URL"
        ) from error
    current = login.get("current") if isinstance(login, dict) else None
    return current if isinstance(current, str) and current else DEFAULT_URL


_VERSION: Final = 1


def verify_version(bucket: Bucket, layout: Layout) -> bool:
    """Check that stacks lie in folders of their projects; returns whether the bucket says so itself.

    Raises:
        EngineError: when the layout is older or newer, with the command that upgrades it.
    """
    version = _read_version(bucket, layout)
    if version is not None and version > _VERSION:
        raise EngineError(
            f"state store unsupported: 'meta.yaml' version ({version}) is not supported by this engine, "
            f"which reads version {_VERSION} ({bucket.location(layout.meta)}). Use the Pulumi CLI that wrote it"
        )
    legacy = legacy_stacks(bucket, layout) if not version else []
    if version == 0 or legacy:
        raise EngineError(
            f"the state in {bucket.location(layout.bookkeeping)} has the legacy layout without projects (stacks: "
            f"{', '.join(legacy) or 'none'}), which is not supported. Upgrade it with the Pulumi CLI: "
            "pulumi state upgrade"
        )
    return version is not None


def write_version(bucket: Bucket, layout: Layout) -> None:
    """Note in the bucket which layout it has."""
    bucket.write(layout.meta, f"version: {_VERSION}\n".encode(), mode=0o644)


def legacy_stacks(bucket: Bucket, layout: Layout) -> list[str]:
    """The names of stacks in the layout from before projects, which the CLI warns of and nobody reads."""
    found = [name.removesuffix(files.GZIP).removesuffix(files.ZSTD) for name in bucket.names(layout.stacks)]
    return [name.removesuffix(".json") for name in found if name.endswith(".json")]


def _read_version(bucket: Bucket, layout: Layout) -> int | None:
    try:
        text = bucket.read(layout.meta).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    # One key: not worth the import of a YAML parser, which costs more than reading the state.
    match = re.search(r"^[\"']?version[\"']?\s*:\s*(\d+)\s*(#.*)?$", text, re.MULTILINE)
    if match is None:
        raise EngineError(
            f'corrupt store: missing version in "{bucket.location(layout.meta)}". Write "version: 1" into it, if the '
            "stacks lie in folders of their projects"
        )
    return int(match[1])


def selected_stack(pulumi_home: Path, project: Project, backend_url: str) -> str | None:
    """The full name of the stack that is selected, None where none is."""
    settings = _read_settings(_settings_path(pulumi_home, project))
    by_backend = settings.get("stacks") or {}
    # The CLI 3.255 has one selection for all backends, under "stack"; later ones have one of each.
    of_all = settings.get("stack")
    return by_backend.get(backend_url) or (of_all if of_all not in by_backend.values() else None) or None


def select_stack(pulumi_home: Path, project: Project, backend_url: str, stack: str | None) -> None:
    """Select the stack with the full name ``stack``; None selects none."""
    path = _settings_path(pulumi_home, project)
    settings = _read_settings(path)
    stacks = dict(settings.get("stacks") or {})
    if stack:
        stacks[backend_url] = settings["stack"] = stack
    else:
        stacks.pop(backend_url, None)
        # The one selection of the CLI 3.255 may be another backend's.
        if settings.get("stack") not in stacks.values():
            settings.pop("stack", None)
    settings = {k: v for k, v in settings.items() if k != "stacks"}
    if stacks:
        settings["stacks"] = stacks
    if settings:
        files.write(path, json.dumps(settings, indent=4).encode())
    else:
        files.remove(path)


def _settings_path(pulumi_home: Path, project: Project) -> Path:
    # A name for a file, as the CLI makes it; nothing is protected by it.
    digest = hashlib.sha1(str(project.file).encode(), usedforsecurity=False).hexdigest()
    return pulumi_home / "workspaces" / f"{project.name}-{digest}-workspace.json"


def _read_settings(path: Path) -> dict[str, Any]:
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

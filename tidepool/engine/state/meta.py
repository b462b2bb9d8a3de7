"""Which layout a folder of state has: the version in ``.pulumi/meta.yaml`` (``pkg/backend/diy/meta.go``)."""

from __future__ import annotations

import re
from typing import Final

from tidepool.engine.errors import EngineError
from tidepool.engine.state import files
from tidepool.engine.state.layout import Layout

_VERSION: Final = 1


def verify_version(layout: Layout) -> bool:
    """Check that stacks lie in folders of their projects; returns whether the folder says so itself.

    Raises:
        EngineError: when the layout is older or newer, with the command that upgrades it.
    """
    version = _read_version(layout)
    if version is not None and version > _VERSION:
        raise EngineError(
            f"state store unsupported: 'meta.yaml' version ({version}) is not supported by this engine, "
            f"which reads version {_VERSION} ({layout.meta}). Use the Pulumi CLI that wrote it"
        )
    legacy = legacy_stacks(layout) if not version else []
    if version == 0 or legacy:
        raise EngineError(
            f"the state in {layout.bookkeeping} has the legacy layout without projects (stacks: "
            f"{', '.join(legacy) or 'none'}), which is not supported. Upgrade it with the Pulumi CLI: "
            "pulumi state upgrade"
        )
    return version is not None


def write_version(layout: Layout) -> None:
    """Note in the folder which layout it has."""
    files.write(layout.meta, f"version: {_VERSION}\n".encode(), mode=0o644)


def legacy_stacks(layout: Layout) -> list[str]:
    """The names of stacks in the layout from before projects, which the CLI warns of and nobody reads."""
    found = [name.removesuffix(files.GZIP).removesuffix(files.ZSTD) for name in files.names(layout.stacks)]
    return [name.removesuffix(".json") for name in found if name.endswith(".json")]


def _read_version(layout: Layout) -> int | None:
    try:
        text = files.read(layout.meta).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    # One key: not worth the import of a YAML parser, which costs more than reading the state.
    match = re.search(r"^[\"']?version[\"']?\s*:\s*(\d+)\s*(#.*)?$", text, re.MULTILINE)
    if match is None:
        raise EngineError(
            f'corrupt store: missing version in "{layout.meta}". Write "version: 1" into it, if the '
            "stacks lie in folders of their projects"
        )
    return int(match[1])

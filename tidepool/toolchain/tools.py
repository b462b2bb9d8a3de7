"""The tools, in a folder of their source's digest in a cache; or where TIDEPOOL_TOOLCHAIN says.

<digest>/           whole: a program of each tool's name, and tools.json, which says what they are
<digest>.partial/   one that is being built, or whose build was cut off
<digest>.lock       held by who builds it
<digest>.log        what a build said, kept where it failed
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidepool.toolchain.source import SOURCE, TOOLS, ToolchainMissing, read_source

#: The variable that names a folder with the tools.
TOOLCHAIN: Final = "TIDEPOOL_TOOLCHAIN"

MANIFEST: Final = "tools.json"
_REMEDY: Final = (
    "`make kubernetes` builds it (about 6 minutes on two cores the first time, and some 4 GB of caches)"
)


@dataclass(frozen=True)
class Tool:
    """A program: ``sha256`` of its file, in hexadecimal digits."""

    name: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class Toolchain:
    """All tools, in ``folder``. ``version`` is Kubernetes', such as 1.36.3; empty where the folder does not say."""

    folder: Path
    version: str

    def path(self, tool: str) -> Path:
        """Return the program of that name."""
        if tool not in TOOLS:
            raise ValueError(f"{tool} is no tool: there are {', '.join(TOOLS)}")
        return self.folder / tool

    def tool(self, tool: str) -> Tool:
        """Return the program with its digest, which takes no time the second time."""
        path = self.path(tool)
        status = path.stat()
        return Tool(tool, path, _digest(path, status.st_size, status.st_mtime_ns))


def cache(environment: Mapping[str, str]) -> Path:
    """Return the folder of what is built for a person, in the XDG cache folder."""
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/root")) / ".cache")
    return Path(base) / "tidepool" / "toolchain"


def find(environment: Mapping[str, str], source: Path = SOURCE) -> Toolchain:
    """Return the toolchain, where it is there and whole; takes about a millisecond.

    Raises:
        ToolchainMissing: it is not built, or a tool is missing; says how to build it.
        ToolchainError: ``source`` is no module that it can be built from.
    """
    if named := environment.get(TOOLCHAIN):
        folder = Path(named).absolute()
        if lacks := lacking(folder):
            raise ToolchainMissing(
                f"{folder}, which {TOOLCHAIN} names, has no program {', '.join(lacks)}",
                f"unset {TOOLCHAIN}, then {_REMEDY}",
            )
    else:
        folder = cache(environment) / read_source(source).digest
        if lacks := lacking(folder):
            state = f"{folder} has no {', '.join(lacks)}" if folder.exists() else f"there is no {folder}"
            raise ToolchainMissing(f"Kubernetes is not built for this machine ({state})", _REMEDY)
    return Toolchain(folder, _version(folder))


def lacking(folder: Path) -> tuple[str, ...]:
    """Return the tools that ``folder`` does not have as programs."""
    return tuple(tool for tool in TOOLS if not os.access(folder / tool, os.X_OK))


def _version(folder: Path) -> str:
    try:
        return str(json.loads((folder / MANIFEST).read_text())["kubernetes"])
    except FileNotFoundError:
        return ""


@functools.cache
def _digest(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""The tools, in a folder of their source's digest in a cache; or where a variable of the module says.

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

from tidepool.toolchain.source import KUBERNETES, Module, ToolchainMissing, read_source

MANIFEST: Final = "tools.json"


@dataclass(frozen=True)
class Tool:
    """A program: ``sha256`` of its file, in hexadecimal digits."""

    name: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class Toolchain:
    """All tools of ``module``, in ``folder``. ``version`` is such as 1.36.3; empty where the folder does not say."""

    folder: Path
    version: str
    module: Module = KUBERNETES

    def path(self, tool: str) -> Path:
        if tool not in self.module.tools:
            raise ValueError(f"{tool} is no tool: there are {', '.join(self.module.tools)}")
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


def find(environment: Mapping[str, str], module: Module = KUBERNETES) -> Toolchain:
    """Return the tools of ``module``, where they are there and whole; takes about a millisecond.

    Raises:
        ToolchainMissing: they are not built, or one is missing; says how to build them.
        ToolchainError: its folder is no module that they can be built from.
    """
    if named := environment.get(module.variable):
        folder = Path(named).absolute()
        if lacks := lacking(folder, module):
            raise ToolchainMissing(
                f"{folder}, which {module.variable} names, has no program {', '.join(lacks)}",
                f"unset {module.variable}, then {module.remedy}",
            )
        return Toolchain(folder, _version(folder, module), module)
    return built(environment, module)


def built(environment: Mapping[str, str], module: Module) -> Toolchain:
    """Return what was built here, whatever a variable names. Raises as :func:`find` does."""
    folder = cache(environment) / read_source(module).digest
    if lacks := lacking(folder, module):
        state = f"{folder} has no {', '.join(lacks)}" if folder.exists() else f"there is no {folder}"
        raise ToolchainMissing(f"{module.title} is not built for this machine ({state})", module.remedy)
    return Toolchain(folder, _version(folder, module), module)


def lacking(folder: Path, module: Module) -> tuple[str, ...]:
    """Return the tools that ``folder`` does not have as programs."""
    return tuple(tool for tool in module.tools if not os.access(folder / tool, os.X_OK))


def _version(folder: Path, module: Module) -> str:
    try:
        return str(json.loads((folder / MANIFEST).read_text())[module.name])
    except FileNotFoundError:
        return ""


@functools.cache
def _digest(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

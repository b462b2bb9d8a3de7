"""The tools, in a folder of their source's digest in a cache; or where TIDEPOOL_TOOLCHAIN says.

Their source is the Go module in `toolchain/kubernetes`.

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
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tidepool.shipped import KUBERNETES

SOURCE: Final = KUBERNETES

#: Each tool's Go package. Those that are not ours are tools of the module as well, which holds their versions.
TOOLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubelet": "k8s.io/kubernetes/cmd/kubelet",
        "pause": "./pause",
    }
)

#: Raised by whoever changes what is built from the same sources.
_BUILDER: Final = 1


class ToolchainError(Exception):
    """Something about the toolchain is wrong. Its text is shown as it is, without a traceback."""


class ToolchainMissing(ToolchainError):
    """It is not built, or not whole."""


class CannotBuild(ToolchainError):
    """This machine lacks what it is built with: Go, or the modules."""


class BuildFailed(ToolchainError):
    """A build failed, or another one does not end."""


@dataclass(frozen=True)
class Source:
    """``digest``: 64 hexadecimal digits; ``kubernetes`` a version such as 1.36.3; ``go`` the oldest that builds it."""

    folder: Path
    digest: str
    kubernetes: str
    go: tuple[int, int]


def read_source(folder: Path = SOURCE) -> Source:
    """Read the module in ``folder``; takes about a millisecond.

    Raises:
        ToolchainMissing: there is no such folder.
        ToolchainError: it is no module that Kubernetes can be built from.
    """
    files = [folder / "go.mod", folder / "go.sum", *sorted(folder.rglob("*.go"))]
    try:
        digests = {
            str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
        }
        module = files[0].read_text()
    except FileNotFoundError as error:
        raise ToolchainMissing(
            f"{error.filename} is not there, from which the tools are built; TIDEPOOL_TOOLCHAIN may name a folder that has them"
        ) from None
    kubernetes = re.search(r"(?m)^\s*(?:require )?k8s\.io/kubernetes v(\d+\.\d+\.\S+)", module)
    go = re.search(r"(?m)^go (\d+)\.(\d+)", module)
    if kubernetes is None or go is None:
        raise ToolchainError(f"{files[0]} requires no k8s.io/kubernetes, or names no version of Go")
    decides = {
        "builder": _BUILDER,
        "machine": platform.machine(),
        "tools": dict(TOOLS),
        "files": digests,
    }
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return Source(folder, digest, kubernetes[1], (int(go[1]), int(go[2])))


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
                f"{folder}, which {TOOLCHAIN} names, has no program {', '.join(lacks)}: unset {TOOLCHAIN}, then {_REMEDY}"
            )
    else:
        folder = cache(environment) / read_source(source).digest
        if lacks := lacking(folder):
            state = f"{folder} has no {', '.join(lacks)}" if folder.exists() else f"there is no {folder}"
            raise ToolchainMissing(f"Kubernetes is not built for this machine ({state}): {_REMEDY}")
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

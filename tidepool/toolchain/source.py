"""Source of the tools: the Go module in `toolchain/kubernetes`, and the digest of all that decides; and what goes wrong."""

from __future__ import annotations

import hashlib
import json
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
    """Something about the toolchain is wrong. Its text, which ends with the remedy, is shown as it is, without a traceback."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}: {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


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

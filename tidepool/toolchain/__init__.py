"""The toolchain: a Kubernetes for this machine, built from Go modules by `make kubernetes`.

tools = find(os.environ)      # raises ToolchainMissing, which says how to build it
tools.path("kube-apiserver")
tools.version                 # "1.36.3"
"""

from tidepool.toolchain.build import build
from tidepool.toolchain.source import (
    SOURCE,
    TOOLS,
    BuildFailed,
    CannotBuild,
    Source,
    ToolchainError,
    ToolchainMissing,
    read_source,
)
from tidepool.toolchain.tools import TOOLCHAIN, Tool, Toolchain, find

__all__ = [
    "SOURCE",
    "TOOLCHAIN",
    "TOOLS",
    "BuildFailed",
    "CannotBuild",
    "Source",
    "Tool",
    "Toolchain",
    "ToolchainError",
    "ToolchainMissing",
    "build",
    "find",
    "read_source",
]

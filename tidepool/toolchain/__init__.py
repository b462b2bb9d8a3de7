"""The toolchain: a Kubernetes for this machine, built from Go modules by `make kubernetes`.

tools = find(os.environ)      # raises ToolchainMissing, which says how to build it
tools.path("kube-apiserver")
tools.version                 # "1.36.3"
"""

from tidepool.toolchain.build import build as build
from tidepool.toolchain.source import SOURCE as SOURCE
from tidepool.toolchain.source import TOOLS as TOOLS
from tidepool.toolchain.source import BuildFailed as BuildFailed
from tidepool.toolchain.source import CannotBuild as CannotBuild
from tidepool.toolchain.source import Source as Source
from tidepool.toolchain.source import ToolchainError as ToolchainError
from tidepool.toolchain.source import ToolchainMissing as ToolchainMissing
from tidepool.toolchain.source import read_source as read_source
from tidepool.toolchain.tools import TOOLCHAIN as TOOLCHAIN
from tidepool.toolchain.tools import Tool as Tool
from tidepool.toolchain.tools import Toolchain as Toolchain
from tidepool.toolchain.tools import find as find

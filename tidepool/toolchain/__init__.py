"""The toolchain: a Kubernetes for this machine, built from Go modules by `make kubernetes`.

tools = find(os.environ)      # raises ToolchainMissing, which says how to build it
tools.path("kube-apiserver")
tools.version                 # "1.36.3"
"""

from tidepool.toolchain.build import build as build
from tidepool.toolchain.tools import SOURCE as SOURCE
from tidepool.toolchain.tools import TOOLCHAIN as TOOLCHAIN
from tidepool.toolchain.tools import TOOLS as TOOLS
from tidepool.toolchain.tools import BuildFailed as BuildFailed
from tidepool.toolchain.tools import CannotBuild as CannotBuild
from tidepool.toolchain.tools import Source as Source
from tidepool.toolchain.tools import Tool as Tool
from tidepool.toolchain.tools import Toolchain as Toolchain
from tidepool.toolchain.tools import ToolchainError as ToolchainError
from tidepool.toolchain.tools import ToolchainMissing as ToolchainMissing
from tidepool.toolchain.tools import find as find
from tidepool.toolchain.tools import read_source as read_source

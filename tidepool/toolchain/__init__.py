"""The toolchain: programs for this machine, built from Go modules by `make kubernetes`, `make volcano`, `make pulumi` and so on.

tools = find(os.environ)      # or find(os.environ, PULUMI); raises ToolchainMissing, which says how to build it
tools.path("kube-apiserver")
tools.version                 # "1.36.3"
"""

from tidepool.toolchain.build import build as build
from tidepool.toolchain.source import KUBERNETES as KUBERNETES
from tidepool.toolchain.source import KUEUE as KUEUE
from tidepool.toolchain.source import KWOK as KWOK
from tidepool.toolchain.source import MODULES as MODULES
from tidepool.toolchain.source import NOMAD as NOMAD
from tidepool.toolchain.source import OBJECTSTORE as OBJECTSTORE
from tidepool.toolchain.source import PULUMI as PULUMI
from tidepool.toolchain.source import VOLCANO as VOLCANO
from tidepool.toolchain.source import BuildFailed as BuildFailed
from tidepool.toolchain.source import CannotBuild as CannotBuild
from tidepool.toolchain.source import Module as Module
from tidepool.toolchain.source import ToolchainError as ToolchainError
from tidepool.toolchain.source import ToolchainMissing as ToolchainMissing
from tidepool.toolchain.source import read_source as read_source
from tidepool.toolchain.tools import Tool as Tool
from tidepool.toolchain.tools import Toolchain as Toolchain
from tidepool.toolchain.tools import find as find
